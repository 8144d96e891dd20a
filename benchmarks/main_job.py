"""Time the main job: `make bench`, or `python benchmarks/main_job.py [--files N]`.

Prints the seconds of a full run over N short silo files, of a second run with nothing changed, of a run after one changed file and of
one after a search, the last three next to a bare Dagster run of as many empty steps; the processor time, and the rows per second of
each asset. Then `memory search` cold (a new process) and warm (in this one), with a bare `python -c pass` and a bare `import lancedb`
in the same minute as the floor to compare with.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
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


def processor_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(label: str, bare: float | None = None) -> None:
    """Run the main job; print its time and the difference to a bare run."""
    started, used = time.perf_counter(), processor_seconds()
    report = json.loads(memory("run", "--json"))["assets"]
    total = time.perf_counter() - started
    above = f", {total - bare:.1f} s above a bare Dagster run of as many steps" if bare else ""
    print(f"\n{label}: {total:.1f} s{above} ({processor_seconds() - used:.1f} s of processor time)")
    for name, asset in report.items():
        rows = asset["dagster/partition_row_count"]
        print(f"  {name:<20} {rows:>8} rows {asset['seconds']:>8.2f} s {rows / max(asset['seconds'], 1e-3):>10.0f} rows/s")


def bare_run(root: Path) -> float:
    """Return the seconds of a run with as many empty steps as `remember` has: the fastest of five, after a warm-up run."""
    from memory_assets.defs.build import build_defs
    from memory_assets.defs.resources import MemoryResource

    layer = build_defs(MemoryResource()).resolve_job_def("remember").asset_layer
    keys = layer.executable_asset_keys
    steps = {
        key.to_user_string(): {
            "before": [each.to_user_string() for each in layer.asset_graph.get(key).parent_keys if each in keys],
            "checks": [check.name for check in layer.asset_graph.asset_check_keys if check.asset_key == key],
        }
        for key in keys
    }
    home = root / "bare"
    home.mkdir()
    (home / "dagster.yaml").write_bytes(files("memory_assets.defs").joinpath("dagster.yaml").read_bytes())
    command = [sys.executable, str(Path(__file__).with_name("bare_dagster.py")), str(home), json.dumps(steps)]
    environment = os.environ | {"DAGSTER_HOME": str(home)}
    return min([timed(lambda: subprocess.run(command, env=environment, check=True, capture_output=True)) for _ in range(6)][1:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the main job.")
    parser.add_argument("--files", type=int, default=10_000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory(prefix="memory_bench_") as folder:
        root = Path(folder)
        make_home(root, count)
        os.environ |= {
            "MEMORY_DATA_DIR": str(root / "data"),
            "MEMORY_CLAUDE_PROJECTS_DIR": str(root / ".claude/projects"),
            "MEMORY_PAI_SEED": str(root / "seed.json"),
            "MEMORY_PAI_LEARNING_DIR": str(root / "LEARNING"),
            "DAGSTER_HOME": str(root / "dagster"),
        }
        (root / "dagster").mkdir()
        run(f"Full run, {count} files")
        bare = bare_run(root)
        print(f"\nA bare Dagster run of as many steps: {bare:.1f} s")
        run("Second run, nothing changed", bare)
        changed = next((root / ".claude/projects").rglob("note-42.md"))
        changed.write_text(changed.read_text() + "It was checked twice.\n")
        run("After one changed file", bare)
        memory("search", "who moved the deadline of Terraform")
        run("After a search", bare)

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
