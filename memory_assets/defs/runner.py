"""Runs a job in this process, for `memory run`, and tells what each step did.

However it ends, Dagster knows: a run that is interrupted is canceled, so that no sensor and no later run waits for it.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import socketpair
from threading import Timer, current_thread, main_thread
from typing import Any
from uuid import uuid4

import dagster as dg

from memory_assets.defs.build import build_defs
from memory_assets.defs.instance import is_set_up, open_instance
from memory_assets.defs.launcher import end_dead_runs, shown_alive
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.upkeep import forget_tenant, sweep_runs
from memory_assets.errors import MemoryAssetsError, NotFoundError
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant

logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # it logs a traceback where a signal interrupts a rollback

_AGAIN_SECONDS = 0.05
_DRAWN = dg.MarkdownMetadataValue | dg.TableMetadataValue | dg.TimestampMetadataValue
"""What only the pages of the UI show."""

OnMessage = Callable[[str, str], None]
"""Told (step, message) when a step starts, whenever it says how far it is, and when it waits to be tried again."""
OnReport = Callable[[str, dict[str, Any]], None]
"""Told (asset, metadata) when an asset has been materialised."""


def run_job(tenant: Tenant, job: str, on_message: OnMessage, on_report: OnReport) -> list[dg.AssetCheckEvaluation]:
    """Run a job for one tenant in this process; return what the checks found.

    Raises:
        NotFoundError: the tenant was deleted during the run.
        MemoryAssetsError: a step failed; what the steps before it wrote stays, and the next run goes on from there.
        KeyboardInterrupt: it was interrupted; the run is canceled in Dagster too.
        StoreError: Dagster's records cannot be read or written.
    """
    with _noticed_signals() as is_interrupted:
        try:
            return _run_job(tenant, job, _listener(on_message, on_report), is_interrupted)
        except BaseException:  # Dagster's interruption is no Exception, and a step that it meets fails in a way of its own
            if is_interrupted():
                raise KeyboardInterrupt from None
            raise


def _run_job(
    tenant: Tenant, job: str, console: dg.LoggerDefinition, is_interrupted: Callable[[], bool]
) -> list[dg.AssetCheckEvaluation]:
    memory = MemoryResource(data_dir=str(tenant.settings.data_dir), tenant=tenant.settings.tenant)
    listening = dg.Definitions.merge(build_defs(memory), dg.Definitions(loggers={"console": console}))
    run_id = str(uuid4())
    with open_instance(tenant.settings) as instance:
        end_dead_runs(instance)
        instance.add_dynamic_partitions(PARTITION_SET, [tenant.name])
        try:
            with shown_alive(instance, run_id):
                result = listening.resolve_job_def(job).execute_in_process(
                    run_id=run_id,
                    instance=instance,
                    partition_key=tenant.name,
                    raise_on_error=False,
                    tags={"user": "memory run"},
                    run_config={"loggers": {"console": {}}},
                )
            if not tenant.exists:
                forget_tenant(instance, tenant.name)
                raise NotFoundError(
                    f"The tenant {tenant.name!r} was deleted while this run was under way; nothing of it was kept."
                )
            _raise_failure(result)
        except BaseException as error:
            run = instance.get_run_by_id(run_id)
            if run and (isinstance(error, KeyboardInterrupt) or is_interrupted() or not run.is_finished):
                instance.report_run_canceled(run, "Interrupted.")
            raise
        sweep_runs(instance)
    return list(result.get_asset_check_evaluations())


@contextmanager
def _noticed_signals() -> Iterator[Callable[[], bool]]:
    """A predicate that says whether SIGINT or SIGTERM arrived, whatever became of it.

    Dagster and SQLAlchemy turn an interruption into failures of many kinds. Python writes the number of each signal to the wakeup
    descriptor before it calls a handler.
    """
    if current_thread() is not main_thread():
        yield lambda: False
        return
    received, sent = socketpair()
    received.setblocking(False)
    sent.setblocking(False)
    seen = bytearray()

    def is_interrupted() -> bool:
        with suppress(BlockingIOError):
            seen.extend(received.recv(64))
        return signal.SIGINT in seen or signal.SIGTERM in seen

    def deliver_again(unraisable: "sys.UnraisableHookArgs") -> None:
        """An interruption that is raised where nobody can catch it, such as in a weak reference's callback, is lost otherwise."""
        if is_interrupted():
            Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, deliver_again
    before = signal.set_wakeup_fd(sent.fileno(), warn_on_full_buffer=False)
    try:
        yield is_interrupted
    finally:
        sys.unraisablehook = hook
        signal.set_wakeup_fd(before)
        received.close()
        sent.close()


def forget_everywhere(settings: Settings, tenant: str) -> None:
    """Let Dagster forget a tenant that was deleted, where it has ever run."""
    if is_set_up(settings):
        with open_instance(settings) as instance:
            forget_tenant(instance, tenant)


def _raise_failure(result: dg.ExecuteInProcessResult) -> None:
    """Raise what a step failed by; a blocking check that failed is told with the other checks."""
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            if failure.error and failure.error.cls_name == "DagsterAssetCheckFailedError":
                return
            said = failure.user_failure_data and failure.user_failure_data.description
            raise MemoryAssetsError(f"The step {event.step_key} failed: {said or _cause(failure.error)}")
    if not result.success:
        raise MemoryAssetsError("The run failed outside of its steps; see Dagster's UI, or run it again.")


def _cause(error: Any) -> str:
    """The sentence of the project's own error in a chain, or else the innermost one."""
    while error.cause and not error.message.startswith("memory_assets."):
        error = error.cause
    return error.message.strip().partition(": ")[2] or error.message.strip()


def _listener(on_message: OnMessage, on_report: OnReport) -> dg.LoggerDefinition:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meta = getattr(record, "dagster_meta", {})
            event = meta.get("dagster_event")
            if event is None:
                if meta.get("step_key"):
                    on_message(meta["step_key"], meta["orig_message"])
            elif event.is_step_start:
                on_message(event.step_key, "started")
            elif event.is_step_up_for_retry:
                pause = event.step_retry_data.seconds_to_wait
                on_message(event.step_key, f"{_cause(event.step_retry_data.error)} Trying again in {pause:.0f} s.")
            elif event.is_step_materialization and event.asset_key.to_user_string() == event.step_key:
                metadata = event.materialization.metadata
                values = {name: value.value for name, value in metadata.items() if not isinstance(value, _DRAWN)}
                on_report(event.asset_key.to_user_string(), values)

    def console(_context: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("memory_run")
        logger.addHandler(Handler())
        return logger

    return dg.LoggerDefinition(console, description="Tells the command line what is going on.")
