"""The job that moves all tenants to other models: a backfill of the partitions, resumable, never half swapped."""

import dagster as dg
import pytest

from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.errors import StoreError
from memory_assets.ingest import backfill
from memory_assets.ingest.direct import store_memories
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, E5_NAME, e5_is_installed
from memory_assets.models import NewMemory, Source
from memory_assets.operations.search import search
from memory_assets.settings import load_settings
from memory_assets.stores.memories import MemoryStore
from memory_assets.tenants import Tenant
from memory_assets_tests.defs.conftest import metadata, run


@pytest.mark.skipif(not e5_is_installed(), reason=f"needs `{E5_INSTALL_COMMAND}`")
def test_a_move_that_fails_leaves_the_old_vectors_and_the_next_run_goes_on(
    instance: dg.DagsterInstance, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.add_dynamic_partitions(PARTITION_SET, ["bob"])
    facts = ("Priya owns the billing export.", "Tomasz keeps the rota.", "Leila mended the lock.", "The boiler leaks.")
    for name in ("main", "bob"):
        store_memories(Tenant(tenant.settings, name), [NewMemory(fact, Source.CLI) for fact in facts])
    old = tenant.memories.columns.embedder
    monkeypatch.setenv("MEMORY_EMBEDDER", "e5-multilingual")
    monkeypatch.setattr(backfill, "_CHUNK", 2)
    update, calls = MemoryStore.update, iter(range(100))

    def fail_once(*given: object) -> int:
        if next(calls) == 1:
            raise StoreError("The disk is full; make room.")
        return update(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "update", fail_once)
    failed = run(instance, "move_models")
    assert not failed.success
    (failure,) = [event.step_failure_data for event in failed.all_events if event.is_step_failure]
    assert failure.user_failure_data and failure.user_failure_data.description == "The disk is full; make room."
    assert Tenant(tenant.settings).memories.columns.embedder == old
    assert search(Tenant(tenant.settings), "who owns the billing export").memories
    assert metadata(run(instance, "move_models"), "memories")["embedded_anew"] == 2
    assert metadata(run(instance, "move_models", "bob"), "memories")["embedded_anew"] == 4
    for name in ("main", "bob"):
        moved = Tenant(load_settings(), name)
        assert moved.memories.columns.embedder == E5_NAME
        assert sum(column.startswith("embedding_") for column in moved.memories.table.schema.names) == 1
        assert search(moved, "who owns the billing export").memories[0].content == facts[0]
