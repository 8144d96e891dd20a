"""Retention of Dagster's records: deletion of old runs and of deleted tenants' records.

Run records hold counts, ids and kinds, and no text of a memory.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, AssetKeyTable
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.runs.schema import BulkActionsTable, KeyValueStoreTable
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG
from sqlalchemy import ColumnElement

from memory_assets.defs.launcher import is_alive, lock_of
from memory_assets.defs.partitions import FORMER_SET, PARTITION_SET
from memory_assets.defs.workers import WorkerLauncher

KEPT_RUNS = 200
"""Finished runs whose records are kept, of the daemon and of `memory run` each: 55 MB if all are of `remember`."""
LABEL = "__repository__@memory_assets"
"""Label of this code location, unless a workspace gives the location another name. Dagster tags the runs that it launches with it."""
MEMORY_RUN = {"user": "memory run"}
PARTITION_TAG = "dagster/partition"
_TICK_SLACK = timedelta(minutes=5)
"""Most that a tick may lie ahead of the clock: sensors and schedules wait that long without harm."""
_ENDED_TICKS = [TickStatus.SKIPPED, TickStatus.SUCCESS, TickStatus.FAILURE]
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def sweep_runs(instance: dg.DagsterInstance, label: str = LABEL, keep: int = KEPT_RUNS) -> int:
    """Delete the records of finished runs of this code location, and of `memory run`, except the newest `keep`; return how many."""
    swept = 0
    for tags in _own_tags(label):
        newest = instance.get_run_ids(dg.RunsFilter(statuses=FINISHED, tags=tags), limit=keep)
        if len(newest) < keep:
            continue
        while old := instance.get_run_ids(dg.RunsFilter(statuses=FINISHED, tags=tags), cursor=newest[-1], limit=100):
            for run_id in old:
                delete_run(instance, run_id)
            swept += len(old)
    return swept


def _own_tags(label: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the tags of which a run of this project has one: an instance may also have runs of other code locations."""
    return {REPOSITORY_LABEL_TAG: label}, MEMORY_RUN


def read_values(instance: dg.DagsterInstance, tenant: str, names: Iterable[str]) -> list[str | None]:
    """Return the values stored for a tenant under `names`; they outlive the records of runs."""
    keys = [_key(tenant, name) for name in names]
    found = instance.run_storage.get_cursor_values(set(keys))
    return [found.get(key) for key in keys]


def write_value(instance: dg.DagsterInstance, tenant: str, name: str, value: str) -> None:
    """Store a value until the tenant is deleted."""
    instance.run_storage.set_cursor_values({_key(tenant, name): value})


def seen_by(run: dg.DagsterRun) -> str:
    """Return the name under which a run records the inputs it read; it is deleted with the run."""
    return f"seen:{run.run_id}"


def _key(tenant: str, name: str) -> str:
    return f"memory_assets:{tenant}:{name}"


def _forget_values(instance: dg.DagsterInstance, are: Callable[[ColumnElement[str]], ColumnElement[bool]]) -> None:
    runs = instance.run_storage
    if isinstance(runs, SqlRunStorage):
        with runs.connect() as connection:
            connection.execute(KeyValueStoreTable.delete().where(are(KeyValueStoreTable.c.key)))


def forget_tenant(instance: dg.DagsterInstance, tenant: str, label: str = LABEL, *, is_foreign: bool = False) -> None:
    """Delete a tenant's partition, runs with their events and keys, and ended backfills. Sensors drop it from their cursors themselves.

    A run in progress is canceled and still records its end; the next call deletes it and the partition. The newest tick of a sensor or
    schedule may name the tenant until the next tick, because the daemon resumes from it. In a foreign instance, whose assets,
    backfills and ticks are other projects' too, those keep the name.
    """
    own = [{PARTITION_TAG: tenant, **tags} for tags in _own_tags(label)]
    for run in {run.run_id: run for tags in own for run in instance.get_runs(dg.RunsFilter(tags=tags))}.values():
        if not run.is_finished:
            instance.report_run_canceled(run, f"The tenant {tenant} was deleted.")
        launcher = instance.run_launcher
        has_worker = isinstance(launcher, WorkerLauncher) and (not run.is_finished or launcher.is_worked_on(run))
        if not (has_worker or is_alive(instance, run.run_id)):
            delete_run(instance, run.run_id)
    if any(instance.get_runs_count(dg.RunsFilter(tags=tags)) for tags in own):
        return
    _forget_values(instance, lambda key: key.startswith(_key(tenant, ""), autoescape=True))
    if not is_foreign:
        _forget_name(instance, tenant)
    instance.delete_dynamic_partition(PARTITION_SET, tenant)  # last, as housekeeping finds deleted tenants by it


def _forget_name(instance: dg.DagsterInstance, tenant: str) -> None:
    """Delete what else names a tenant, in an instance that has no other projects."""
    instance.delete_dynamic_partition(FORMER_SET, tenant)
    instance.wipe_asset_cached_status(list(instance.all_asset_keys()))
    runs = instance.run_storage
    if isinstance(runs, SqlRunStorage):
        ended, body = [status.value for status in BULK_ACTION_TERMINAL_STATUSES], BulkActionsTable.c.body
        names_it = body.contains(f'"{tenant}"', autoescape=True) | body.contains(f'\\"{tenant}\\"', autoescape=True)
        with runs.connect() as connection:
            connection.execute(BulkActionsTable.delete().where(BulkActionsTable.c.status.in_(ended) & names_it))
    events = instance.event_log_storage
    if isinstance(events, SqlEventLogStorage):
        last = AssetKeyTable.c.last_materialization
        of_tenant = last.contains(f'"partition": "{tenant}"', autoescape=True)
        with events.index_connection() as connection:
            connection.execute(AssetKeyTable.update().where(of_tenant).values(last_materialization=None))
    for state in instance.all_instigator_state() if instance.schedule_storage else ():
        origin, selector = state.instigator_origin_id, state.selector_id
        for newest in instance.get_ticks(origin, selector, limit=1):
            instance.purge_ticks(origin, selector, newest.timestamp, _ENDED_TICKS)


def wipe_future_ticks(instance: dg.DagsterInstance) -> datetime | None:
    """Delete all ticks and cursors if one tick lies in the future, because no sensor or schedule starts before its last tick.

    Returns the time of that tick, which a clock that was ahead has left. Only call this while no daemon runs.
    """
    states = instance.all_instigator_state() if instance.schedule_storage else ()
    ticks = (tick for state in states for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1))
    newest = max((datetime.fromtimestamp(tick.timestamp, UTC) for tick in ticks), default=None)
    if newest is None or newest <= datetime.now(UTC) + _TICK_SLACK:
        return None
    instance.wipe_all_schedules()
    return newest


def delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete a run with its files and check results, which Dagster's own deletion leaves behind."""
    instance.delete_run(run_id)
    lock_of(instance, run_id).unlink(missing_ok=True)
    _forget_values(instance, lambda key: key.endswith(f":seen:{run_id}"))
    events = instance.event_log_storage
    if isinstance(events, SqlEventLogStorage):
        with events.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.delete().where(AssetCheckExecutionsTable.c.run_id == run_id))
    home = Path(instance.root_directory)
    shutil.rmtree(home / "storage" / run_id, ignore_errors=True)
    for file in (home / "history" / "runs").glob(f"{run_id}.db*"):
        file.unlink(missing_ok=True)
