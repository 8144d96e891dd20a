"""Dagster's stored data is bounded, private, free of memory texts, and deleted with its tenant."""

import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from unittest.mock import Mock
from uuid import uuid4

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.storage.tags import PARTITION_NAME_TAG, REPOSITORY_LABEL_TAG
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from memory_assets import supervisor
from memory_assets.cli.main import cli
from memory_assets.defs import runner
from memory_assets.defs.build import build_defs
from memory_assets.defs.instance import main as set_up_instance
from memory_assets.defs.instance import open_instance
from memory_assets.defs.partitions import FORMER_SET, PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors
from memory_assets.defs.upkeep import KEPT_RUNS, LABEL, MEMORY_RUN, forget_tenant, sweep_runs
from memory_assets.defs.workers import TASK_TAG, WorkerLauncher, _life_key
from memory_assets.errors import StoreError
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.operations.tenants import delete
from memory_assets.probes import Probe
from memory_assets.settings import Settings
from memory_assets.stores.records import OURS
from memory_assets.supervisor import STATE, Part, _lock_state, _run_parts, _stop_parts
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import run
from memory_assets_tests.services import NoServerError, Redis
from memory_assets_tests.torture import zygote

_ORIGIN = RemoteInstigatorOrigin(
    repository_origin=RemoteRepositoryOrigin(
        code_location_origin=InProcessCodeLocationOrigin(LoadableTargetOrigin(executable_path="python")),
        repository_name="memory",
    ),
    instigator_name="stored_memories_sensor",
)
PHRASES = (b"quartz lighthouse", b"Zebedee", b"marmalade")


@pytest.fixture
def home(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings) as instance:
        yield instance


