"""Run workers on several machines: Celery gives each run to a worker process, and to another one if that worker dies.

`work` is such a worker; deploy/cluster/dagster.yaml names the launcher. The packages are those of the extra `cluster`, so they are
imported where they are used.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, ResumeRunContext, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs, ResumeRunArgs
from dagster._serdes import ConfigurableClass, ConfigurableClassData, pack_value

from memory_assets.defs.launcher import ResumingLauncher, assign_tenant
from memory_assets.errors import MemoryAssetsError, SettingsError, StoreError

if TYPE_CHECKING:
    from celery import Celery
    from redis import Redis

_RENEWAL_SECONDS = 5.0
_LIFE_SECONDS = 30
"""Time after which Redis deletes a sign of life that its process does not renew."""
_SILENT_CHECKS = 6
"""Consecutive checks without a sign of life after which a process counts as dead: it needs a few to reach a Redis that was away."""
_WAITING_CHECKS = 60
"""Consecutive checks without a worker after which Redis counts as having lost the task."""
TASK_TAG = "dagster-celery/task_id"
_SIGNAL_SECONDS = 86_400
"""Time for which Redis keeps a signal for a process that may be halted."""


class WorkerLauncher(ResumingLauncher, ConfigurableClass):
    """Launches runs as Celery tasks, and reads in Redis whether a process still works on a run.

    Celery's own state is not enough: a task stays started if its worker was killed, and is done even if its run could not record its end.
    A worker that finishes its runs before it ends answers no questions.
    """

    def __init__(self, broker: str, inst_data: ConfigurableClassData | None = None) -> None:
        """Prepare the launcher; `broker` is the URL of Redis, which also stores the task states."""
        from dagster_celery.launcher import CeleryRunLauncher

        super().__init__()
        self._inst_data = inst_data
        config = {
            "result_extended": True,
            "result_expires": 7 * 86_400,
            "broker_connection_retry_on_startup": True,
            "redis_retry_on_timeout": True,
            "redis_socket_keepalive": True,
            "redis_socket_timeout": 5,
            "redis_socket_connect_timeout": 5,
            "worker_disable_prefetch": True,  # a run must not wait for a busy worker while another is idle
        }
        self._tasks = CeleryRunLauncher("dagster", broker=broker, backend=broker, config_source=config)
        self._checks: dict[str, Counter[str]] = {}

    @property
    def celery(self) -> "Celery":
        return self._tasks.celery

    @property
    def redis(self) -> "Redis":
        return self.celery.backend.client

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        super().register_instance(instance)
        self._tasks.register_instance(instance)

    def launch_run(self, context: LaunchRunContext) -> None:
        from dagster_celery.tasks import create_execute_job_task

        if assign_tenant(self._instance, context.dagster_run):
            self._submit(context, create_execute_job_task(self.celery), ExecuteRunArgs)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Submit a run whose process ended again; its steps continue where they stopped."""
        from dagster_celery.tasks import create_resume_job_task

        run = context.dagster_run
        self._instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        if TASK_TAG in run.tags:  # its process may only have been halted
            self._send(run, signal.SIGKILL)
        self._submit(context, create_resume_job_task(self.celery), ResumeRunArgs)

    def _submit(
        self, context: LaunchRunContext | ResumeRunContext, task: Any, kind: type[ExecuteRunArgs | ResumeRunArgs]
    ) -> None:
        """Submit a task after its id is stored: no signal reaches the process of a task whose id is unknown."""
        run, origin, task_id = context.dagster_run, context.job_code_origin, str(uuid4())
        assert origin
        arguments = pack_value(kind(origin, run.run_id, self._instance.get_ref(), set_exit_code_on_failure=True))
        self._instance.add_run_tags(run.run_id, {TASK_TAG: task_id})
        self._tasks._launch_celery_task_run(run, task.si(arguments).set(task_id=task_id), task.name)

    def terminate(self, run_id: str) -> bool:
        """Cancel a run. Return False if it has ended.

        StoreError: Redis does not answer, so the run goes on and is not marked as canceling.
        """
        from redis import RedisError

        run = self._instance.get_run_by_id(run_id)
        if run and not run.is_finished and TASK_TAG in run.tags:
            try:
                self.redis.ping()
            except RedisError as error:
                raise StoreError(
                    "Redis does not answer, so the run goes on; check Redis and DAGSTER_BROKER_URL, then cancel again."
                ) from error
        return super().terminate(run_id)

    def _cancel(self, run: dg.DagsterRun) -> None:
        if TASK_TAG in run.tags:
            self._send(run, signal.SIGTERM)  # to a process that is halted, too
            if not self.is_worked_on(run):
                self._tasks.terminate(run.run_id)
        if run.job_code_origin is None or self.check_run_worker_health(run).status != WorkerStatus.RUNNING:
            self._instance.report_run_canceled(run)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether a worker works on a started run. One of `memory run` counts as running: only its own host knows whether it is.

        There the next `memory run` ends it if its process died; elsewhere `max_runtime_seconds` does.
        """
        if run.job_code_origin is None and not run.is_finished:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        task_id = run.tags.get(TASK_TAG)
        if task_id is None:
            return CheckRunHealthResult(WorkerStatus.FAILED, "The run was never handed to a worker.")
        checks = self._checks.pop(task_id, Counter())  # they count anew if Redis does not answer now
        task = self.celery.AsyncResult(task_id)
        state = task.state
        if state in ("SUCCESS", "FAILURE", "REVOKED"):
            return CheckRunHealthResult(WorkerStatus.FAILED, f"Its task has ended ({state}) and the run has not.")
        if self.is_worked_on(run):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        is_begun = state == "STARTED"
        checks[state] += 1
        if checks[state] >= (_SILENT_CHECKS if is_begun else _WAITING_CHECKS):
            why = f"Its process on {task.worker} shows no sign of life." if is_begun else "No worker has begun it."
            return CheckRunHealthResult(WorkerStatus.FAILED, why)
        self._checks[task_id] = checks
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def is_worked_on(self, run: dg.DagsterRun) -> bool:
        """Return whether a process of a worker works on a run, or did so within the last `_LIFE_SECONDS`."""
        return TASK_TAG in run.tags and bool(self.redis.exists(_life_key(run.tags[TASK_TAG])))

    def _send(self, run: dg.DagsterRun, number: signal.Signals) -> None:
        """Leave a signal for the process of a run, which may be one of a worker that answers no more."""
        self.redis.set(_signal_key(run.tags[TASK_TAG]), int(number), ex=_SIGNAL_SECONDS)

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        return {"broker": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)


def _life_key(task_id: str) -> str:
    return f"memory_assets:alive:{task_id}"


def _signal_key(task_id: str) -> str:
    return f"memory_assets:signal:{task_id}"


@contextmanager
def show_alive(redis: "Redis", task_id: str) -> Iterator[None]:
    """Renew a task's sign of life in Redis during the block, and send this process the signal that the launcher left there for it.

    The worker need not answer: it does not while it ends. Redis deletes the sign `_LIFE_SECONDS` after the block or the process.
    """
    from redis import RedisError

    ended, lock = Event(), Lock()

    def renew() -> None:
        handled = None
        while not ended.is_set():
            with suppress(RedisError, OSError):
                redis.set(_life_key(task_id), "", ex=_LIFE_SECONDS)
                left: Any = redis.get(_signal_key(task_id))
                with lock:  # after the block, this process may work on another task
                    if left and left != handled and not ended.is_set():
                        handled = left
                        os.kill(os.getpid(), int(left))
            ended.wait(_RENEWAL_SECONDS)

    Thread(target=renew, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            ended.set()


def work() -> None:
    """Work on runs until SIGTERM, and finish those that have begun; the arguments are those of `celery worker`."""
    import memory_assets.definitions  # noqa: F401 - before Celery forks
    from memory_assets.defs.instance import explaining_failures
    from memory_assets.privacy import keep_private
    from memory_assets.settings import load_settings
    from memory_assets.tenants import open_states, tenant_names

    keep_private()
    try:
        settings = load_settings()
        named = {
            "MEMORY_STATE_URI": settings.state_uri,
            "MEMORY_VECTORS_URI": settings.vectors_uri,
            "MEMORY_CATALOG_URI": settings.catalog_uri,
        }
        if missing := [name for name, uri in named.items() if not uri]:
            raise SettingsError(f"A worker needs the stores that all hosts share; set {' and '.join(missing)}.")
        tenant_names(settings)
        open_states(settings).close()
        with explaining_failures(Path(os.environ.get("DAGSTER_HOME", ""))), dg.DagsterInstance.get() as instance:
            launcher = instance.run_launcher
    except MemoryAssetsError as error:
        sys.exit(f"memory: {error}")
    assert isinstance(launcher, WorkerLauncher), "dagster.yaml names another launcher"
    app = launcher.celery

    from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

    class ShownAlive(app.Task):
        def __call__(self, *given: Any, **named: Any) -> Any:
            with show_alive(launcher.redis, self.request.id):
                return self.run(*given, **named)

    options: Any = {"base": ShownAlive}
    create_execute_job_task(app, **options)
    create_resume_job_task(app, **options)
    app.worker_main(["worker", "--queues=dagster", "--without-gossip", "--without-mingle", *sys.argv[1:]])
