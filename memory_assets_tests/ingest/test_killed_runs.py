"""A run that is killed is completed by the next."""

import signal
import subprocess
import sys

import pytest

from memory_assets.models import State
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ingest

KILLED_RUNS = """
import os, signal, sys
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets.stores import catalog, lance
from memory_assets.ingest import memories, features
from memory_assets_tests.ingest.runs import changed, ingest
memories._CHUNK = features._CHUNK = 3
left = 0
def counting(function):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
catalog.Catalog._connect = counting(catalog.Catalog._connect)
lance.commit = counting(lance.commit)
tenant = Tenant(load_settings())
tenant.analyzer.analyze("Loaded once for all runs.")
tenant.open_embedder("auto").embed(["Loaded once for all runs."])
assert "lancedb" not in sys.modules, "its threads would not live in a fork"
for line in sys.stdin:
    left = int(line)
    if run := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]), flush=True)
    else:
        ingest(tenant)
        os._exit(0)
"""
"""A process that does a run, in a fork, for each line it reads: the run ends at its so many-th access to a store."""


def test_a_run_killed_at_any_store_access_is_completed_by_the_next(
    tenant: Tenant, write_silo: WriteSilo, request: pytest.FixtureRequest
) -> None:
    for number in range(8):
        write_silo(f"note-{number}", f"The deadline of project {number} is in May.")
    ingest(tenant)
    command = [sys.executable, "-c", KILLED_RUNS]
    with subprocess.Popen(
        command, cwd=request.config.rootpath, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdin
        assert killed.stdout
        for turn, access in enumerate((2, 4, 7, 10, 12, 14, 15, 16), start=1):
            before = by_title(tenant)
            for number in range(8):
                write_silo(f"note-{number}", f"The deadline of project {number} was moved {turn} times.")
            write_silo(f"late-{turn}", f"One more, after {turn} moves.")
            print(access, file=killed.stdin, flush=True)
            assert int(killed.stdout.readline()) == -signal.SIGKILL
            ingest(tenant)
            active = by_title(tenant)
            assert active.keys() == before.keys() | {f"late-{turn}"}
            assert all(
                memory.content.endswith(f"moved {turn} times.") for title, memory in active.items() if title.startswith("note")
            )
            rows = {memory.id: memory for memory in from_arrow(tenant.memories.scan(COLUMNS))}
            assert len(rows) == 8 + 9 * turn
            for title in (title for title in before if title.startswith("note")):
                old = rows[before[title].id]
                assert (old.state, old.superseded_by) == (State.SUPERSEDED, active[title].id)
            assert changed(tenant) == 0
