"""The definitions: they load, they are the documented ones, and they run."""

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

ROOT = Path(__file__).parent.parent.parent
LINEAGE = {
    "claude_code_silos": set(),
    "seed_json": set(),
    "learning_homes": set(),
    "silo_files": {"claude_code_silos"},
    "seed_entries": {"seed_json"},
    "learning_entries": {"learning_homes"},
    "memory_entries": {"silo_files", "seed_entries", "learning_entries"},
    "extracted_features": {"memory_entries"},
    "memories": {"extracted_features"},
    "stored_memories": set(),
    "graph_edges": {"memories", "stored_memories"},
    "relevance_scores": {"graph_edges", "freshness"},
    "creative_links": {"relevance_scores"},
    "clusters": {"relevance_scores"},
    "archived_memories": {"relevance_scores"},
    "backup": {"relevance_scores"},
    "tana_graph": set(),
    "silo_backlog": {"silo_files"},
    "canonical_entries": {"learning_entries"},
    "proposals": {"silo_backlog", "canonical_entries"},
    "tana_learnings": {"seed_entries"},
    "freshness": {"tana_learnings"},
}
EXTERNAL = {"claude_code_silos", "seed_json", "learning_homes"}
CURATION = {"silo_backlog", "canonical_entries", "proposals"}
SELECTED = {
    "remember": LINEAGE.keys()
    - CURATION
    - EXTERNAL
    - {
        "stored_memories",
        "creative_links",
        "clusters",
        "archived_memories",
        "backup",
        "tana_graph",
        "tana_learnings",
        "freshness",
    },
    "mirror_tana": {"tana_learnings", "freshness"},
    "reflect": {"graph_edges", "relevance_scores"},
    "decay": {"relevance_scores"},
    "creative": {"creative_links"},
    "cluster": {"clusters"},
    "forget": {"archived_memories"},
    "read_tana": {"tana_graph"},
    "backlog": CURATION - {"proposals"},
    "propose": CURATION,
    "back_up": {"backup"},
    "check_backup": {"backup"},
}


def test_the_definitions_load_the_way_the_code_server_loads_them() -> None:
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_entry_point_reads_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POND_TIMEZONE", "Nowhere/Atall")
    done = subprocess.run([sys.executable, "-c", "import memory_assets.definitions"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_assets_jobs_checks_and_automation_are_the_documented_ones() -> None:
    defs = build_defs(MemoryResource())
    graph = defs.resolve_asset_graph()
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == set(LINEAGE)
    for name, parents in LINEAGE.items():
        node = graph.get(dg.AssetKey(name))
        assert {parent.to_user_string() for parent in node.parent_keys} == parents
        assert node.group_name != "default"
        assert node.owners
        assert node.description
        assert node.kinds
        assert name in EXTERNAL or isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
    jobs = {job.name: job for job in defs.resolve_all_job_defs() if not job.name.startswith("__")}
    found = {name: {key.to_user_string() for key in job.asset_layer.executable_asset_keys} for name, job in jobs.items()}
    assert found == SELECTED
    assert {check.name: check.asset_key.to_user_string() for check in graph.asset_check_keys} == {
        "newest_backup_restores": "backup",
        "mapping_and_tana_agree": "tana_learnings",
        "few_leave_recall_at_once": "archived_memories",
    } | {each.name: each.asset for each in INVARIANTS}
    assert {sensor.name for sensor in defs.sensors or []} == {
        "silo_files_sensor",
        "backlog_sensor",
        "seed_sensor",
        "learning_sensor",
        "stored_memories_sensor",
        "tana_sensor",
        "housekeeping_sensor",
    }
    assert {schedule.name for schedule in defs.schedules or []} == {
        "decay_daily",
        "creative_weekly",
        "cluster_monthly",
        "forget_quarterly",
        "tana_hourly",
        "backup_regularly",
        "backup_check_weekly",
    }
    started = [dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING]
    assert all(each.default_status in started for each in [*(defs.sensors or []), *(defs.schedules or [])])


@pytest.mark.parametrize(("setting", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), ("", "Pacific/Auckland")])
def test_schedules_run_in_the_zone_of_the_settings_or_the_machines(
    monkeypatch: pytest.MonkeyPatch, setting: str, zone: str
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Pacific/Auckland")
    if setting:
        monkeypatch.setenv("POND_TIMEZONE", setting)
    schedules = build_defs(MemoryResource()).schedules or []
    assert {schedule.execution_timezone for schedule in schedules if isinstance(schedule, dg.ScheduleDefinition)} == {zone}


def test_a_run_of_the_sample_home_passes_every_check_and_says_how_much_was_refused(
    sample_home: Path, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    result = run(instance)
    assert result.success
    assert metadata(result, "silo_files")["refused"] == 4
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} >= {"every_key_is_unique", "no_edge_dangles", "scores_within_bounds"}
    assert all(each.passed for each in evaluations)
    again = run(instance)
    assert metadata(again, "memories")["added"] == metadata(again, "extracted_features")["analysed"] == 0
    assert metadata(again, "memories")["lance_version"] == metadata(result, "memories")["lance_version"]


def test_a_tenant_that_the_settings_do_not_name_gets_no_files(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    instance.add_dynamic_partitions(PARTITION_SET, ["guest"])
    assert run(instance, tenant="guest").success
    assert Tenant(tenant.settings, "guest").memories.count(Filters()) == 0


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
