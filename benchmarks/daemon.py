"""Measure the load and reaction time of `memory up`: `python benchmarks/daemon.py [--idle SECONDS] [--files N]`. Linux, an idle machine.

Runs daemon, code location and UI over a copy of the sample home. Prints the seconds from writing a file until a search finds its
text, and from storing a memory until the graph holds it; then the processor share and resident memory of each process while idle.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memory_assets.ingest.direct import store_memories
from memory_assets.models import NewMemory, Source
from memory_assets.operations.search import search
from memory_assets.settings import load_settings
from memory_assets.supervisor import find_running
from memory_assets.tenants import Tenant

ROOT = Path(__file__).parent.parent
_PATIENCE_SECONDS = 180.0
_MEMORY = [sys.executable, "-m", "memory_assets.cli"]


def seconds_until(look: Callable[[], object]) -> float:
    start = time.monotonic()
    while not look():
        if time.monotonic() - start > _PATIENCE_SECONDS:
            sys.exit(f"nothing happened within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - start


def is_found(word: str) -> bool:
    found = search(Tenant(load_settings()), f"who keeps the {word}", limit=3).memories
    return any(word in each.content for each in found)


def is_connected(number: int) -> bool:
    with Tenant(load_settings()).catalog.read() as connection:
        return connection.execute("FROM graph_nodes WHERE id = ?", [number]).fetchone() is not None


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def measure_reactions(files: int) -> None:
    folder = next(load_settings().claude_projects_dir.glob("*/memory"))
    waits = []
    for number in range(files):
        word = f"lighthouse{number}"
        text = f"---\nname: {word}\ndescription: who keeps it\ntype: project\n---\n\nOdalys keeps the {word} of Kestrel Point.\n"
        (folder / f"{word}.md").write_text(text)
        waits.append(seconds_until(lambda word=word: is_found(word)))
        time.sleep(7 + number % 5)
    print(f"a file until it is found    median {statistics.median(waits):5.1f} s, longest {max(waits):5.1f} s")
    waits = []
    for number in range(files):
        (stored,) = store_memories(
            Tenant(load_settings()), [NewMemory(f"Tomasz mended pump {number} of the quarry.", Source.CLI)]
        )
        waits.append(seconds_until(lambda stored=stored: is_connected(stored.memory.id)))
        time.sleep(7 + number % 5)
    print(f"a memory until its graph    median {statistics.median(waits):5.1f} s, longest {max(waits):5.1f} s")


def measure_idleness(pids: dict[str, int], idle: float) -> None:
    time.sleep(30)
    before = {name: processor_seconds(pid) for name, pid in pids.items()}
    time.sleep(idle)
    shares = {name: 100 * (processor_seconds(pid) - before[name]) / idle for name, pid in pids.items()}
    for name, pid in pids.items():
        print(f"{name:<20}{shares[name]:>6.2f} % of a core{resident_mb(pid):>7.0f} MB")
    print(f"{'together':<20}{sum(shares.values()):>6.2f} % of a core{sum(map(resident_mb, pids.values())):>7.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=float, default=300.0)
    parser.add_argument("--files", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shutil.copytree(ROOT / "data" / "sample", f"{folder}/home")
        os.environ |= {"HOME": f"{folder}/home", "MEMORY_DATA_DIR": f"{folder}/data", "MEMORY_CONFIG": os.devnull}
        subprocess.run([*_MEMORY, "run"], check=True, stdout=subprocess.DEVNULL)
        up = subprocess.Popen([*_MEMORY, "up", "--ui-port", "3918", "--no-service"])
        try:
            settings = load_settings()
            seconds_until(lambda: (found := find_running(settings)) and found.parts and all(part["pid"] for part in found.parts))
            time.sleep(20)
            measure_reactions(given.files)
            running = find_running(settings)
            assert running
            measure_idleness(
                {"supervisor": up.pid, **{str(part["name"]): int(part["pid"] or 0) for part in running.parts}}, given.idle
            )
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait()


if __name__ == "__main__":
    main()
