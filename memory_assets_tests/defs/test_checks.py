"""Checks: they fail on what must never be, and for the tenant of their run alone."""

from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa

from memory_assets.defs.checks import INVARIANTS
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import run


def spoil_vectors(tenant: Tenant) -> None:
    """Make the one memory's embedding longer than 1."""
    store = tenant.memories
    column = store.columns.live
    assert column
    field = store.table.schema.field(column)
    rows = store.scan(("id", "updated_at"))
    spoilt = pa.array([[0.5] * field.type.list_size], field.type)
    changed = pa.table({"id": rows["id"], column: spoilt, "updated_at": [datetime.now(UTC)]})
    store.update(changed, rows["updated_at"].to_pylist())


def test_every_invariant_counts_what_breaks_it(write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance) -> None:
    silo = write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    assert {each.name: each.faults(tenant) for each in INVARIANTS} == {each.name: 0 for each in INVARIANTS}
    spoil_vectors(tenant)
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE relevance_scores SET relevance = 1.5")
        connection.execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin) VALUES (1, 2, 'RELATES_TO', 1, 'link')"
        )
        connection.execute("DELETE FROM memory_entries")
        connection.execute("INSERT INTO tana_fields (node) VALUES ('nobody')")
    (memory,) = tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())
    twin = tenant.memories.table.search().where(f"id = {memory.id}").to_arrow()
    twin = twin.set_column(twin.schema.get_field_index("id"), "id", pa.array([memory.id + 1]))
    tenant.memories.table.add(twin)
    home = tenant.settings.pai_learning_dir / "USER"
    home.mkdir(parents=True)
    for name in ("a.md", "b.md"):
        (home / name).write_text("---\nname: twice\n---\nWithout provenance.\n")
    (silo.parent / "MEMORY.md").write_text("- [Gone](gone.md)\n")
    assert {each.name for each in INVARIANTS if not each.faults(tenant)} == set()


def test_a_damaged_store_fails_its_own_tenant_only_and_names_it(tenant: Tenant, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions(PARTITION_SET, ["bob", "eve"])
    others = {name: Tenant(tenant.settings, name) for name in ("bob", "eve")}
    for each in others.values():
        store(each, NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI))
    for manifest in others["eve"].folder.glob("vectors/memories.lance/_versions/*"):
        manifest.write_bytes(b"not a manifest")
    assert run(instance, "reflect", "bob").success
    result = run(instance, "reflect", "eve")
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    data = failure.step_failure_data
    assert data.user_failure_data
    assert str(others["eve"].folder) in (data.user_failure_data.description or "")


def test_a_check_of_one_tenant_says_nothing_about_another(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions(PARTITION_SET, ["bob"])
    write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    spoil_vectors(tenant)
    store(Tenant(tenant.settings, "bob"), NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI))
    assert all(each.passed for each in run(instance, tenant="bob").get_asset_check_evaluations())
    failed = [each.check_name for each in run(instance).get_asset_check_evaluations() if not each.passed]
    assert failed == ["every_memory_has_a_unit_embedding"]
