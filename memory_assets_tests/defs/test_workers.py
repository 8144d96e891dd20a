"""Runs of a cluster's workers: signs of life in Redis, and signals to a process whose worker answers no more."""

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext, ResumeRunContext, WorkerStatus
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

from memory_assets.defs import workers
from memory_assets.defs.workers import TASK_TAG, WorkerLauncher, show_alive
from memory_assets.errors import StoreError
from memory_assets_tests.services import NoServerError, Redis

redis = pytest.importorskip("redis", reason="the extra [cluster] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")  # by Celery
MANY = 100
"""More checks than any patience lasts."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    monkeypatch.setattr(workers, "_RENEWAL_SECONDS", 0.01)
    try:
        with Redis(tmp_path / "redis") as running:
            yield running
    except NoServerError as error:
        pytest.skip(str(error))


@pytest.fixture
def launcher(server: Redis, disk_instance: dg.DagsterInstance) -> WorkerLauncher:
    made = WorkerLauncher(server.url)
    made.register_instance(disk_instance)
    return made


@pytest.fixture
def begun(launcher: WorkerLauncher, disk_instance: dg.DagsterInstance) -> dg.DagsterRun:
    """A run that a worker has begun, and that worker answers no questions."""
    task_id = str(uuid4())
    launcher.celery.backend.store_result(task_id, {"hostname": "worker1"}, "STARTED")
    origin = JobPythonOrigin("remember", RepositoryPythonOrigin("python", ModuleCodePointer("a", "b")))
    return disk_instance.add_run(
        dg.DagsterRun(
            "remember",
            run_id=str(uuid4()),
            status=dg.DagsterRunStatus.STARTED,
            tags={TASK_TAG: task_id},
            job_code_origin=origin,
        )
    )


@pytest.fixture
def signals() -> Iterator[SimpleQueue[int]]:
    """The signals that this process would have sent to itself."""
    sent = SimpleQueue[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers.os, "kill", lambda _, number: sent.put(number))
        yield sent


def test_a_run_is_alive_while_its_process_shows_it_even_if_its_worker_answers_nothing(
    launcher: WorkerLauncher, begun: dg.DagsterRun
):
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        wait_for_sign(launcher, begun)
        assert {launcher.check_run_worker_health(begun).status for _ in range(MANY)} == {WorkerStatus.RUNNING}


def test_a_run_is_alive_although_redis_was_emptied_during_it(launcher: WorkerLauncher, begun: dg.DagsterRun):
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        wait_for_sign(launcher, begun)
        launcher.redis.flushall()
        wait_for_sign(launcher, begun)
        assert {launcher.check_run_worker_health(begun).status for _ in range(MANY)} == {WorkerStatus.RUNNING}


def test_a_run_whose_process_shows_no_life_is_dead_after_a_few_checks(launcher: WorkerLauncher, begun: dg.DagsterRun):
    assert not launcher.is_worked_on(begun)
    found = [launcher.check_run_worker_health(begun).status for _ in range(workers._SILENT_CHECKS)]
    assert found == [WorkerStatus.RUNNING] * (workers._SILENT_CHECKS - 1) + [WorkerStatus.FAILED]


def test_checks_before_an_outage_of_redis_do_not_count(server: Redis, launcher: WorkerLauncher, begun: dg.DagsterRun):
    for _ in range(workers._SILENT_CHECKS - 1):
        launcher.check_run_worker_health(begun)
    server.kill()
    with pytest.raises(redis.ConnectionError):
        launcher.check_run_worker_health(begun)
    server.start()
    assert launcher.check_run_worker_health(begun).status is WorkerStatus.RUNNING


def test_a_sign_of_life_ends_with_its_process_and_is_not_renewed_after_its_task(launcher: WorkerLauncher, begun: dg.DagsterRun):
    others = set(threading.enumerate())
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        wait_for_sign(launcher, begun)
        assert 0 < launcher.redis.ttl(f"memory_assets:alive:{begun.tags[TASK_TAG]}") <= workers._LIFE_SECONDS
        [renewal] = set(threading.enumerate()) - others
    renewal.join(timeout=60)
    assert not renewal.is_alive()


def test_a_process_that_was_halted_dies_if_its_run_was_resumed_meanwhile(
    launcher: WorkerLauncher, begun: dg.DagsterRun, disk_instance: dg.DagsterInstance, signals: SimpleQueue[int]
):
    launcher.resume_run(ResumeRunContext(begun, workspace=None, resume_attempt_number=1))
    resumed = disk_instance.get_run_by_id(begun.run_id)
    assert resumed and resumed.tags[TASK_TAG] != begun.tags[TASK_TAG]
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        assert signals.get() == signal.SIGKILL
    with show_alive(launcher.redis, resumed.tags[TASK_TAG]):
        wait_for_sign(launcher, resumed)
    assert signals.empty()


def test_a_signal_for_a_task_that_has_ended_does_not_hit_the_next_one_of_its_process(signals: SimpleQueue[int]):
    asked, ended = threading.Event(), threading.Event()

    class SlowRedis:
        def set(self, *_: object, **__: object) -> None: ...

        def get(self, _: str) -> bytes:
            asked.set()
            ended.wait()
            return b"15"

    redis: Any = SlowRedis()
    others = set(threading.enumerate())
    with show_alive(redis, "ended"):
        asked.wait()
        [renewal] = set(threading.enumerate()) - others
    ended.set()
    renewal.join()
    assert signals.empty()


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_task_is_submitted_only_if_its_id_was_stored(
    launcher: WorkerLauncher,
    begun: dg.DagsterRun,
    disk_instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    is_resumed: bool,
):
    def submit() -> None:
        if is_resumed:
            launcher.resume_run(ResumeRunContext(begun, workspace=None, resume_attempt_number=1))
        else:
            launcher.launch_run(LaunchRunContext(begun, workspace=None))

    def fail(*_: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(workers, "assign_tenant", lambda *_: True)
    with monkeypatch.context() as patch:
        patch.setattr(disk_instance, "add_run_tags", fail)
        with pytest.raises(ConnectionError):
            submit()
    assert not launcher.redis.exists("dagster")
    submit()
    submitted: Any = launcher.redis.lindex("dagster", 0)
    run = disk_instance.get_run_by_id(begun.run_id)
    assert run and run.tags[TASK_TAG] == json.loads(submitted)["headers"]["id"]


def test_a_canceled_run_ends_even_if_its_worker_answers_nothing(
    launcher: WorkerLauncher, begun: dg.DagsterRun, disk_instance: dg.DagsterInstance, signals: SimpleQueue[int]
):
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        wait_for_sign(launcher, begun)
        assert launcher.terminate(begun.run_id)
        assert signals.get() == signal.SIGTERM
    assert signals.empty()
    canceled = disk_instance.get_run_by_id(begun.run_id)
    assert canceled and canceled.status is dg.DagsterRunStatus.CANCELING


def test_a_canceled_run_without_a_sign_of_life_is_revoked_and_ends_if_its_process_was_only_halted(
    launcher: WorkerLauncher, begun: dg.DagsterRun, signals: SimpleQueue[int], monkeypatch: pytest.MonkeyPatch
):
    revoked = list[str]()
    monkeypatch.setattr(launcher.celery.control, "revoke", lambda task_id, **_: revoked.append(task_id))
    assert launcher.terminate(begun.run_id)
    assert revoked == [begun.tags[TASK_TAG]]
    with show_alive(launcher.redis, begun.tags[TASK_TAG]):
        assert signals.get() == signal.SIGTERM


def test_a_run_that_cannot_be_canceled_because_redis_is_away_goes_on_and_the_error_names_redis(
    server: Redis, launcher: WorkerLauncher, begun: dg.DagsterRun, disk_instance: dg.DagsterInstance
):
    server.kill()
    with pytest.raises(StoreError, match="DAGSTER_BROKER_URL"):
        launcher.terminate(begun.run_id)
    run = disk_instance.get_run_by_id(begun.run_id)
    assert run and run.status is dg.DagsterRunStatus.STARTED


def test_a_run_that_has_ended_is_not_said_to_go_on_while_redis_is_away(
    server: Redis, launcher: WorkerLauncher, begun: dg.DagsterRun, disk_instance: dg.DagsterInstance
):
    disk_instance.report_run_canceled(begun)
    server.kill()
    assert not launcher.terminate(begun.run_id)


def test_a_worker_takes_no_run_before_it_can_begin_it():
    from celery.bin.worker import worker

    assert WorkerLauncher("redis://127.0.0.1:9/0").celery.conf.worker_disable_prefetch
    assert "--disable-prefetch" in {name for option in worker.params for name in option.opts}, "Celery knows no such setting"


def test_a_worker_without_the_shared_stores_or_postgresql_does_not_start_and_says_what_to_mend(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemExit, match=r"set MEMORY_STATE_URI and MEMORY_VECTORS_URI and MEMORY_CATALOG_URI\."):
        workers.work()
    monkeypatch.setenv("MEMORY_VECTORS_URI", "s3://memories/tenants")
    with pytest.raises(SystemExit, match=r"set MEMORY_STATE_URI and MEMORY_CATALOG_URI\."):
        workers.work()
    monkeypatch.setenv("MEMORY_STATE_URI", "postgresql://127.0.0.1:9/memory")
    monkeypatch.setenv("MEMORY_CATALOG_URI", "ducklake:postgres:host=127.0.0.1 port=9")
    with pytest.raises(SystemExit, match=r"^memory: PostgreSQL failed .* check MEMORY_STATE_URI"):
        workers.work()


def wait_for_sign(launcher: WorkerLauncher, run: dg.DagsterRun) -> None:
    while not launcher.is_worked_on(run):
        pass
