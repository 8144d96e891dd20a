"""Time the mirror in Tana against a stand-in that takes 20 ms per call.

    python -m benchmarks.tana

Aims (issue 15, seed 000 NFR-1, NFR-2, NFR-5): a first sync of 100 learnings within 10 s, a second sync within 1 s; freshness of 1,000
learnings within 100 ms beyond start-up; a session's start within 0.5 s while Tana hangs; 1,600 entries without surprises.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memory_assets.operations.pai_context import pai_freshness, pai_session_start
from memory_assets.settings import load_settings
from memory_assets.tana.activity import read_tana_activity
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import learning, write_seed
from memory_assets_tests.tana.stand_in import StandIn

LATENCY_S = 0.02
_NAMES = ("Atlas", "Billing", "Ledger", "Harbour", "Quarry")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, StandIn() as tana:
        world = {
            "HOME": folder,
            "MEMORY_DATA_DIR": f"{folder}/data",
            "MEMORY_TANA_URL": tana.url,
            "MEMORY_TANA_TOKEN": tana.token,
        }
        os.environ.update(world)
        tenant = Tenant(load_settings())
        tenant.analyzer.analyze("Alice warms up the pipeline.")
        project = tana.add_tag("project")
        for name in _NAMES:
            tana.add_node(name, project)
        tana.traps.latency = LATENCY_S
        for count in (100, 1600):
            write_seed(tenant.settings.pai_seed, [_lesson(number) for number in range(count)])
            for what in ("sync", "sync again"):
                calls, writes, began = len(tana.requests), tana.writes, time.perf_counter()
                sync(tenant)
                took = time.perf_counter() - began
                print(
                    f"{what:<12} {count:>5} entries  {took:7.2f} s  {len(tana.requests) - calls:>5} calls  {tana.writes - writes:>5} writes"
                )
            assert len(tana.live("pai_learning")) == count
        write_seed(tenant.settings.pai_seed, [_lesson(number) for number in range(1000)])
        _timed("freshness, from the last reading", lambda: pai_freshness(tenant))
        _timed("freshness, Tana asked", lambda: (read_tana_activity(tenant), pai_freshness(tenant)))
        tana.traps.latency = 60
        _timed("session start, Tana hangs", lambda: pai_session_start(tenant))
        for command in ("pai session-start", "pai freshness --offline", "--version"):
            call = [sys.executable, "-m", "memory_assets.cli", *command.split()]
            _timed(f"memory {command}, a process", lambda call=call: subprocess.run(call, check=True, capture_output=True))
        assert Path(tenant.settings.pai_mapping).exists()


def _lesson(number: int) -> dict[str, object]:
    return learning(f"pat_{number:05}", f"{_NAMES[number % 5]} lesson {number}: run the migration before noon")


def _timed(what: str, work: Callable[[], object]) -> None:
    times: list[float] = []
    processor = time.process_time()
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    spent = (time.process_time() - processor) / 5
    print(f"{what:<44} {sorted(times)[2] * 1000:7.0f} ms median of 5, {min(times) * 1000:.0f} best, {spent * 1000:.0f} processor")


if __name__ == "__main__":
    main()
