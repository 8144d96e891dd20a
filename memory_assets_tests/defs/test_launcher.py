"""Runs as processes: liveness, recovery of dead runs, and termination by a person."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.launcher import WorkerStatus
from dagster._core.workspace.context import WorkspaceRequestContext

from memory_assets.defs.instance import open_instance
from memory_assets.defs.launcher import assign_tenant, end_dead_runs, shown_alive
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.workers import WorkerLauncher
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.torture import zygote


@pytest.fixture
def home(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings) as instance:
        yield instance


def _work(data_dir: Path, run_id: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a shell that started the tests with `&` may have let it be ignored
    with open_instance(load_settings(data_dir=data_dir)) as instance, shown_alive(instance, run_id):
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default("models")
        assert storage.claim_concurrency_slot("models", run_id, "memories").is_claimed
        instance.report_engine_event("at work", instance.get_run_by_id(run_id))
        time.sleep(600)


def _begin(home: dg.DagsterInstance, settings: Settings) -> tuple[dg.DagsterRun, zygote.Command]:
    """A run of `memory run` with a process that works on it and holds a slot."""
    started = home.add_run(dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED))
    worker = zygote.shared().call(_work, settings.data_dir, started.run_id)
    while "at work" not in [each.message for each in home.all_logs(started.run_id)]:
        assert not worker.ends_within(0.05), worker.written("err")
    return started, worker


def _kill(worker: zygote.Command) -> None:
    worker.kill()
    assert worker.wait().killed


@pytest.mark.parametrize(("named", "tenant"), [(None, "main"), ("bob", "bob"), ({"env": "TENANT_OF_RUN"}, "bob")], ids=str)
def test_a_run_without_a_partition_has_the_tenant_of_its_configuration_or_of_the_settings(
    home: dg.DagsterInstance, settings: Settings, monkeypatch: pytest.MonkeyPatch, named: object, tenant: str
) -> None:
    monkeypatch.setenv("TENANT_OF_RUN", "bob")
    for name in ("main", "bob"):
        create_tenant(Tenant(settings, name))
    begun = _add_run(home, named)
    assert assign_tenant(home, begun)
    assert home.get_dynamic_partitions(PARTITION_SET) == [tenant]
    assigned = home.get_run_by_id(begun.run_id)
    assert assigned and assigned.tags["dagster/partition"] == tenant


@pytest.mark.parametrize(("named", "why"), [("ghost", "There is no tenant 'ghost'"), ("../up", "../up")])
def test_a_run_of_a_tenant_that_does_not_exist_fails_in_one_sentence_and_adds_no_partition(
    home: dg.DagsterInstance, named: str, why: str
) -> None:
    begun = _add_run(home, named)
    assert not assign_tenant(home, begun)
    ended = home.get_run_by_id(begun.run_id)
    assert ended and ended.status is dg.DagsterRunStatus.FAILURE
    assert ended.tags["dagster/max_retries"] == "0"
    assert [why in each.message for each in home.all_logs(begun.run_id)] == [True]
    assert not home.get_dynamic_partitions(PARTITION_SET)


def _add_run(home: dg.DagsterInstance, named: object) -> dg.DagsterRun:
    """Record a run whose configuration names a tenant, if any."""
    config = {"resources": {"memory": {"config": {"tenant": named}}}} if named else {}
    return home.add_run(dg.DagsterRun("decay", run_id=str(uuid4()), run_config=config))


def test_a_run_lives_as_long_as_its_process_and_then_monitoring_ends_it(home: dg.DagsterInstance, settings: Settings) -> None:
    begun, worker = _begin(home, settings)
    assert home.run_launcher.check_run_worker_health(begun).status is WorkerStatus.RUNNING
    end_dead_runs(home)
    living = home.get_run_by_id(begun.run_id)
    assert living and not living.is_finished
    _kill(worker)
    assert home.run_launcher.check_run_worker_health(begun).status is WorkerStatus.FAILED
    home.resume_run(begun.run_id, WorkspaceRequestContext.__new__(WorkspaceRequestContext), 1)
    ended = home.get_run_by_id(begun.run_id)
    assert ended and ended.status is dg.DagsterRunStatus.FAILURE
    assert home.event_log_storage.get_concurrency_info("models").active_slot_count == 0


def test_the_next_memory_run_ends_one_that_was_killed_and_frees_its_slot(home: dg.DagsterInstance, settings: Settings) -> None:
    begun, worker = _begin(home, settings)
    unknown = home.add_run(dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED))
    _kill(worker)
    assert home.event_log_storage.get_concurrency_info("models").active_slot_count == 1
    end_dead_runs(home)
    end_dead_runs(home)
    assert home.event_log_storage.get_concurrency_info("models").active_slot_count == 0
    statuses = {each.run_id: each.status for each in home.get_runs()}
    assert statuses == {begun.run_id: dg.DagsterRunStatus.FAILURE, unknown.run_id: dg.DagsterRunStatus.STARTED}


def test_a_person_ends_a_run_through_its_process(home: dg.DagsterInstance, settings: Settings) -> None:
    begun, worker = _begin(home, settings)
    assert home.run_launcher.terminate(begun.run_id)
    assert worker.wait().code == -signal.SIGTERM
    asked = home.get_run_by_id(begun.run_id)
    assert asked and asked.status is dg.DagsterRunStatus.CANCELING
    assert home.run_launcher.terminate(begun.run_id), "its process ended before it could say so"
    ended = home.get_run_by_id(begun.run_id)
    assert ended and ended.status is dg.DagsterRunStatus.CANCELED
    assert not home.run_launcher.terminate(begun.run_id)


def test_monitoring_of_a_cluster_lets_a_memory_run_on_some_host_work() -> None:
    pytest.importorskip("dagster_celery", reason="the extra [cluster] is not installed")
    launcher = WorkerLauncher("redis://127.0.0.1:9/0")
    begun = dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED)
    assert launcher.check_run_worker_health(begun).status is WorkerStatus.RUNNING
    ended = begun.with_status(dg.DagsterRunStatus.CANCELED)
    assert launcher.check_run_worker_health(ended).status is WorkerStatus.FAILED


def test_a_person_ends_a_memory_run_of_a_cluster_host(home: dg.DagsterInstance) -> None:
    pytest.importorskip("dagster_celery", reason="the extra [cluster] is not installed")
    launcher = WorkerLauncher("redis://127.0.0.1:9/0")
    launcher.register_instance(home)
    begun = home.add_run(dg.DagsterRun("remember", run_id=str(uuid4()), status=dg.DagsterRunStatus.STARTED))
    assert launcher.terminate(begun.run_id)
    ended = home.get_run_by_id(begun.run_id)
    assert ended and ended.status is dg.DagsterRunStatus.CANCELED
