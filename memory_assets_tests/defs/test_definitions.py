"""The Dagster definitions load, match the documentation and run."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.invariants import INVARIANTS
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.stores.memories import Filters
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import metadata, run
from memory_assets_tests.defs.specs import SNAPSHOT, specs

ROOT = Path(__file__).parent.parent.parent


def test_importing_the_entry_point_reads_no_setting_and_the_code_server_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POND_TIMEZONE", "Nowhere/Atall")
    code = (
        "import memory_assets.definitions, os; del os.environ['POND_TIMEZONE']\n"
        "from dagster._cli import cli; cli(['definitions', 'validate', '-w', 'workspace.yaml'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_assets_checks_jobs_and_automation_are_those_that_were_reviewed() -> None:
    assert list(specs()) == SNAPSHOT.read_text(encoding="utf-8").splitlines(), "python -m memory_assets_tests.defs.specs"


def test_every_asset_says_what_it_is_whose_it_is_and_what_starts_it() -> None:
    defs = build_defs(MemoryResource())
    graph = defs.resolve_asset_graph()
    checks = {check.name: check.asset_key.to_user_string() for check in graph.asset_check_keys}
    assert checks.items() >= {each.name: each.asset for each in INVARIANTS}.items()
    for spec in defs.resolve_all_asset_specs():
        assert spec.group_name != "default"
        assert spec.owners and spec.description and spec.kinds, spec.key
        node = graph.get(spec.key)
        assert node.parent_keys or node.child_keys, f"{spec.key} stands alone"
        if node.is_executable:
            assert spec.code_version and "a person" in spec.metadata["what_starts_it"].value
            (reference,) = spec.metadata["dagster/code_references"].value.code_references
            assert f"def {spec.key.to_user_string()}" in Path(reference.file_path).read_text(encoding="utf-8")


@pytest.mark.parametrize(("setting", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), ("", "Pacific/Auckland")])
def test_schedules_run_in_the_zone_of_the_settings_or_the_machines(
    monkeypatch: pytest.MonkeyPatch, setting: str, zone: str
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Pacific/Auckland")
    if setting:
        monkeypatch.setenv("POND_TIMEZONE", setting)
    schedules = build_defs(MemoryResource()).schedules or []
    assert {schedule.execution_timezone for schedule in schedules if isinstance(schedule, dg.ScheduleDefinition)} == {zone}


def test_a_tenant_that_the_settings_do_not_name_gets_no_files(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    instance.add_dynamic_partitions(PARTITION_SET, ["guest"])
    taking_in = ("silo_files", "memory_entries", "extracted_features", "memories")
    assert run(instance, tenant="guest", asset_selection=[dg.AssetKey(each) for each in taking_in]).success
    assert Tenant(tenant.settings, "guest").memories.count(Filters()) == 0


def test_the_version_of_an_external_asset_is_that_of_its_content(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    def version() -> str | None:
        assert run(instance, asset_selection=[dg.AssetKey("silo_files")]).success
        event = instance.get_latest_materialization_event(dg.AssetKey("claude_code_silos"))
        assert event and event.asset_materialization
        return (event.asset_materialization.tags or {}).get("dagster/data_version")

    path = write_silo("owner", "Priya owns the billing export.")
    first = version()
    path.touch()
    assert version() == first
    path.write_text(path.read_text() + "More.\n")
    assert version() != first


def test_a_click_shows_what_would_be_archived_and_the_schedule_archives(
    tenant: Tenant, disk_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    monkeypatch.setenv("MEMORY_ARCHIVE_THRESHOLD", "0.99")
    monkeypatch.setenv("MEMORY_FORGET_GRACE_DAYS", "0")
    old = datetime(2020, 1, 1, tzinfo=UTC)
    store(tenant, NewMemory("The pump at the quarry leaks.", Source.CLI, created_at=old))
    assert run(disk_instance, "reflect").success
    clicked = run(disk_instance, "forget")
    assert metadata(clicked, "archived_memories")["would_be_archived"] == 1
    assert "leaks" not in str(metadata(clicked, "archived_memories"))
    assert tenant.memories.count(Filters()) == 1
    schedule = next(each for each in build_defs(MemoryResource()).schedules or [] if each.name == "forget_quarterly")
    assert isinstance(schedule, dg.ScheduleDefinition)
    moment = datetime(2026, 10, 1, 6, 10, tzinfo=UTC)
    resources = {"memory": MemoryResource()}
    with dg.build_schedule_context(instance=disk_instance, scheduled_execution_time=moment, resources=resources) as context:
        outcome = schedule(context)
    assert isinstance(outcome, list)
    (request,) = outcome
    assert (request.partition_key, request.run_key) == ("main", "forget:main:2026-10")
    held_back = run(disk_instance, "forget", run_config=request.run_config)
    assert metadata(held_back, "archived_memories")["would_be_archived"] == 1
    (check,) = held_back.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    monkeypatch.setenv("MEMORY_FORGET_AT_MOST", "1")
    scheduled = run(disk_instance, "forget", run_config=request.run_config)
    assert metadata(scheduled, "archived_memories")["archived"] == 1
    assert tenant.memories.count(Filters()) == 0