def holding(folder: Path) -> set[str]:
    """Return the files that contain a phrase of a memory."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    return {str(each.relative_to(folder)) for each in files if any(phrase in each.read_bytes() for phrase in PHRASES)}


def test_run_records_hold_no_text_and_a_deleted_tenant_leaves_no_byte(
    write_silo: WriteSilo, tenant: Tenant, settings: Settings, home: dg.DagsterInstance
) -> None:
    write_silo("owner", "Zebedee keeps the quartz lighthouse for marmalade.")
    for number in range(6):
        store(tenant, NewMemory(f"Zebedee lit the quartz lighthouse of marmalade, night {number}.", Source.CLI))
    home.add_dynamic_partitions(PARTITION_SET, ["main"])
    everything = build_defs(MemoryResource()).resolve_implicit_global_asset_job_def()
    assert everything.execute_in_process(instance=home, partition_key="main", tags=MEMORY_RUN).success
    archiving = {"ops": {"archived_memories": {"config": {"archive": True}}}}
    assert run(home, "forget", run_config=archiving).success
    assert {path.split("/")[0] for path in holding(settings.data_dir)} == {"main"}
    done = CliRunner().invoke(cli, ["tenant", "delete", "main", "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert holding(settings.data_dir) == set()
    assert home.get_runs_count() == 0
    assert not home.get_dynamic_partitions(PARTITION_SET)
    assert not home.get_materialized_partitions(dg.AssetKey("memories"))


def test_deleting_a_tenant_leaves_the_others_runs_and_its_name_nowhere(home: dg.DagsterInstance, settings: Settings) -> None:
    home.add_dynamic_partitions(PARTITION_SET, ["bob", "eve_x"])
    for name in ("bob", "eve_x"):
        store(Tenant(settings, name), NewMemory("Alice debugged the lock.", Source.CLI))
        assert run(home, "decay", name).success
    state = InstigatorState(_ORIGIN, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData())
    home.add_instigator_state(state)
    now = datetime.now(UTC).timestamp()
    for ago, key in (
        (3, "stored_memories:eve_x:1:first"),
        (2, "stored_memories:bob:1:first"),
        (1, "stored_memories:bob:2:first"),
    ):
        where = (state.instigator_origin_id, "stored_memories_sensor", InstigatorType.SENSOR)
        home.create_tick(
            TickData(*where, TickStatus.SUCCESS, now - ago, run_ids=[], run_keys=[key], selector_id=state.selector_id)
        )
    for backfill_id, tenants in (("both", ["bob", "eve_x"]), ("one", ["bob"])):
        moment, ended = now, BulkActionStatus.COMPLETED_SUCCESS
        home.add_backfill(PartitionBackfill(backfill_id, ended, False, {}, moment, partition_names=tenants))
    forget_tenant(home, "eve_x")
    assert [each.backfill_id for each in home.get_backfills()] == ["one"]
    assert [each.tags["dagster/partition"] for each in home.get_runs()] == ["bob"]
    assert home.get_dynamic_partitions(PARTITION_SET) == ["bob"]
    (tick,) = home.get_ticks(state.instigator_origin_id, state.selector_id)
    assert tick.run_keys == ["stored_memories:bob:2:first"]
    dumps = [line for each in Path(home.root_directory).rglob("*.db") for line in sqlite3.connect(each).iterdump()]
    assert any("bob" in line for line in dumps)
    assert [line for line in dumps if "eve_x" in line] == []


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_a_deleted_tenant_is_forgotten_as_soon_as_no_worker_works_on_its_runs(settings: Settings, tmp_path: Path) -> None:
    pytest.importorskip("dagster_celery", reason="the extra [cluster] is not installed")
    with open_instance(settings) as instance:
        config = Path(instance.root_directory, "dagster.yaml")
    try:
        with Redis(tmp_path / "redis") as server:
            launcher = {"module": "memory_assets.defs.workers", "class": "WorkerLauncher", "config": {"broker": server.url}}
            config.write_text(f"{OURS}\n{yaml.dump(yaml.safe_load(config.read_text()) | {'run_launcher': launcher})}")
            with open_instance(settings) as instance:
                assert isinstance(instance.run_launcher, WorkerLauncher)
                instance.add_dynamic_partitions(PARTITION_SET, ["bob"])
                tags = {REPOSITORY_LABEL_TAG: LABEL, PARTITION_NAME_TAG: "bob", TASK_TAG: "of bob"}
                instance.add_run(dg.DagsterRun("decay", run_id=str(uuid4()), status=dg.DagsterRunStatus.SUCCESS, tags=tags))
                instance.run_launcher.redis.set(_life_key("of bob"), "")
                forget_tenant(instance, "bob")
                assert instance.get_runs_count() == 1
                assert instance.get_dynamic_partitions(PARTITION_SET) == ["bob"]
                instance.run_launcher.redis.flushall()
                forget_tenant(instance, "bob")
                assert not instance.get_runs_count()
                assert not instance.get_dynamic_partitions(PARTITION_SET)
    except NoServerError as error:
        pytest.skip(str(error))


def test_a_tenant_whose_deletion_from_the_records_was_cut_short_is_found_by_housekeeping(
    home: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add_dynamic_partitions(PARTITION_SET, ["bob"])
    moment, ended = datetime.now(UTC).timestamp(), BulkActionStatus.COMPLETED_SUCCESS
    home.add_backfill(PartitionBackfill("one", ended, False, {}, moment, partition_names=["bob"]))
    with monkeypatch.context() as patch:
        patch.setattr(home, "wipe_asset_cached_status", Mock(side_effect=ConnectionError))
        with pytest.raises(ConnectionError):
            forget_tenant(home, "bob")
    keep_house(home)
    assert not home.get_backfills()


def add_tick(home: dg.DagsterInstance, ahead: timedelta) -> InstigatorState:
    """Record a tick of a sensor that runs, so much ahead of the clock."""
    state = InstigatorState(_ORIGIN, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData())
    home.add_instigator_state(state)
    where = (state.instigator_origin_id, "stored_memories_sensor", InstigatorType.SENSOR)
    moment = (datetime.now(UTC) + ahead).timestamp()
    home.create_tick(TickData(*where, TickStatus.SUCCESS, moment, run_ids=[], run_keys=[], selector_id=state.selector_id))
    return state


@pytest.mark.parametrize(("ahead", "kept"), [(timedelta(days=1_000), 0), (timedelta(hours=6), 0), (-timedelta(hours=1), 1)])
def test_sensors_run_again_after_the_clock_was_ahead(
    home: dg.DagsterInstance, capsys: pytest.CaptureFixture[str], ahead: timedelta, kept: int
) -> None:
    state = add_tick(home, ahead)
    set_up_instance()
    assert len(home.get_ticks(state.instigator_origin_id, state.selector_id)) == kept
    assert len(home.all_instigator_state()) == kept
    assert capsys.readouterr().out == f"{home.root_directory}\n"


def test_sensors_run_again_after_the_clock_is_set_back_in_small_steps_and_at_first_no_record_can_be_deleted(
    home: dg.DagsterInstance, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, true_time, looks = timedelta(hours=6), time.time, count()
    add_tick(home, ahead)
    workspace = Path(home.root_directory) / "workspace.yaml"
    workspace.touch()
    config = workspace.with_name("dagster.yaml")
    configuration = config.read_bytes()
    config.write_text("storage: 1")
    code, daemon = parts = [Part(name, ["sleep", "60"], partial(Probe, lambda: True)) for name in ("code location", "daemon")]
    monkeypatch.setattr(time, "time", lambda: true_time() + ahead.total_seconds())
    said: list[str] = []

    def set_up() -> None:
        if zygote.shared().call(set_up_instance).wait().code:
            raise StoreError("Its message is above.")

    class Looks(Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal ahead
            ahead -= timedelta(seconds=290)
            if next(looks) > 200:
                self.set()
            return super().wait(0.02)

    stopping = Looks()

    def announce(line: str) -> None:
        said.append(line)
        if config.read_bytes() == configuration:
            stopping.set()
        config.write_bytes(configuration)

    monkeypatch.setattr(supervisor, "_set_up_instance", set_up)
    with _lock_state(settings.data_dir / STATE) as state:
        _run_parts(parts, workspace.parent, workspace.parent / "code.sock", state, stopping, announce)
        _stop_parts(parts, announce)
    assert ["wait" in each for each in said] == [True, False]
    assert home.all_instigator_state() == []
    assert [(each.restarts, each.ended, each.pause) for each in (code, daemon)] == [(0, "", 1.0)] * 2


def test_a_tenant_that_is_gone_from_the_disk_is_forgotten_within_the_hour(home: dg.DagsterInstance, settings: Settings) -> None:
    home.add_dynamic_partitions(PARTITION_SET, ["bob"])
    left = settings.data_dir / ".deleted-bob-0123abcd"
    left.mkdir()
    keep_house(home)
    assert not home.get_dynamic_partitions(PARTITION_SET)
    assert not settings.tenant_dir("bob").exists()
    assert not left.exists()


def test_a_tenant_is_deleted_while_dagsters_records_cannot_be_reached_and_housekeeping_deletes_them(
    home: dg.DagsterInstance, settings: Settings
) -> None:
    store(Tenant(settings, "bob"), NewMemory("Alice debugged the lock.", Source.CLI))
    home.add_dynamic_partitions(PARTITION_SET, ["bob"])
    config = Path(home.root_directory, "dagster.yaml")
    right = config.read_text()
    config.write_text(right.replace("{env: DAGSTER_HOME}", "{env: NOT_SET_HERE}"))
    done = CliRunner().invoke(cli, ["tenant", "delete", "bob", "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.output.startswith("Deleted tenant bob with 1 memory. Housekeeping will delete Dagster's records of it: ")
    assert "NOT_SET_HERE" in done.output
    config.write_text(right)
    keep_house(home)
    assert not home.get_dynamic_partitions(PARTITION_SET)


def test_why_records_of_a_deleted_tenant_are_left_names_the_server_and_asks_for_nothing(
    home: dg.DagsterInstance, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = pytest.importorskip("redis", reason="the extra [cluster] is not installed")
    monkeypatch.setattr(runner, "forget_tenant", Mock(side_effect=redis.ConnectionError("refused")))
    create_tenant(Tenant(settings, "bob"))
    assert delete(Tenant(settings, "bob")).records_fault == "Redis does not answer (refused)"


def keep_house(instance: dg.DagsterInstance) -> str:
    """Let the housekeeping sensor tick; return what it says."""
    (housekeeping,) = [each for each in build_sensors(MemoryResource()) if each.name == "housekeeping_sensor"]
    with dg.build_sensor_context(instance=instance) as context:
        said = housekeeping(context)
    assert isinstance(said, dg.SkipReason)
    return said.skip_message or ""


@dg.asset(partitions_def=dg.DynamicPartitionsDefinition(name="tenant"))
def orders() -> int:
    """An asset of another project, whose partitions are customers."""
    return 1


def test_housekeeping_in_an_instance_of_others_leaves_their_runs_partitions_and_files_as_they_are(tmp_path: Path) -> None:
    config = tmp_path / "dagster.yaml"
    config.write_text("telemetry: {enabled: false}\n")
    config.chmod(0o644)

    def end_run(name: str, **tags: str) -> str:
        ended = dg.DagsterRun(name, run_id=str(uuid4()), status=dg.DagsterRunStatus.SUCCESS, tags=tags)
        return theirs.add_run(ended).run_id

    with dg.DagsterInstance.from_config(str(tmp_path)) as theirs:
        theirs.add_dynamic_partitions("tenant", ["acme"])
        memory = {"io_manager": dg.mem_io_manager}
        assert dg.materialize([orders], instance=theirs, partition_key="acme", resources=memory).success
        for _ in range(KEPT_RUNS):
            end_run("orders", **{REPOSITORY_LABEL_TAG: "__repository__@shop", PARTITION_NAME_TAG: "acme"})
        kept = set(theirs.get_run_ids())
        theirs.add_dynamic_partitions(PARTITION_SET, ["acme"])
        end_run("decay", **{REPOSITORY_LABEL_TAG: LABEL, PARTITION_NAME_TAG: "acme"})
        assert "other projects" in keep_house(theirs)
        assert set(theirs.get_run_ids()) == kept
        assert theirs.get_dynamic_partitions("tenant") == ["acme"]
        assert not theirs.get_dynamic_partitions(PARTITION_SET)
        assert theirs.get_materialized_partitions(orders.key) == {"acme"}
        assert theirs.get_latest_materialization_event(orders.key)
    assert config.stat().st_mode & 0o777 == 0o644


def test_housekeeping_knows_an_instance_of_this_project_that_this_host_would_not_open(
    home: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add_dynamic_partitions(PARTITION_SET, ["gone"])
    home.add_dynamic_partitions(FORMER_SET, ["gone"])
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "of this host"))
    assert "other projects" not in keep_house(home)
    assert not home.get_dynamic_partitions(FORMER_SET)


def test_a_tenant_of_the_release_before_keeps_its_partition(home: dg.DagsterInstance, tenant: Tenant) -> None:
    store(tenant, NewMemory("Alice debugged the lock.", Source.CLI))
    home.add_dynamic_partitions(FORMER_SET, ["main", "gone"])
    keep_house(home)
    assert home.get_dynamic_partitions(PARTITION_SET) == ["main"]


def test_the_instance_is_set_up_while_the_state_of_the_tenants_cannot_be_reached(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_STATE_URI", "postgresql://nobody@127.0.0.1:9/none")
    set_up_instance()
    assert capsys.readouterr().out == f"{settings.data_dir / 'dagster'}\n"


def test_the_records_of_the_newest_runs_are_kept_and_no_file_of_the_others(home: dg.DagsterInstance, tenant: Tenant) -> None:
    store(tenant, NewMemory("Alice debugged the lock.", Source.CLI))
    home.add_dynamic_partitions(PARTITION_SET, ["main"])
    ids = [run(home, "decay").run_id for _ in range(4)]
    home.add_run(dg.DagsterRun("decay", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED))
    assert sweep_runs(home, keep=2) == 2
    finished = home.get_run_ids(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
    assert list(finished) == ids[:1:-1]
    assert home.get_runs_count() == 3
    named = {path.name for path in Path(home.root_directory).rglob("*") if any(each in path.name for each in ids[:2])}
    assert named == set()
    with sqlite3.connect(Path(home.root_directory, "history", "runs", "index.db")) as index:
        kept = {run_id for (run_id,) in index.execute("SELECT run_id FROM asset_check_executions")}
    assert kept == set(ids[2:])
    assert sweep_runs(home, keep=2) == 0
