"""Measure which memories a session is told with each prompt, on sessions whose author had not seen the code.

    python benchmarks/prompts.py [--sessions benchmarks/sets/holds/sessions.jsonl]

One store holds all memories of all sessions. `told` is the share of prompts that need a memory and got one that helps, with this prompt
or earlier in the session. `noise` is the share of prompts that need nothing and got something. An outdated memory counts against the
result if it was told without a mark before the session heard the current fact.
"""

import argparse
import json
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import median

from memory_assets.language.tokens import count_tokens
from memory_assets.models import Kind, NewMemory, Source
from memory_assets.operations.prompt import recall_for_prompt
from memory_assets.operations.run import run
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.sources.projects import Project, slug_of
from memory_assets.tenants import Tenant

SETS = Path(__file__).parent / "sets"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=Path, default=SETS / "holds" / "sessions.jsonl")
    given = parser.parse_args()
    sessions = [json.loads(line) for line in given.sessions.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        tenant = Tenant(load_settings(data_dir=Path(folder)))
        ids = {each["id"]: [stored(tenant, memory) for memory in each["memories"]] for each in sessions}
        run(tenant, lambda *_: None, lambda _: None)
        print_figures(tenant, sessions, ids)


def stored(tenant: Tenant, memory: dict[str, str]) -> int:
    moment = datetime.fromisoformat(memory["date"]).astimezone()
    project = f"/home/user/src/{memory['project']}" if memory["project"] else ""
    return store(tenant, NewMemory(memory["text"], Source.CLI, Kind.NOTE, project=project, created_at=moment)).id


def print_figures(tenant: Tenant, sessions: list[dict], ids: dict[str, list[int]]) -> None:
    needing = told = unknown = pairs = empty = noise = 0
    tokens: list[int] = []
    seconds: list[float] = []
    for session in sessions:
        folder = f"/home/user/src/{session['project']}"
        here = Project(folder, (folder, slug_of(folder)))
        known = ids[session["id"]]
        replaced = {known[each["old"]]: known[each["by"]] for each in session["outdated"]}
        heard: set[int] = set()
        for prompt in session["prompts"]:
            began = time.perf_counter()
            answer = recall_for_prompt(tenant, prompt["text"], session=session["id"], here=here)
            seconds.append(time.perf_counter() - began)
            tokens.append(count_tokens(answer.framed))
            useful = {known[number] for number in prompt["useful"]}
            for number in answer.ids:
                heard.add(number)
                if number in replaced:
                    pairs += 1
                    unknown += replaced[number] not in heard and f"(id {number}) [outdated" not in answer.framed
            if useful:
                needing += 1
                told += bool(useful & heard)
            else:
                empty += 1
                noise += bool(answer.ids)
    print(f"prompts that need a memory  {needing}: told {told / needing:.0%}")
    print(f"prompts that need none      {empty}: noise {noise / empty:.0%}")
    print(f"outdated memories told      {pairs}: unmarked before the current fact was heard, {unknown}")
    print(f"tokens a prompt             {sum(tokens) / len(tokens):.0f} on average, {max(tokens)} at most")
    slowest = sorted(seconds)[len(seconds) * 99 // 100]
    print(f"milliseconds a prompt       {1e3 * median(seconds):.0f} median, {1e3 * slowest:.0f} at the 99th percentile")


if __name__ == "__main__":
    main()
