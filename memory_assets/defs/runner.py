"""Runner of jobs in this process, for `memory run`, with messages about each step.

An interrupted run is canceled in Dagster, so that no sensor and no later run waits for it.
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
from memory_assets.defs.upkeep import MEMORY_RUN, forget_tenant, sweep_runs
from memory_assets.errors import MemoryAssetsError, NotFoundError
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant

logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # it logs a traceback if a signal interrupts a rollback

_REDELIVERY_SECONDS = 0.05
_UI_ONLY = dg.MarkdownMetadataValue | dg.TableMetadataValue | dg.TimestampMetadataValue
"""Metadata that only the pages of the UI show."""

OnMessage = Callable[[str, str], None]
"""Called with (step, message) when a step starts, reports progress, or waits for a retry."""
OnReport = Callable[[str, dict[str, Any]], None]
"""Called with (asset, metadata) when an asset has been materialised."""


def run_job(tenant: Tenant, job: str, on_message: OnMessage, on_report: OnReport) -> list[dg.AssetCheckEvaluation]:
    """Run a job for one tenant in this process; return the results of the checks.

    MemoryAssetsError: a step failed; the next run continues from there. NotFoundError: the tenant was deleted, and perhaps created
    again, during the run. KeyboardInterrupt: the run was interrupted, and is canceled in Dagster, too.
    """
    with _watch_signals() as is_interrupted:
        try:
            return _run_job(tenant, job, _listener(on_message, on_report), is_interrupted)
        except BaseException:  # Dagster's interruption is not an Exception, and may make a step fail in other ways
            if is_interrupted():
                raise KeyboardInterrupt from None
            raise


def _run_job(
    tenant: Tenant, job: str, console: dg.LoggerDefinition, is_interrupted: Callable[[], bool]
) -> list[dg.AssetCheckEvaluation]:
    memory = MemoryResource(data_dir=str(tenant.settings.data_dir), tenant=tenant.settings.tenant)
    listening = dg.Definitions.merge(build_defs(memory), dg.Definitions(loggers={"console": console}))
    run_id = str(uuid4())
    tenant.state.look()
    with open_instance(tenant.settings) as instance:
        end_dead_runs(instance)
        sweep_runs(instance)  # not after the run, since one that fails would leave a record more each time
        instance.add_dynamic_partitions(PARTITION_SET, [tenant.name])
        try:
            with shown_alive(instance, run_id):
                result = listening.resolve_job_def(job).execute_in_process(
                    run_id=run_id,
                    instance=instance,
                    partition_key=tenant.name,
                    raise_on_error=False,
                    tags=MEMORY_RUN,
                    run_config={"loggers": {"console": {}}},
                )
            if not (tenant.exists and tenant.state.is_current):
                forget_tenant(instance, tenant.name)
                raise NotFoundError(f"The tenant {tenant.name!r} was deleted during this run; nothing of it was kept.")
            _raise_failure(result)
        except BaseException as error:
            run = instance.get_run_by_id(run_id)
            if run and (isinstance(error, KeyboardInterrupt) or is_interrupted() or not run.is_finished):
                instance.report_run_canceled(run, "Interrupted.")
            raise
    return list(result.get_asset_check_evaluations())


@contextmanager
def _watch_signals() -> Iterator[Callable[[], bool]]:
    """Yield a predicate that tells whether SIGINT or SIGTERM arrived, even if the exception got lost.

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
        """Repeat an interruption raised where nobody can catch it, such as in a weak reference's callback."""
        if is_interrupted():
            Timer(_REDELIVERY_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
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
    """Delete a tenant from Dagster's records, if there are any."""
    if is_set_up(settings):
        with open_instance(settings) as instance:
            forget_tenant(instance, tenant)


def _raise_failure(result: dg.ExecuteInProcessResult) -> None:
    """Raise the error of a failed step. A failed blocking check is reported with the other checks instead."""
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            kind = failure.error and failure.error.cls_name
            if kind == "DagsterAssetCheckFailedError":
                return
            if kind == "DagsterExecutionInterruptedError":
                raise KeyboardInterrupt
            described = failure.user_failure_data and failure.user_failure_data.description
            raise MemoryAssetsError(f"The step {event.step_key} failed: {described or _cause(failure.error)}")
    if not result.success:
        raise MemoryAssetsError("The run failed outside of its steps; see Dagster's UI, or run it again.")


def _cause(error: Any) -> str:
    """Return the message of the project's own error in a chain, else of the innermost error."""
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
                values = {name: value.value for name, value in metadata.items() if not isinstance(value, _UI_ONLY)}
                on_report(event.asset_key.to_user_string(), values)

    def console(_context: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("memory_run")
        logger.addHandler(Handler())
        return logger

    return dg.LoggerDefinition(console, description="Reports progress on the command line.")
