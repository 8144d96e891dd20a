"""Sensors request one run per change, retry after a failure, and create nothing by looking."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG, SCHEDULE_NAME_TAG

from memory_assets.defs import run_requests, sensors
from memory_assets.defs.build import build_defs
from memory_assets.defs.partitions import FORMER_SET, PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.upkeep import LABEL, MEMORY_RUN, delete_run, forget_tenant, read_values, seen_by
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations.erase import erase
from memory_assets.operations.store import store
from memory_assets.settings import Settings
from memory_assets.stores.relations import StatedRelation
from memory_assets.tenants import Tenant, create_tenant, delete_tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import run

SENSORS = sensors.build_sensors(MemoryResource())
NAMED = {sensor.name: sensor for sensor in SENSORS}
SOURCES, BACKLOG, STORED = (NAMED[f"{name}_sensor"] for name in ("sources", "backlog", "stored_memories"))
NOTE = NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI)
READING = ("silo_files", "seed_entries", "learning_entries")
"""The assets that read the sources."""
TAKING_IN = (*READING, "memory_entries", "extracted_features", "memories", "graph_edges")
"""The assets that note a state for the run, and those between them."""


class Daemon:
    """Ticks a sensor as Dagster does: keeps its cursor, and passes on only run keys that no run has."""

    def __init__(self, instance: dg.DagsterInstance, sensor: dg.SensorDefinition) -> None:
        self.instance, self.sensor = instance, sensor
        self.cursor: str | None = None

    def tick(self) -> list[dg.RunRequest]:
        with dg.build_sensor_context(instance=self.instance, cursor=self.cursor) as context:
            outcome = self.sensor(context)
        if not isinstance(outcome, dg.SensorResult):
            assert isinstance(outcome, dg.SkipReason)
            return []
        self.cursor = outcome.cursor or self.cursor
        for each in outcome.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(PARTITION_SET, list(each.partition_keys))
        known = {each.tags.get("dagster/run_key") for each in self.instance.get_runs()}
        return [each for each in outcome.run_requests or [] if each.run_key not in known]

    def obey(self, request: dg.RunRequest, *, only: Sequence[str] = ()) -> dg.ExecuteInProcessResult:
        """Run the sensor's job, or only some of its assets; each asset that reads a source notes its state for the run."""
        job = "reflect" if self.sensor is STORED else "backlog" if self.sensor is BACKLOG else "remember"
        tags = {**request.tags, "dagster/run_key": request.run_key or ""}
        return run(self.instance, job, str(request.partition_key), tags=tags, only=only)


@pytest.fixture
def silos(instance: dg.DagsterInstance, tenant: Tenant) -> Daemon:
    create_tenant(tenant)
    return Daemon(instance, SOURCES)


@pytest.fixture
def stored(instance: dg.DagsterInstance) -> Daemon:
    return Daemon(instance, STORED)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """`hours[0] = n` moves the sensors' clock n hours on."""
    passed = [0.0]
    now = time.time
    monkeypatch.setattr(run_requests.time, "time", lambda: now() + 3600 * passed[0])
    yield passed


