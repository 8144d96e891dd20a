"""Checks fail on invalid data, and only for the tenant of their run."""

from datetime import UTC, datetime

import dagster as dg
import pyarrow as pa

from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.tenants import Tenant
from memory_assets_tests.defs.conftest import run


def spoil_vectors(tenant: Tenant) -> None:
    """Make the only memory's embedding longer than 1."""
    store = tenant.memories
    column = store.columns.live
    assert column
    field = store.table.schema.field(column)
    rows = store.scan(("id", "updated_at"))
    spoilt = pa.array([[0.5] * field.type.list_size], field.type)
    changed = pa.table({"id": rows["id"], column: spoilt, "updated_at": [datetime.now(UTC)]})
    store.update(changed, rows["updated_at"].to_pylist())


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


def test_a_check_of_one_tenant_says_nothing_about_another(tenant: Tenant, instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions(PARTITION_SET, ["bob"])
    for each in (tenant, Tenant(tenant.settings, "bob")):
        store(each, NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI))
    spoil_vectors(tenant)

    def failed(name: str) -> list[str]:
        checked = run(instance, tenant=name, asset_selection=[dg.AssetKey("memories")]).get_asset_check_evaluations()
        assert len(checked) > 1
        return [each.check_name for each in checked if not each.passed]

    assert (failed("bob"), failed("main")) == ([], ["every_memory_has_a_unit_embedding"])
