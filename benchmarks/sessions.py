"""Measure what remains of a session, on transcripts with a person's list of points to remember, written without sight of the code.

    python benchmarks/sessions.py [--show] [--only en-01] [--expected expected_more.json]

`memory session-end` ends each transcript in its own home; when the ingestion that it starts is done, the next session of the project
begins. A point is told if the summary has all of its words. `brief` is the share of done, decided and open points that the next session
is told; `noted`, the share of the user's lasting sentences that became notes. Errors and noise need a human reader: `--show`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from memory_assets.learn.noted import read_noted
from memory_assets.models import Kind
from memory_assets.settings import load_settings
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant

SET = Path(__file__).parent / "sets" / "transcripts"
KINDS = ("asked", "done", "decided", "open", "files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print what each session left")
    parser.add_argument("--only", default="", help="run only this transcript")
    parser.add_argument(
        "--expected",
        default="expected.json",
        help="file of expected points (expected_more.json: four sessions that were judged once)",
    )
    given = parser.parse_args()
    expected = json.loads((SET / given.expected).read_text(encoding="utf-8"))["sessions"]
    told: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    lengths: list[int] = []
    secrets = 0
    for session in expected:
        if not session["session"].startswith(given.only):
            continue
        notes = []
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for number, end in enumerate(session["ends"], 1):
                summary, brief, notes = ended(Path(folder), session["session"], end)
                points = [point for point in session["points"] if point["end"] == number]
                missing = [point for point in points if not is_told(point, summary)]
                for point in points:
                    wanted[point["kind"]] += 1
                    told[point["kind"]] += point not in missing
                    if point["kind"] in ("done", "decided", "open"):
                        wanted["brief"] += 1
                        told["brief"] += is_told(point, brief)
                lengths.append(len(summary.split()))
                secrets += sum(secret in text for secret in session["secrets"] for text in (summary, brief, *notes))
                if given.show:
                    print(f"== {session['session']}, end {number}: {lengths[-1]} words\n{summary}\n-- next session\n{brief}")
                    print("-- missing", *(f"{point['kind']}: {point['text']}" for point in missing), "-- noted", *notes, sep="\n")
            wanted["noted"] += len(session["lasting"])
            told["noted"] += sum(any(same(sentence, note) for note in notes) for sentence in session["lasting"])
            wanted["notes"] += len(notes)
    for name in (*KINDS, "brief", "noted"):
        print(f"{name:8} {told[name]} of {wanted[name]}, {told[name] / max(wanted[name], 1):.0%}")
    core = ("done", "decided", "open")
    print(f"done, decided and left open: {sum(told[k] for k in core) / max(sum(wanted[k] for k in core), 1):.0%}")
    print(
        f"words: {sum(lengths) / max(len(lengths), 1):.0f} on average, {max(lengths, default=0)} at most; notes: {wanted['notes']}"
    )
    print(f"secrets: {secrets}")


def is_told(point: dict, text: str) -> bool:
    return all(re.search(word, text) for word in point["words"])


def same(sentence: str, note: str) -> bool:
    """Return whether a note has most of a lasting sentence's words."""
    words = set(re.findall(r"\w+", sentence.lower()))
    return len(words & set(re.findall(r"\w+", note.lower()))) >= 0.8 * len(words)


def ended(home: Path, name: str, end: int) -> tuple[str, str, list[str]]:
    """Return the summary, the next session's brief and the notes after the transcript's first `end` lines."""
    lines = (SET / f"{name}.jsonl").read_text(encoding="utf-8").replace("/home/", f"{home}/").splitlines()[:end]
    first = next(json.loads(line) for line in lines if "cwd" in line)
    project, data = Path(first["cwd"]), home / "data"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    transcript = home / f"{name}.jsonl"
    transcript.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (data / "main").mkdir(parents=True, exist_ok=True, mode=0o700)
    began = time.time()
    hook = {"session_id": first["sessionId"], "transcript_path": str(transcript), "cwd": str(project)}
    memory(home, "session-end", input=json.dumps({**hook, "hook_event_name": "SessionEnd"}))
    wait_for(data / "main" / "brief.json", began)
    tenant = Tenant(load_settings(data_dir=data))
    summaries = [each.content for each in tenant.memories.recent(9, Filters(kinds=(Kind.SESSION,)))]
    brief = memory(home, "session-start", input=json.dumps({"session_id": "next", "source": "startup", "cwd": str(project)}))
    return "\n".join(summaries), brief, [each.text for each in read_noted(data / "main")]


def wait_for(brief: Path, began: float) -> None:
    """Wait until the ingestion that the hook started in the background has written the brief."""
    for _ in range(600):
        if brief.exists() and brief.stat().st_mtime >= began:
            return
        time.sleep(0.1)
    sys.exit("the ingestion did not finish within a minute")


def memory(home: Path, *arguments: str, input: str = "") -> str:  # noqa: A002 - as subprocess calls it
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TMPDIR"},  # set by this process for another home
        "HOME": str(home),
        "MEMORY_DATA_DIR": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }
    command = [Path(sys.executable).with_name("memory"), *arguments]
    done = subprocess.run(command, input=input, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
