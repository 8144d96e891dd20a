"""Time what a session of Claude Code waits for: hook, status line and MCP server as whole commands, next to bare Python and LanceDB.

    python benchmarks/claude_code.py [--entries 1000] [--runs 7]

Everything happens in a temporary folder. Prints the median wall time and processor time of the child process. On a busy machine, compare
the ratios within one run rather than the seconds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

PYTHON = sys.executable
MEMORY = [PYTHON, "-m", "memory_assets.cli"]
HOOK = json.dumps({"session_id": "", "source": "startup", "cwd": "/srv/atlas", "hook_event_name": "SessionStart"}).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), given.entries)
        rows = {
            "bare python": (measure(lambda: run([PYTHON, "-c", "pass"]), given.runs), None),
            "import lancedb": (measure(lambda: run([PYTHON, "-c", "import lancedb"]), given.runs), None),
            f"session-start, {given.entries:,} canonical entries": (
                measure(lambda: run([*MEMORY, "session-start"], HOOK), given.runs),
                0.3,
            ),
            "status --line": (measure(lambda: run([*MEMORY, "status", "--line"]), given.runs), 0.15),
            "mcp, initialize answered": (measure(lambda: speak(search=False), given.runs), 0.5),
            "mcp, first search answered": (measure(lambda: speak(search=True), given.runs), 2.0),
        }
    bare, lance = rows["bare python"][0], rows["import lancedb"][0]
    print("| | seconds | processor | aim | times bare python | times import lancedb |\n|---|---|---|---|---|---|")
    for name, ((wall, cpu), aim) in rows.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {aim or ''} | {cpu / bare[1]:.1f} | {cpu / lance[1]:.2f} |")
    print(f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def prepare(folder: Path, entries: int) -> None:
    """Make a home with canonical entries, silos and a store of as many memories."""
    os.environ |= {
        "HOME": str(folder),
        "MEMORY_DATA_DIR": str(folder / "data"),
        "MEMORY_PAI_LEARNING_DIR": str(folder / "LEARNING"),
        "MEMORY_CLAUDE_PROJECTS_DIR": str(folder / "projects"),
        "MEMORY_PAI_SEED": str(folder / "none.json"),
        "MEMORY_CONFIG": os.devnull,
    }
    from memory_assets.learn.briefing import renew_brief
    from memory_assets.models import Kind, NewMemory, Source
    from memory_assets.operations.store import store
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    for number in range(entries):
        home = ("FEEDBACK", "PROJECT", "REFERENCE", "USER")[number % 4]
        path = folder / "LEARNING" / home / f"{home.lower()}_{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"---\nname: entry-{number}\ndescription: What was learned in week {number}, in a sentence of usual length.\n"
            f"type: {home.lower()}\nsource_cwd: /srv/atlas\ningested_at: 2026-05-01T00:00:00Z\n---\n\nThe rule of week {number}.\n"
        )
    for number in range(40):
        path = folder / "projects" / f"-srv-{number % 5}" / "memory" / f"n{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: n{number}\ntype: user\n---\n\nBody {number}.\n")
    tenant = Tenant(load_settings())
    store(tenant, NewMemory("Alice moved the billing export to DuckDB.", Source.CLI, Kind.PROJECT))
    renew_brief(tenant)


def measure(call: Callable[[], float], runs: int) -> tuple[float, float]:
    """Return the median wall seconds that `call` returns and the median processor seconds of its children, after one warm-up call."""
    call()
    walls, cpus = [], []
    for _ in range(runs):
        before = processor()
        walls.append(call())
        cpus.append(processor() - before)
    return median(walls), median(cpus)


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str], given: bytes = b"") -> float:
    begun = time.perf_counter()
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def speak(*, search: bool) -> float:
    """Return the seconds from the start of `memory mcp` to its answer."""
    begun = time.perf_counter()
    with subprocess.Popen([*MEMORY, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        told, heard = server.stdin, server.stdout

        def ask(number: int, method: str, **params: Any) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            told.write(json.dumps(message).encode() + b"\n")
            told.flush()
            assert json.loads(heard.readline())["id"] == number

        ask(1, "initialize", protocolVersion="2025-11-25")
        if search:
            ask(2, "tools/call", name="search", arguments={"query": "who moved the export", "everywhere": True})
        took = time.perf_counter() - begun
        server.kill()
    return took


if __name__ == "__main__":
    main()
