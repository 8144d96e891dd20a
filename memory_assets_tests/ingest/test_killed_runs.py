"""The next run completes a killed run."""

import os
import signal
from collections.abc import Callable
from typing import Any

from memory_assets.ingest import features, memories
from memory_assets.models import State
from memory_assets.settings import load_settings
from memory_assets.stores import catalog, lance
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.ingest.runs import by_title, changed, ingest
from memory_assets_tests.torture import zygote


def _run_until(access: int) -> None:
    """A run that ends at its n-th access to a store."""
    left = access

    def counting(work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*given, **named)

        return counted

    memories._CHUNK = features._CHUNK = 3
    catalog.Catalog._connect = counting(catalog.Catalog._connect)
    lance.commit = counting(lance.commit)
    ingest(Tenant(load_settings()))


def test_a_run_killed_at_any_store_access_is_completed_by_the_next(tenant: Tenant, write_silo: WriteSilo) -> None:
    for number in range(8):
        write_silo(f"note-{number}", f"The deadline of project {number} is in May.")
    ingest(tenant)
    for turn, access in enumerate((2, 3, 4, 7, 9, 11, 12, 13), start=1):
        before = by_title(tenant)
        for number in range(8):
            write_silo(f"note-{number}", f"The deadline of project {number} was moved {turn} times.")
        write_silo(f"late-{turn}", f"One more, after {turn} moves.")
        assert zygote.shared().call(_run_until, access).wait().killed
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