def test_a_source_sensor_asks_for_one_run_a_change_and_what_the_run_saw_is_kept_beside_it_until_it_is_deleted(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    (request,) = silos.tick()
    assert request.partition_key == "main"
    assert silos.obey(request, only=READING).success
    assert silos.tick() == silos.tick() == []
    path.write_text(path.read_text() + "More.\n")
    (second,) = silos.tick()
    assert silos.obey(second, only=READING).success
    path.unlink()
    (third,) = silos.tick()
    done = instance.get_run_by_id(silos.obey(third, only=TAKING_IN).run_id)
    assert silos.tick() == []
    assert len({request.run_key, second.run_key, third.run_key}) == 3
    assert done and done.is_success
    assert {tag for tag in done.tags if "memory" in tag} == set(), "what the run saw is not in its tags"
    assert done.tags["changed"] == "silo_files"
    (seen,) = read_values(instance, "main", [seen_by(done)])
    assert set(json.loads(seen or "{}")) == {"silo_files", "seed_entries", "learning_entries", "stored_memories"}
    delete_run(instance, done.run_id)
    assert read_values(instance, "main", [seen_by(done)]) == [None]


def test_what_returns_to_an_earlier_state_is_taken_in_again(silos: Daemon, write_silo: WriteSilo, tmp_path: Path) -> None:
    path, away, keys = write_silo("owner", "Priya owns the billing export."), tmp_path / "away.md", set[str | None]()
    for move in (lambda: None, lambda: path.rename(away), lambda: away.rename(path), lambda: path.rename(away)):
        move()
        (request,) = silos.tick()
        assert silos.obey(request, only=READING).success
        assert silos.tick() == []
        keys.add(request.run_key)
    assert len(keys) == 4


def test_an_erasure_asks_for_the_runs_that_fill_the_catalog_again(
    silos: Daemon, stored: Daemon, write_silo: WriteSilo, tenant: Tenant
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    store(tenant, NOTE)
    (request,) = silos.tick()
    assert silos.obey(request, only=TAKING_IN).success
    newest = store(tenant, NewMemory("The lock was a stale reader.", Source.CLI)).id
    (request,) = stored.tick()
    assert stored.obey(request, only=("graph_edges",)).success
    assert silos.tick() == stored.tick() == []
    erase(tenant, [newest], confirm=True)
    assert [len(each.tick()) for each in (silos, stored)] == [1, 1]


@pytest.mark.parametrize("later", [1, -1_000], ids=["later", "by a clock set back"])
def test_a_failed_run_is_asked_for_again_after_a_while_and_not_before(
    silos: Daemon, write_silo: WriteSilo, monkeypatch: pytest.MonkeyPatch, hours: list[float], later: float
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    monkeypatch.setenv("MEMORY_SPACY_MODEL", "no_such_model")
    (request,) = silos.tick()
    until_it_fails = (*READING, "memory_entries", "extracted_features")
    assert not silos.obey(request, only=until_it_fails).success
    assert silos.tick() == []
    hours[0] = later
    (again,) = silos.tick()
    assert again.run_key != request.run_key
    monkeypatch.delenv("MEMORY_SPACY_MODEL")
    assert silos.obey(again, only=until_it_fails).success
    assert silos.tick() == []


def run_again(instance: dg.DagsterInstance, parent: dg.DagsterRun, only: Sequence[str], *tags: str) -> dg.DagsterRun:
    """Run assets of `remember` as a re-execution of a run, as Dagster's UI does."""
    job = build_defs(MemoryResource()).resolve_job_def("remember").get_subset(asset_selection=set(map(dg.AssetKey, only)))
    root, given = parent.root_run_id or parent.run_id, {"dagster/partition": "main", **dict.fromkeys(tags, "true")}
    made = instance.create_run_for_job(job, parent_run_id=parent.run_id, root_run_id=root, tags=given)
    execute_run(InMemoryJob(job), made, instance, raise_on_error=False)
    ended = instance.get_run_by_id(made.run_id)
    assert ended
    return ended


def test_a_change_that_only_a_failed_re_execution_saw_is_asked_for(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, hours: list[float]
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    first = silos.obey(*silos.tick(), only=READING)
    path.write_text(path.read_text() + "More.\n")
    monkeypatch.setenv("MEMORY_SPACY_MODEL", "no_such_model")
    assert not run_again(instance, first.dagster_run, (*READING, "memory_entries", "extracted_features")).is_success
    hours[0] = 1
    assert len(silos.tick()) == 1


@pytest.mark.parametrize("tag", ["dagster/is_resume_retry", "dagster/is_asset_resume_retry"])
def test_a_re_execution_from_the_failure_has_seen_what_the_failed_runs_saw(
    silos: Daemon,
    write_silo: WriteSilo,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    hours: list[float],
    tag: str,
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    failing = "memory_entries", "extracted_features"
    with monkeypatch.context() as patched:
        patched.setenv("MEMORY_SPACY_MODEL", "no_such_model")
        first = silos.obey(*silos.tick(), only=(*READING, *failing))
        second = run_again(instance, first.dagster_run, failing[1:], tag)
    assert not first.success and not second.is_success
    hours[0] = 9
    assert len(silos.tick()) == 1
    assert run_again(instance, second, failing[1:], tag).is_success
    assert silos.tick() == []


def test_a_failed_run_of_a_schedule_is_repeated_until_one_succeeds(
    instance: dg.DagsterInstance, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: list[float]
) -> None:
    create_tenant(tenant)
    place = tmp_path / "backups"
    place.touch()
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(place))
    daemon, own = Daemon(instance, NAMED["failed_schedules_sensor"]), {REPOSITORY_LABEL_TAG: LABEL}
    key = {"dagster/run_key": "back_up:main:2026-11-30"}
    assert daemon.tick() == []
    assert not run(instance, "back_up", tags={**own, **key, SCHEDULE_NAME_TAG: "backup_regularly"}).success
    assert daemon.tick() == []
    hours[0] = 1
    (request,) = daemon.tick()
    assert (request.job_name, request.partition_key) == ("back_up", "main")
    again = {**own, "dagster/run_key": str(request.run_key)}
    assert not run(instance, "back_up", tags=again).success
    hours[0] += 2 / 60
    assert daemon.tick() == []
    hours[0] += 3 / 60
    (request,) = daemon.tick()
    monkeypatch.delenv("MEMORY_BACKUP_TO")
    assert daemon.tick() == []
    monkeypatch.setenv("MEMORY_BACKUP_TO", str(place))
    place.unlink()
    assert run(instance, "back_up", tags={**own, "dagster/run_key": str(request.run_key)}).success
    assert daemon.tick() == []


def end_run(
    instance: dg.DagsterInstance,
    job: str,
    tenant: str = "main",
    tags: Mapping[str, str] = MappingProxyType({}),
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE,
) -> str:
    """Record a run of the code location that ended."""
    tags = {REPOSITORY_LABEL_TAG: LABEL, "dagster/partition": tenant, "dagster/run_key": f"{job}:{tenant}:2026-11-30", **tags}
    return instance.add_run(dg.DagsterRun(job, run_id=str(uuid4()), status=status, tags=tags)).run_id


def fail_with_retries(instance: dg.DagsterInstance, job: str, tags: Mapping[str, str]) -> None:
    """Record a run and Dagster's three retries of it, all of which fail now."""
    for number in range(4):
        retry = {"dagster/retry_number": str(number)} if number else {}
        run_id = end_run(instance, job, tags={**tags, **retry}, status=dg.DagsterRunStatus.STARTED)
        instance.report_run_failed(instance.get_run_by_id(run_id) or pytest.fail())


def test_a_change_is_asked_for_a_minute_after_the_last_of_dagsters_own_retries_failed(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance, hours: list[float]
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    (request,) = silos.tick()
    fail_with_retries(instance, "remember", {"dagster/run_key": str(request.run_key)})
    assert silos.tick() == []
    hours[0] = 2 / 60
    assert len(silos.tick()) == 1


def test_a_schedule_is_repeated_as_often_whether_dagster_retries_its_runs_or_not(
    instance: dg.DagsterInstance, tenant: Tenant, hours: list[float]
) -> None:
    create_tenant(tenant)
    daemon, tags = Daemon(instance, NAMED["failed_schedules_sensor"]), {SCHEDULE_NAME_TAG: "decay_daily"}
    for minutes in (1, 4, 16, 60, 60):
        fail_with_retries(instance, "decay", tags)
        hours[0] += (minutes - 0.5) / 60
        assert daemon.tick() == []
        hours[0] += 1 / 60
        (request,) = daemon.tick()
        tags = {**request.tags, "dagster/run_key": str(request.run_key)}


def test_a_change_whose_run_a_person_canceled_waits_for_the_next_change_but_not_after_an_interrupted_memory_run(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance, hours: list[float]
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    (request,) = silos.tick()
    canceled, key = dg.DagsterRunStatus.CANCELED, {"dagster/run_key": str(request.run_key)}
    end_run(instance, "remember", tags={**key, **MEMORY_RUN}, status=canceled)
    assert len(silos.tick()) == 1
    end_run(instance, "remember", tags=key, status=canceled)
    hours[0] = 9
    assert silos.tick() == []
    path.write_text(path.read_text() + "More.\n")
    assert len(silos.tick()) == 1


def test_a_canceled_run_is_not_asked_for_again_after_many_others_or_the_deletion_of_its_record(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    (request,) = silos.tick()
    assert silos.obey(request, only=READING).success
    path.write_text(path.read_text() + "More.\n")
    (request,) = silos.tick()
    canceled = end_run(instance, "remember", tags={"dagster/run_key": request.run_key or ""}, status=dg.DagsterRunStatus.CANCELED)
    assert silos.tick() == []
    for _ in range(run_requests._MAX_RUNS_CHECKED):
        end_run(instance, "decay", status=dg.DagsterRunStatus.SUCCESS)
    assert silos.tick() == []
    delete_run(instance, canceled)
    assert silos.tick() == []
    path.write_text(path.read_text() + "Most.\n")
    assert len(silos.tick()) == 1


def test_repeats_go_on_after_the_record_of_the_scheduled_run_is_deleted(instance: dg.DagsterInstance, tenant: Tenant) -> None:
    create_tenant(tenant)
    daemon, scheduled = Daemon(instance, NAMED["failed_schedules_sensor"]), {SCHEDULE_NAME_TAG: "decay_daily"}
    first = end_run(instance, "decay", tags=scheduled)
    for _ in range(3):
        (request,) = daemon.tick()
        assert len(request.run_key or "") < 40
        end_run(instance, "decay", tags={**request.tags, "dagster/run_key": request.run_key or ""})
        delete_run(instance, first)


def test_a_job_that_succeeded_after_its_schedule_failed_is_not_repeated_however_often_it_fails_later(
    instance: dg.DagsterInstance, tenant: Tenant
) -> None:
    create_tenant(tenant)
    end_run(instance, "decay", tags={SCHEDULE_NAME_TAG: "decay_daily"})
    end_run(instance, "decay", status=dg.DagsterRunStatus.SUCCESS)
    for _ in range(12):
        end_run(instance, "decay")
    assert Daemon(instance, NAMED["failed_schedules_sensor"]).tick() == []


def test_a_failed_trial_of_a_backup_waits_for_the_next_week(
    instance: dg.DagsterInstance, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tenant(tenant)
    monkeypatch.setenv("MEMORY_BACKUP_TO", "/nowhere")
    end_run(instance, "check_backup", tags={SCHEDULE_NAME_TAG: "backup_check_weekly"})
    assert Daemon(instance, NAMED["failed_schedules_sensor"]).tick() == []


def test_after_an_upgrade_failed_schedules_are_repeated_at_once_and_a_tenant_without_a_partition_fails_no_tick(
    instance: dg.DagsterInstance, settings: Settings
) -> None:
    instance.delete_dynamic_partition(PARTITION_SET, "main")
    instance.add_dynamic_partitions(FORMER_SET, ["main"])
    for name in ("main", "bob"):
        create_tenant(Tenant(settings, name))
        end_run(instance, "decay", name, {SCHEDULE_NAME_TAG: "decay_daily"})
    assert [each.partition_key for each in Daemon(instance, NAMED["failed_schedules_sensor"]).tick()] == ["main"]


def test_a_change_is_asked_for_until_it_is_taken_in_even_if_the_run_never_began(silos: Daemon, write_silo: WriteSilo) -> None:
    write_silo("owner", "Priya owns the billing export.")
    (first,) = silos.tick()
    (second,) = silos.tick()
    assert first.run_key == second.run_key


def test_several_sources_that_change_together_make_one_run(
    silos: Daemon, write_silo: WriteSilo, settings: Settings, instance: dg.DagsterInstance
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    settings.pai_seed.parent.mkdir(parents=True)
    settings.pai_seed.write_text("{}")
    (request,) = silos.tick()
    assert request.tags["changed"] == "seed_entries, silo_files"
    assert len(request.run_key or "") < 60
    assert silos.obey(request, only=READING).success
    assert silos.tick() == []
    settings.pai_seed.write_text('{"version": "1.0.0"}')
    (request,) = silos.tick()
    assert request.tags["changed"] == "seed_entries"


def test_nothing_is_asked_for_while_a_run_of_the_tenant_is_under_way(
    silos: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    tags = {"dagster/partition": "main"}
    instance.add_run(dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED, tags=tags))
    assert silos.tick() == []


def test_the_nudge_counts_what_waits_and_touches_and_proposes_nothing(
    instance: dg.DagsterInstance, tenant: Tenant, write_silo: WriteSilo
) -> None:
    create_tenant(tenant)
    path = write_silo("plan", "Show the plan first.", kind="feedback")
    backlog = Daemon(instance, BACKLOG)
    (request,) = backlog.tick()
    assert backlog.obey(request).success
    assert backlog.tick() == []
    assert path.exists()
    assert not tenant.settings.pai_learning_dir.exists()


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: sensor.name)
def test_looking_creates_nothing(
    sensor: dg.SensorDefinition, instance: dg.DagsterInstance, settings: Settings, write_silo: WriteSilo
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    assert Daemon(instance, sensor).tick() == []
    assert not settings.data_dir.exists()


def test_memories_and_relations_stored_directly_are_reflected_once(stored: Daemon, tenant: Tenant) -> None:
    first = store(tenant, NOTE)
    (request,) = stored.tick()
    assert stored.obey(request).success
    assert stored.tick() == []
    second = store(tenant, NewMemory("The lock was a stale reader.", Source.CLI))
    tenant.relations.state(StatedRelation(second.id, first.id, RelationType.RELATES_TO))
    (request,) = stored.tick()
    assert stored.obey(request).success
    assert stored.tick() == []


def test_what_was_taken_in_by_hand_and_what_the_pipeline_and_upkeep_write_asks_for_no_run(
    silos: Daemon, stored: Daemon, write_silo: WriteSilo, instance: dg.DagsterInstance, tenant: Tenant
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    assert run(instance).success
    assert silos.tick() == stored.tick() == []
    tenant.memories.table.optimize()
    assert stored.tick() == []


def test_a_tenant_restored_from_a_copy_or_created_again_under_its_name_triggers_its_runs(
    silos: Daemon, stored: Daemon, write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    copy = tenant.settings.data_dir.with_name("backup")
    write_silo("owner", "Priya owns the billing export.")
    assert silos.obey(*silos.tick(), only=TAKING_IN).success
    shutil.copytree(tenant.folder, copy)
    store(tenant, NOTE)
    write_silo("rota", "Tomasz has the rota.")
    assert silos.obey(*silos.tick(), only=TAKING_IN).success
    assert silos.tick() == stored.tick() == []
    shutil.rmtree(tenant.folder)
    copy.rename(tenant.folder)
    (request,) = silos.tick()
    assert silos.obey(request, only=TAKING_IN).success
    assert silos.tick() == stored.tick() == []
    delete_tenant(tenant)
    forget_tenant(instance, "main")
    assert silos.tick() == stored.tick() == []
    create_tenant(Tenant(tenant.settings))
    (again,) = silos.tick()
    assert silos.obey(again, only=TAKING_IN).success
    assert silos.tick() == stored.tick() == []


def test_a_damaged_tenant_is_asked_for_in_its_own_name_and_hides_nobody(
    stored: Daemon, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bob", "eve"):
        store(Tenant(tenant.settings, name), NOTE)
    for manifest in (tenant.settings.tenant_dir("eve") / "vectors/memories.lance/_versions").iterdir():
        manifest.write_bytes(b"not a manifest")
    requests = {str(each.partition_key): each for each in stored.tick()}
    assert set(requests) == {"bob", "eve"}
    assert stored.obey(requests["bob"]).success
    assert not stored.obey(requests["eve"]).success
    assert stored.tick() == []


@pytest.mark.parametrize("of_set", [PARTITION_SET, FORMER_SET])
def test_schedules_ask_for_one_run_of_each_tenant_that_exists_right_after_an_upgrade_too(
    disk_instance: dg.DagsterInstance, tenant: Tenant, of_set: str
) -> None:
    create_tenant(tenant)
    disk_instance.delete_dynamic_partition(PARTITION_SET, "main")
    disk_instance.add_dynamic_partitions(of_set, ["main"])
    disk_instance.add_dynamic_partitions(PARTITION_SET, ["deleted"])
    decay = next(each for each in build_defs(MemoryResource()).schedules or [] if each.name == "decay_daily")
    assert isinstance(decay, dg.ScheduleDefinition)
    moment = datetime(2026, 11, 1, 3, 10, tzinfo=UTC)
    resources = {"memory": MemoryResource()}
    with dg.build_schedule_context(instance=disk_instance, scheduled_execution_time=moment, resources=resources) as context:
        outcome = decay(context)
    assert isinstance(outcome, list)
    assert [(each.partition_key, each.run_key) for each in outcome] == [("main", "decay:main:2026-11-01")]
    assert not tenant.settings.tenant_dir("deleted").exists()


def test_both_hours_at_the_end_of_summer_time_have_their_reading_of_tana(
    disk_instance: dg.DagsterInstance, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tenant(tenant)
    monkeypatch.setenv("MEMORY_TANA_TOKEN", "token")
    hourly = next(each for each in build_defs(MemoryResource()).schedules or [] if each.name == "tana_hourly")
    assert isinstance(hourly, dg.ScheduleDefinition)
    keys = set[str | None]()
    for hour in range(2):
        moment = (datetime(2026, 10, 25, 0, 25, tzinfo=UTC) + timedelta(hours=hour)).astimezone(ZoneInfo("Europe/Berlin"))
        given = {"scheduled_execution_time": moment, "resources": {"memory": MemoryResource()}}
        with dg.build_schedule_context(instance=disk_instance, **given) as context:
            outcome = hourly(context)
        assert isinstance(outcome, list)
        keys |= {each.run_key for each in outcome}
    assert keys == {"read_tana:main:2026-10-25T02+0200", "read_tana:main:2026-10-25T02+0100"}
