"""Runs the `remember` job in this process, for `memory run`, and tells what each step did.

However it ends, Dagster knows: a run that is interrupted is canceled, so that no sensor and no later run waits for it.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
from sqlalchemy.exc import DBAPIError

from memory_assets.defs.build import build_defs
from memory_assets.defs.instance import is_set_up, open_instance
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.upkeep import end_dead_runs, forget_tenant, sweep_runs
from memory_assets.errors import MemoryAssetsError, NotFoundError, StoreError
from memory_assets.operations.run import FailedCheck, Ran, StepReport
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant, sweep_deleted

_INTERRUPTIONS = ("DagsterExecutionInterruptedError", "KeyboardInterrupt")


OnMessage = Callable[[str, str], None]
"""Told (asset, message) when a step starts, whenever it says how far it is, and when it waits to be tried again."""
OnReport = Callable[[StepReport], None]
"""Told when an asset has been materialised."""


def run_remember(tenant: Tenant, on_message: OnMessage, on_report: OnReport, gone: Sequence[Path] = ()) -> Ran:
    """Materialise everything from the sources to the scores for one tenant.

    Args:
        tenant: whose sources and stores.
        on_message: told what the steps say.
        on_report: told what each step did.
        gone: source folders and files that are gone for good; their memories rest.

    Raises:
        NotFoundError: nothing was ever read from one of `gone`, and nothing was run; or the tenant was deleted during the run.
        MemoryAssetsError: a step failed; what the steps before it wrote stays, and the next run goes on from there.
        KeyboardInterrupt: it was interrupted; the run is canceled in Dagster too.
    """
    if gone:
        from memory_assets.ingest.scans import let_go

        for path in gone:
            let_go(tenant.catalog, path)
    reports: dict[str, dict[str, Any]] = {}

    def keep(step: StepReport) -> None:
        reports[step.asset] = step.metadata
        on_report(step)

    memory = MemoryResource(data_dir=str(tenant.settings.data_dir), tenant=tenant.settings.tenant)
    listening = dg.Definitions.merge(build_defs(memory), dg.Definitions(loggers={"console": _listener(on_message, keep)}))
    run_id = str(uuid4())
    sweep_deleted(tenant.settings)
    with _writable(), open_instance(tenant.settings) as instance:
        end_dead_runs(instance)
        instance.add_dynamic_partitions(PARTITION_SET, [tenant.name])
        with _ended(instance, run_id):
            result = listening.resolve_job_def("remember").execute_in_process(
                run_id=run_id,
                instance=instance,
                partition_key=tenant.name,
                raise_on_error=False,
                run_config={"loggers": {"console": {}}},
            )
            if not tenant.exists:
                forget_tenant(instance, tenant.name)
                raise NotFoundError(
                    f"The tenant {tenant.name!r} was deleted while this run was under way; nothing of it was kept."
                )
            _raise_failure(result)
        sweep_runs(instance)
    failed = tuple(
        FailedCheck(
            name=each.check_name,
            asset=each.asset_key.to_user_string(),
            faults=int(str(each.metadata["faults"].value)),
            mend=each.description or "",
        )
        for each in result.get_asset_check_evaluations()
        if not each.passed
    )
    return Ran(assets=reports, failed_checks=failed)


@contextmanager
def _writable() -> Iterator[None]:
    """Say in a sentence that Dagster's records cannot be written.

    Raises:
        StoreError: they cannot, because the disk is full or read-only.
    """
    try:
        yield
    except (DBAPIError, sqlite3.OperationalError) as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error)
        raise StoreError(f"Dagster's records cannot be written ({reason}); make room, and run the command again.") from error


def forget_everywhere(settings: Settings, tenant: str) -> None:
    """Let Dagster forget a tenant that was deleted, where it has ever run."""
    if is_set_up(settings):
        with open_instance(settings) as instance:
            forget_tenant(instance, tenant)


@contextmanager
def _ended(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Whatever interrupts the run, Dagster records it as canceled."""
    try:
        yield
    except BaseException as error:
        run = instance.get_run_by_id(run_id)
        if run and (isinstance(error, KeyboardInterrupt) or not run.is_finished):
            instance.report_run_canceled(run, "Interrupted.")
        raise


def _raise_failure(result: dg.ExecuteInProcessResult) -> None:
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        if failure.error and failure.error.cls_name in _INTERRUPTIONS:
            raise KeyboardInterrupt
        said = failure.user_failure_data and failure.user_failure_data.description
        raise MemoryAssetsError(f"The step {event.step_key} failed: {said or _cause(failure.error)}")
    if not result.success:
        raise MemoryAssetsError("The run failed outside of its steps; look at it in Dagster's UI, or run it again.")


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
            elif event.is_step_materialization:
                metadata = event.materialization.metadata
                values = {name: value.value for name, value in metadata.items()}
                on_report(StepReport(asset=event.asset_key.to_user_string(), metadata=values))

    def console(_context: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("memory_run")
        logger.addHandler(Handler())
        return logger

    return dg.LoggerDefinition(console, description="Tells the command line what is going on.")
