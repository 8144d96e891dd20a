"""Backups by the daemon: an asset, a check that restores, and schedules that wait for a backup location."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.doctor import examine
from memory_assets.keeping.repository import Repository
from memory_assets.operations.backup import places_of
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
from memory_assets_tests.defs.conftest import metadata, run
from memory_assets_tests.keeping.test_backup import add

SCHEDULES = ("backup_regularly", "backup_check_weekly")


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)


def test_a_backup_is_taken_and_tried_out(
    tenant: Tenant, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 5)
    place = tmp_path / "backups"
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(place))
    done = run(instance, "check_backup")
    assert done.success
    assert metadata(done, "backup")["dagster/partition_row_count"] == 5
    (check,) = done.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("newest_backup_restores", True)
    assert not list((tenant.settings.data_dir / "tmp").glob("restored-*"))
    assert run(instance, "back_up").get_asset_check_evaluations() == []

    snapshot = Repository(str(place)).require("main")
    hurt = snapshot.tables["memories"].packs[0].rows
    file = place / "objects" / hurt[:2] / hurt
    damage(file)
    (check,) = run(instance, "check_backup").get_asset_check_evaluations()
    assert not check.passed
    assert hurt in (check.description or "")

    monkeypatch.delenv("MEMORY_BACKUP_TO")
    assert places_of(Tenant(load_settings())) == [str(place)]
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(tenant.settings.data_dir / "backups"))
    assert not run(instance, "back_up").success
    assert not (tenant.settings.data_dir / "backups").exists()


def test_an_encrypted_backup_is_tried_out_without_its_identity_as_far_as_its_bytes_go(
    tenant: Tenant, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    from pyrage import x25519  # pyright: ignore[reportAttributeAccessIssue]

    add(tenant, 1)
    place = tmp_path / "backups"
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(place))
    monkeypatch.setenv("MEMORY_BACKUP_RECIPIENT", str(x25519.Identity.generate().to_public()))
    (check,) = run(instance, "check_backup").get_asset_check_evaluations()
    assert check.passed
    assert "no text was restored" in str(check.metadata["note"].value)
    hurt = Repository(str(place)).require("main").tables["memories"].packs[0].rows
    damage(place / "objects" / hurt[:2] / hurt)
    (check,) = run(instance, "check_backup").get_asset_check_evaluations()
    assert (check.passed, hurt in (check.description or "")) == (False, True)


@pytest.mark.parametrize("last", ["main", "second"], ids=["one", "two"])
def test_a_single_run_of_several_tenants_is_refused_and_marks_none_of_them_backed_up(
    tenant: Tenant, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, last: str
):
    for each in (tenant, Tenant(tenant.settings, "second")):
        add(each, 1)
    instance.add_dynamic_partitions(PARTITION_SET, ["second"])
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(tmp_path / "backups"))
    tags = {ASSET_PARTITION_RANGE_START_TAG: "main", ASSET_PARTITION_RANGE_END_TAG: last}
    job = build_defs(MemoryResource()).resolve_job_def("back_up")
    done = job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    assert done.success == (last == "main")
    assert instance.get_materialized_partitions(dg.AssetKey("backup")) == ({"main"} if done.success else set())
    assert (tmp_path / "backups").exists() == done.success
    said = [each.step_failure_data.user_failure_data for each in done.all_events if each.is_step_failure]
    assert [each and each.description for each in said] == (
        [] if done.success else ['A run works on one tenant; launch it again with "Multiple runs".']
    )


def test_the_doctor_says_how_old_the_newest_backup_is_and_that_its_place_cannot_be_written(
    tenant: Tenant, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 1)
    place = tmp_path / "backups"

    def find() -> tuple[str, str]:
        (found,) = [each for each in examine(Tenant(load_settings())) if str(place) in each.what]
        return found.level, found.what

    monkeypatch.setenv("MEMORY_BACKUP_TO", str(place))
    assert find() == ("note", f"{place} holds no backup of the tenant main yet")
    assert run(instance, "back_up").success
    assert find()[0] == "ok"
    repository = Repository(str(place))
    newest = repository.require("main")
    repository.write(newest.model_copy(update={"taken_at": newest.taken_at - timedelta(days=3)}))
    repository.remove([newest])
    assert find() == ("fault", f"The newest backup of the tenant main in {place} is 3 days old.")
    monkeypatch.setenv("MEMORY_BACKUP_EVERY", "weekly")
    assert find()[0] == "ok"
    shutil.rmtree(place)
    place.touch()
    assert find() == ("fault", f"Backups cannot be kept in {place} (Not a directory).")


def test_without_a_place_no_backup_looks_fresh_or_tried_out(
    tenant: Tenant, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    def is_due() -> bool:
        return build_defs(MemoryResource()).resolve_asset_graph().get(dg.AssetKey("backup")).freshness_policy is not None

    add(tenant, 1)
    done = run(instance, "check_backup")
    assert done.success
    (check,) = done.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert not is_due()
    monkeypatch.setenv("MEMORY_BACKUP_TO", "/nowhere")
    assert is_due()


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_schedules_wait_for_a_place(
    name: str, tenant: Tenant, disk_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    add(tenant, 1)
    moment = datetime(2026, 3, 16, 3, 40, tzinfo=UTC)
    monkeypatch.setenv("MEMORY_BACKUP_EVERY", "weekly")

    def evaluate() -> Any:
        repository = build_defs(MemoryResource()).get_repository_def()
        schedule = repository.get_schedule_def(name)
        given: dict[str, Any] = {
            "repository_def": repository,
            "scheduled_execution_time": moment,
            "resources": {"memory": MemoryResource()},
        }
        with dg.build_schedule_context(disk_instance, **given) as context:
            return schedule.evaluate_tick(context)

    assert "MEMORY_BACKUP_TO" in str(evaluate().skip_message)
    monkeypatch.setenv("MEMORY_BACKUP_TO", "/nowhere")
    (request,) = evaluate().run_requests
    assert request.partition_key == "main"
    assert disk_instance.get_dynamic_partitions(PARTITION_SET) == ["main"]
