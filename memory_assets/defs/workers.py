"""Run workers on several machines: Celery gives each run to a worker process, and to another one if that worker dies.

`work` is such a worker; deploy/cluster/dagster.yaml names the launcher. The packages are those of the extra `cluster`, so they are
imported where they are used.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, ResumeRunContext, WorkerStatus
from dagster._grpc.types import ResumeRunArgs
from dagster._serdes import ConfigurableClass, ConfigurableClassData, pack_value

from memory_assets.defs.launcher import ResumingLauncher, assign_tenant

if TYPE_CHECKING:
    from celery import Celery

_ANSWER_SECONDS = 10.0
"""Time in which a worker must report whether it works on a run."""
_SILENT_CHECKS = 3
"""Consecutive checks without an answer after which a worker counts as dead."""
_WAITING_CHECKS = 60
"""Consecutive checks without a worker after which Redis counts as having lost the task."""
TASK_TAG = "dagster-celery/task_id"


class WorkerLauncher(ResumingLauncher, ConfigurableClass):
    """Launches runs as Celery tasks, and asks a run's worker whether it still works on the run.

    Celery's own state is not enough: a task stays started if its worker was killed, and is done even if its run could not record its end.
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
        }
        self._tasks = CeleryRunLauncher("dagster", broker=broker, backend=broker, config_source=config)
        self._checks: dict[str, int] = {}

    @property
    def celery(self) -> "Celery":
        """Return the Celery application of the workers."""
        return self._tasks.celery

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        """Register the instance here and with Celery's launcher."""
        super().register_instance(instance)
        self._tasks.register_instance(instance)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Submit a run to the workers."""
        if assign_tenant(self._instance, context.dagster_run):
            self._tasks.launch_run(context)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Submit a run whose process ended again; its steps continue where they stopped."""
        from dagster_celery.config import TASK_RESUME_JOB_NAME
        from dagster_celery.tasks import create_resume_job_task

        run, origin = context.dagster_run, context.job_code_origin
        assert origin
        self._instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        arguments = pack_value(ResumeRunArgs(origin, run.run_id, self._instance.get_ref(), set_exit_code_on_failure=True))
        task = create_resume_job_task(self.celery).si(
            resume_job_args_packed=arguments
        )  # dagster-celery gives it another name and fails
        self._tasks._launch_celery_task_run(run, task, TASK_RESUME_JOB_NAME)

    def _cancel(self, run: dg.DagsterRun) -> None:
        if TASK_TAG in run.tags:
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
        task = self.celery.AsyncResult(task_id)
        state, info = task.state, task.info
        if state in ("SUCCESS", "FAILURE", "REVOKED"):
            return CheckRunHealthResult(WorkerStatus.FAILED, f"Its task has ended ({state}) and the run has not.")
        if state != "STARTED":
            return self._count_check(task_id, _WAITING_CHECKS, "No worker has begun it.")
        worker = info["hostname"]
        answers = self.celery.control.inspect([worker], timeout=_ANSWER_SECONDS, limit=1).query_task([task_id])
        if answers is None:
            return self._count_check(task_id, _SILENT_CHECKS, f"Its worker {worker} does not answer.")
        self._checks.pop(task_id, None)
        if answers.get(worker) or task.state != "STARTED":
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"Its worker {worker} was started again.")

    def is_worked_on(self, run: dg.DagsterRun) -> bool:
        """Return whether a worker says that it works on a run, ended or not. A task that Redis lost or a silent worker does not count."""
        task_id = run.tags.get(TASK_TAG)
        task = self.celery.backend.get_task_meta(task_id) if task_id else {}
        if task.get("status") != "STARTED":
            return False
        worker = task["result"]["hostname"]
        answers = self.celery.control.inspect([worker], timeout=_ANSWER_SECONDS, limit=1).query_task([task_id])
        return bool(answers and answers.get(worker))

    def _count_check(self, task_id: str, limit: int, why: str) -> CheckRunHealthResult:
        """Return that the run is running, or that it failed if `limit` consecutive checks found the task like this."""
        self._checks[task_id] = self._checks.get(task_id, 0) + 1
        if self._checks[task_id] < limit:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        del self._checks[task_id]
        return CheckRunHealthResult(WorkerStatus.FAILED, why)

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        """Return the configuration in `dagster.yaml`."""
        return self._inst_data

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        """Return the schema: the broker's URL, or the name of an environment variable."""
        return {"broker": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        """Return the launcher that `dagster.yaml` configures."""
        return cls(inst_data=inst_data, **config_value)


def work() -> None:
    """Work on runs until SIGTERM, and finish those that have begun; the arguments are those of `celery worker`."""
    from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

    import memory_assets.definitions  # noqa: F401 - before Celery forks
    from memory_assets.privacy import keep_private

    keep_private()
    with dg.DagsterInstance.get() as instance:
        launcher = instance.run_launcher
        assert isinstance(launcher, WorkerLauncher), "dagster.yaml names another launcher"
        app = launcher.celery
    create_execute_job_task(app)
    create_resume_job_task(app)
    app.worker_main(["worker", "--queues=dagster", "--without-gossip", "--without-mingle", *sys.argv[1:]])
