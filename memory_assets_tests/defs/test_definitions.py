"""The Dagster layer: it loads, it runs, its checks can fail, its sensors ask for one run a change."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest

from memory_assets.definitions import defs
from memory_assets.defs import checks, sensors
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.errors import MemoryAssetsError
from memory_assets.ingest.direct import store_memory
from memory_assets.models import NewMemory, Source
from memory_assets.stores.memories import Filters
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo

ROOT = Path(__file__).parent.parent.parent
LINEAGE = {
    "silo_files": set(),
    "seed_entries": set(),
    "learning_entries": set(),
    "memory_entries": {"silo_files", "seed_entries", "learning_entries"},
    "extracted_features": {"memory_entries"},
    "memories": {"extracted_features"},
    "stored_memories": set(),
    "graph_edges": {"memories", "stored_memories"},
    "relevance_scores": {"graph_edges"},
}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(PARTITION_SET, ["main"])
        yield made


def run(instance: dg.DagsterInstance, job: str = "remember") -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(job).execute_in_process(instance=instance, partition_key="main", raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict:
    events = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in events[0].metadata.items()}


def test_the_definitions_load_the_way_the_code_server_loads_them() -> None:
    dg.Definitions.validate_loadable(defs)
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_lineage_is_the_documented_one_and_every_asset_is_described() -> None:
    graph = defs.resolve_asset_graph()
    for name, parents in LINEAGE.items():
        node = graph.get(dg.AssetKey(name))
        assert {parent.to_user_string() for parent in node.parent_keys} == parents
        assert node.group_name != "default"
        assert node.owners
        assert node.description
        assert node.kinds
        assert isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)


def test_a_run_of_the_sample_home_passes_every_check_and_reports_what_was_refused(
    sample_home: Path, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    result = run(instance)
    assert result.success
    silos = metadata(result, "silo_files")
    assert silos["refused"] == 4
    assert "weekly-report-2026-w38.md" in silos["refusals"]
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} >= {check.name for check in checks_of(checks)}
    assert all(each.passed for each in evaluations)
    again = run(instance)
    assert metadata(again, "memories")["added"] == metadata(again, "extracted_features")["analysed"] == 0
    assert metadata(again, "memories")["lance_version"] == metadata(result, "memories")["lance_version"]


def checks_of(module: object) -> list[dg.AssetCheckSpec]:
    found = [each for each in vars(module).values() if isinstance(each, dg.AssetChecksDefinition)]
    return [spec for definition in found for spec in definition.check_specs]


def test_checks_fail_on_what_must_never_be(write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance) -> None:
    write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    store = tenant.memories
    rows = store.scan(("id", "updated_at"))
    column = store.columns.live
    assert column
    field = store.table.schema.field(column)
    changed = pa.table({"id": rows["id"], column: pa.array([[0.5] * field.type.list_size], field.type)})
    store.update(changed, rows["updated_at"].to_pylist())
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE relevance_scores SET relevance = 1.5")
        connection.execute(
            "INSERT INTO graph_edges (source_id, target_id, type, confidence, origin) VALUES (1, 2, 'RELATES_TO', 1, 'link')"
        )
        connection.execute("DELETE FROM memory_entries")
    context = dg.build_asset_check_context(instance=instance)
    memory = MemoryResource()
    for check in (
        checks.every_memory_has_a_unit_embedding,
        checks.no_memory_of_another_tenant,
        checks.no_edge_dangles,
        checks.scores_within_bounds,
    ):
        outcome = check(context, memory)
        assert isinstance(outcome, dg.AssetCheckResult)
        assert not outcome.passed, check
        assert outcome.description


def test_a_failed_step_is_told_in_one_sentence(write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> None:
    from memory_assets.defs.runner import run_remember
    from memory_assets.settings import load_settings

    write_silo("owner", "Priya owns the billing export.")
    monkeypatch.setenv("MEMORY_SPACY_MODEL", "no_such_model")
    with pytest.raises(MemoryAssetsError, match="step extracted_features failed: spaCy pipeline 'no_such_model'"):
        run_remember(Tenant(load_settings()), lambda *_: None, lambda _: None)


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"memory": MemoryResource()})
    outcome = sensor(context)
    assert isinstance(outcome, dg.SensorResult | dg.SkipReason)
    return outcome


def requested(outcome: dg.SensorResult | dg.SkipReason) -> list[dg.RunRequest]:
    return list(outcome.run_requests or []) if isinstance(outcome, dg.SensorResult) else []


SILOS, SEED, LEARNING, STORED = sensors.SENSORS


def test_a_source_sensor_asks_for_one_run_a_change(write_silo: WriteSilo, instance: dg.DagsterInstance) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    first = tick(SILOS, instance, None)
    assert isinstance(first, dg.SensorResult)
    (request,) = requested(first)
    assert request.partition_key == "main"
    assert isinstance(tick(SILOS, instance, first.cursor), dg.SkipReason)
    path.write_text(path.read_text() + "More.\n")
    second = tick(SILOS, instance, first.cursor)
    assert requested(second)[0].run_key != request.run_key


def test_a_change_that_was_taken_in_by_hand_makes_no_second_run(
    write_silo: WriteSilo, instance: dg.DagsterInstance, tenant: Tenant
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    outcome = tick(SILOS, instance, None)
    assert isinstance(outcome, dg.SensorResult)
    assert not requested(outcome)
    path.unlink()
    assert requested(tick(SILOS, instance, outcome.cursor))


def test_missing_sources_are_quiet(instance: dg.DagsterInstance) -> None:
    for sensor in (SILOS, SEED, LEARNING, STORED):
        assert not requested(tick(sensor, instance, None))


def test_memories_stored_directly_are_reflected_once(instance: dg.DagsterInstance, tenant: Tenant) -> None:
    store_memory(tenant, NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI))
    outcome = tick(STORED, instance, None)
    assert isinstance(outcome, dg.SensorResult)
    (request,) = requested(outcome)
    assert request.partition_key == "main"
    assert [event.asset_key.to_user_string() for event in outcome.asset_events] == ["stored_memories"]
    assert run(instance, "reflect").success
    later = tick(STORED, instance, outcome.cursor)
    assert not requested(later)
    assert not requested(tick(STORED, instance, None))


def test_the_pipelines_own_writes_ask_for_no_run(write_silo: WriteSilo, instance: dg.DagsterInstance, tenant: Tenant) -> None:
    before = tick(STORED, instance, None)
    write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    assert not requested(tick(STORED, instance, before.cursor if isinstance(before, dg.SensorResult) else None))


def test_a_tenant_that_the_settings_do_not_name_gets_no_files(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")
    other = Tenant(tenant.settings, "guest")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PARTITION_SET, ["guest"])
        assert defs.resolve_job_def("remember").execute_in_process(instance=instance, partition_key="guest").success
    assert other.memories.count(Filters()) == 0


def test_the_decay_schedule_asks_for_one_run_a_tenant(tmp_path: Path) -> None:
    schedule = next(each for each in defs.schedules or [] if each.name == "decay_daily")
    assert isinstance(schedule, dg.ScheduleDefinition)
    moment = datetime(2026, 11, 1, 3, 10, tzinfo=UTC)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_dynamic_partitions(PARTITION_SET, ["main"])
        outcome = schedule(dg.build_schedule_context(instance=instance, scheduled_execution_time=moment))
    assert isinstance(outcome, list)
    assert [(request.partition_key, request.run_key) for request in outcome] == [("main", "decay:main:2026-11-01")]
