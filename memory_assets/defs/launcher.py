"""The run launcher starts each run as a process and tells which runs are alive, by a lock that the process holds on a file.

Dagster's run monitoring checks this and resumes a run whose process died as the same run: its steps continue where they stopped, and
its backfill still succeeds. The webserver and the daemon import this module, so it imports little.
"""

import fcntl
import os
import signal
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.launcher import (
    CheckRunHealthResult,
    DefaultRunLauncher,
    LaunchRunContext,
    ResumeRunContext,
    RunLauncher,
    WorkerStatus,
)
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_START_TAG, MAX_RETRIES_TAG, PARTITION_NAME_TAG
from dagster._grpc.types import ExecuteRunArgs, ResumeRunArgs
from dagster._serdes import ConfigurableClassData, serialize_value

from memory_assets.errors import MemoryAssetsError

_ENDED = "The process of this run ended unexpectedly."


class ResumingLauncher(RunLauncher):
    """Launcher that can resume runs whose process has ended, and check whether a process is alive."""

    @property
    def supports_resume_run(self) -> bool:
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def terminate(self, run_id: str) -> bool:
        """Cancel a run. Return False if it has ended."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        self._cancel(run)
        return True

    @abstractmethod
    def _cancel(self, run: dg.DagsterRun) -> None:
        """Make the run's process cancel it, or cancel a run without a process."""


class ProcessLauncher(ResumingLauncher, DefaultRunLauncher):
    """Launcher that `dagster.yaml` names."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._workers: list[subprocess.Popen[bytes]] = []

    def dispose(self) -> None:
        """Kill the runs: none outlives the daemon, which resumes them at its next start."""
        for worker in self._workers:
            worker.kill()

    def launch_run(self, context: LaunchRunContext) -> None:
        if assign_tenant(self._instance, context.dagster_run):
            self._start(context, "execute_run", ExecuteRunArgs)

    def resume_run(self, context: ResumeRunContext) -> None:
        """Resume a run whose process ended. A run of `memory run` fails instead, because its user has seen it end."""
        self._instance.event_log_storage.free_concurrency_slots_for_run(context.dagster_run.run_id)
        if context.job_code_origin:
            self._start(context, "resume_run", ResumeRunArgs)
        else:
            end_dead_runs(self._instance)

    def _start(
        self, context: LaunchRunContext | ResumeRunContext, command: str, kind: type[ExecuteRunArgs | ResumeRunArgs]
    ) -> None:
        run_id, origin = context.dagster_run.run_id, context.job_code_origin
        assert origin
        arguments = serialize_value(kind(job_origin=origin, run_id=run_id, instance_ref=self._instance.get_ref()))
        worker = [sys.executable, "-m", "dagster", "api", command, arguments]
        with _locked(self._instance, run_id) as lock:
            started = subprocess.Popen(worker, stdin=subprocess.DEVNULL, pass_fds=[lock])  # noqa: S603 - this program
            os.pwrite(lock, str(started.pid).encode(), 0)
        self._workers = [each for each in [*self._workers, started] if each.poll() is None]

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        if is_alive(self._instance, run.run_id) is False:
            return CheckRunHealthResult(WorkerStatus.FAILED, _ENDED)
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def _cancel(self, run: dg.DagsterRun) -> None:
        if is_alive(self._instance, run.run_id):
            os.kill(int(lock_of(self._instance, run.run_id).read_bytes()), signal.SIGTERM)
        else:
            self._instance.report_run_canceled(run, _ENDED)


def assign_tenant(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Give a run without a partition the tenant of its configuration, else of the settings, as its partition.

    Dagster itself rejects a step without a partition after partitioned assets. If there is no such tenant, the run fails, and False is
    returned. It adds no partition, which backfills of all tenants would include.
    """
    if not run.tags.keys() & {PARTITION_NAME_TAG, ASSET_PARTITION_RANGE_START_TAG}:
        from memory_assets.defs.partitions import PARTITION_SET
        from memory_assets.settings import load_settings
        from memory_assets.tenants import Tenant

        resources: Any = run.run_config.get("resources", {})
        settings, named = load_settings(), resources.get("memory", {}).get("config", {}).get("tenant")
        tenant = (os.environ.get(named["env"]) if isinstance(named, dict) else named) or settings.tenant
        try:
            Tenant(settings, tenant).must_exist()
        except MemoryAssetsError as error:
            instance.add_run_tags(run.run_id, {MAX_RETRIES_TAG: "0"})
            instance.report_run_failed(run, str(error))
            return False
        instance.add_dynamic_partitions(PARTITION_SET, [tenant])
        instance.add_run_tags(run.run_id, {PARTITION_NAME_TAG: tenant})
    return True


@contextmanager
def shown_alive(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Mark a run as worked on by this process."""
    with _locked(instance, run_id) as lock:
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        try:
            yield
        finally:
            lock_of(instance, run_id).unlink(missing_ok=True)


def is_alive(instance: dg.DagsterInstance, run_id: str) -> bool | None:
    """Return whether a process works on a run, or None if none has started."""
    try:
        probe = os.open(lock_of(instance, run_id), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False


def end_dead_runs(instance: dg.DagsterInstance) -> None:
    """Mark runs of `memory run` whose process has ended as failed.

    Every dead run's pool slots are freed. Runs that the daemon started are left to it to resume.
    """
    for lock in _locks(instance).glob("[!.]*"):
        if is_alive(instance, lock.name):
            continue
        run = instance.get_run_by_id(lock.name)
        instance.event_log_storage.free_concurrency_slots_for_run(lock.name)
        if run and not run.is_finished:
            if run.job_code_origin:
                continue
            instance.report_run_failed(run, _ENDED)
        lock.unlink(missing_ok=True)


def _locks(instance: dg.DagsterInstance) -> Path:
    return Path(instance.root_directory) / "running"


def lock_of(instance: dg.DagsterInstance, run_id: str) -> Path:
    """Return the file on which a run's process holds a lock."""
    return _locks(instance) / run_id


@contextmanager
def _locked(instance: dg.DagsterInstance, run_id: str) -> Iterator[int]:
    """Yield a descriptor of the locked file. The lock ends when the last process closes it."""
    lock = lock_of(instance, run_id)
    lock.parent.mkdir(exist_ok=True, mode=0o700)
    unlocked = lock.with_name(f".{run_id}")
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        unlocked.rename(lock)
        yield descriptor
    finally:
        os.close(descriptor)
