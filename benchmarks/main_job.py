"""The main job's figures: `make bench`, or `python benchmarks/main_job.py [--files N]`.

Prints seconds of a full run over N short silo files, of a second run with nothing changed, and of a run after one changed file,
with rows a second of each asset; then `memory search` cold (a new process) and warm (in this one), and what a bare
`python -c pass` and a bare `import lancedb` cost on the same machine in the same minute, as the floor to compare with.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PEOPLE = ("Priya", "Tomasz", "Leila", "Jonas", "Hanna", "Oskar", "Mira", "Ada")
TOOLS = ("DuckDB", "PostgreSQL", "Redis", "Terraform", "LanceDB", "Dagster", "Grafana", "MongoDB", "Kafka", "nginx")
THINGS = ("export", "deadline", "migration", "index", "backup", "review", "dashboard", "rota", "cache", "release")
VERBS = ("moved", "broke", "fixed", "measured", "renamed", "dropped", "debugged", "documented", "doubled", "blamed")


def make_home(root: Path, files: int, seed: int = 7) -> None:
    """Write `files` short silo files into silos of 100."""
    chance = random.Random(seed)
    for number in range(files):
        folder = root / ".claude/projects" / f"-home-ada-project-{number // 100:03}" / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        who, tool, thing, verb = (chance.choice(words) for words in (PEOPLE, TOOLS, THINGS, VERBS))
        body = (
            f"{who} {verb} the {thing} of {tool} in week {number % 52}. It took {chance.randint(2, 90)} minutes, ticket {number}."
        )
        text = f"---\nname: note-{number}\ndescription: {thing} of {tool}\ntype: project\n---\n\n{body}\n"
        (folder / f"note-{number}.md").write_text(text, encoding="utf-8")


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def memory(*arguments: str) -> str:
    command = [sys.executable, "-m", "memory_assets.cli", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(label: str) -> None:
    started = time.perf_counter()
    report = json.loads(memory("run", "--json"))["assets"]
    total = time.perf_counter() - started
    print(
        f"\n{label}: {total:.1f} s, of which Dagster's start and bookkeeping "
        f"{total - sum(asset['seconds'] for asset in report.values()):.1f} s"
    )
    for name, asset in report.items():
        rows = asset["dagster/partition_row_count"]
        print(f"  {name:<20} {rows:>8} rows {asset['seconds']:>8.2f} s {rows / max(asset['seconds'], 1e-3):>10.0f} rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures of the main job.")
    parser.add_argument("--files", type=int, default=10_000)
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory(prefix="memory_bench_") as folder:
        root = Path(folder)
        make_home(root, files)
        os.environ |= {
            "MEMORY_DATA_DIR": str(root / "data"),
            "MEMORY_CLAUDE_PROJECTS_DIR": str(root / ".claude/projects"),
            "MEMORY_PAI_SEED": str(root / "seed.json"),
            "MEMORY_PAI_LEARNING_DIR": str(root / "LEARNING"),
            "DAGSTER_HOME": str(root / "dagster"),
        }
        (root / "dagster").mkdir()
        run(f"Full run, {files} files")
        run("Second run, nothing changed")
        changed = next((root / ".claude/projects").rglob("note-42.md"))
        changed.write_text(changed.read_text() + "It was checked twice.\n")
        run("After one changed file")

        def median(call: Callable[[], object]) -> float:
            return statistics.median(timed(call) for _ in range(5))

        floor = median(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        library = median(lambda: subprocess.run([sys.executable, "-c", "import lancedb"], check=True))
        help_ = median(lambda: memory("--help"))
        cold = median(lambda: memory("search", "who moved the deadline of Terraform"))
        print(f"\nbare python              {floor * 1000:7.0f} ms   1.0 x")
        print(f"memory --help            {help_ * 1000:7.0f} ms {help_ / floor:5.1f} x python")
        print(f"bare import lancedb      {library * 1000:7.0f} ms {library / floor:5.1f} x python")
        print(f"memory search, cold      {cold * 1000:7.0f} ms {cold / library:5.1f} x import lancedb")

        from memory_assets.recall.search import search
        from memory_assets.settings import load_settings
        from memory_assets.tenants import Tenant

        tenant = Tenant(load_settings())
        search(tenant, "warm up")
        questions = [f"who {verb} the {thing} of {tool}" for verb in VERBS for thing in THINGS for tool in TOOLS[:3]]
        times = sorted(timed(lambda question=question: search(tenant, question)) for question in questions)
        bare = sorted(
            timed(lambda question=question: tenant.memories.table.search(question, query_type="fts").limit(10).to_arrow())
            for question in questions
        )
        for label, found in (("memory search, warm", times), ("LanceDB full text alone", bare)):
            print(
                f"{label:<24} p50 {found[len(found) // 2] * 1000:6.1f} ms  p99 {found[int(len(found) * 0.99)] * 1000:6.1f} ms"
                f"  {found[len(found) // 2] / bare[len(bare) // 2]:4.1f} x"
            )


if __name__ == "__main__":
    main()
