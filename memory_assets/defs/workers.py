"""Run workers on several machines: Celery hands each run to a process of one of them, and a run whose worker died goes on in another.

`work` is such a worker; deploy/cluster/dagster.yaml names the launcher. The packages are those of the
extra `cluster`, so they are imported where they are used.
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
"""How long a worker has to say whether it works on a run."""
_SILENT_LOOKS = 3
"""A worker that says nothing at so many looks in a row is dead."""
_WAITING_LOOKS = 60
"""Redis has lost a task that no worker has begun at so many looks in a row."""
TASK_TAG = "dagster-celery/task_id"


class WorkerLauncher(ResumingLauncher, ConfigurableClass):
    """Launches runs as Celery's tasks, and asks the worker of a run whether it still works on it.

    Celery itself keeps calling a task started whose worker was killed, and one done whose run could not note its end.
    """

    def __init__(self, broker: str, inst_data: ConfigurableClassData | None = None) -> None:
        """`broker` is the URL of Redis, which also keeps the states of the tasks."""
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
        self._looks: dict[str, int] = {}

    @property
    def celery(self) -> "Celery":
        """What a worker runs."""
        return self._tasks.celery

    def register_instance(self, instance: dg.DagsterInstance) -> None:
        """Remember the instance, there and here."""
        super().register_instance(instance)
        self._tasks.register_instance(instance)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Hand a run to the workers."""
        assign_tenant(self._instance, context.dagster_run)
        self._tasks.launch_run(context)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Hand a run whose process ended to the workers again; its steps go on where they stopped."""
        from dagster_celery.config import TASK_RESUME_JOB_NAME
        from dagster_celery.tasks import create_resume_job_task

        run, origin = context.dagster_run, context.job_code_origin
        assert origin
        self._instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        given = pack_value(ResumeRunArgs(origin, run.run_id, self._instance.get_ref(), set_exit_code_on_failure=True))
        task = create_resume_job_task(self.celery).si(
            resume_job_args_packed=given
        )  # dagster-celery gives it another name and fails
        self._tasks._launch_celery_task_run(run, task, TASK_RESUME_JOB_NAME)

    def _cancel(self, run: dg.DagsterRun) -> None:
        if TASK_TAG in run.tags:
            self._tasks.terminate(run.run_id)
        if self.check_run_worker_health(run).status != WorkerStatus.RUNNING:
            self._instance.report_run_canceled(run)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether a worker has the run that has begun."""
        task_id = run.tags.get(TASK_TAG)
        if task_id is None:
            return CheckRunHealthResult(WorkerStatus.FAILED, "The run was never handed to a worker.")
        task = self.celery.AsyncResult(task_id)
        state, info = task.state, task.info
        if state in ("SUCCESS", "FAILURE", "REVOKED"):
            return CheckRunHealthResult(WorkerStatus.FAILED, f"Its task has ended ({state}) and the run has not.")
        if state != "STARTED":
            return self._give_time(task_id, _WAITING_LOOKS, "No worker has begun it.")
        worker = info["hostname"]
        said = self.celery.control.inspect([worker], timeout=_ANSWER_SECONDS, limit=1).query_task([task_id])
        if said is None:
            return self._give_time(task_id, _SILENT_LOOKS, f"Its worker {worker} says nothing.")
        self._looks.pop(task_id, None)
        if said.get(worker) or task.state != "STARTED":
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"Its worker {worker} was started again.")

    def _give_time(self, task_id: str, looks: int, why: str) -> CheckRunHealthResult:
        """A task that was found so at so many looks in a row is lost."""
        self._looks[task_id] = self._looks.get(task_id, 0) + 1
        if self._looks[task_id] < looks:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        del self._looks[task_id]
        return CheckRunHealthResult(WorkerStatus.FAILED, why)

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        """What `dagster.yaml` says."""
        return self._inst_data

    @classmethod
    def config_type(cls) -> Mapping[str, Any]:
        """The broker's URL, which may be the name of an environment variable."""
        return {"broker": dg.StringSource}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        """The launcher of `dagster.yaml`."""
        return cls(inst_data=inst_data, **config_value)


def work() -> None:
    """Work on runs until SIGTERM, which lets those that have begun end; the arguments are those of `celery worker`."""
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
