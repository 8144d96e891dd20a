"""The rules by which sensors decide when to request a run, and when to repeat one of a schedule that failed.

Before a step reads an input, it records the input's stamp for the run in the instance's key-value storage. A stamp is reached if the
newest successful run that recorded the input recorded this stamp, whoever started it. Until then sensors request runs: again a minute
after the first failure, and later once an hour, as failed runs of schedules are. Dagster's own retries of a run count as one failure
with it. After a person canceled the newest run, a sensor waits for the next change, even after the run's record is deleted. A sensor's
cursor only caches this result, so that a lost cursor has no effect.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_RESUME_RETRY_TAG,
    REPOSITORY_LABEL_TAG,
    RESUME_RETRY_TAG,
    RETRY_NUMBER_TAG,
    SCHEDULE_NAME_TAG,
)

from memory_assets.defs.upkeep import KEPT_RUNS, MEMORY_RUN, PARTITION_TAG, read_values, seen_by, write_value

_FIRST_PAUSE_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 3600.0
_MAX_RUNS_CHECKED = 50
_CONTINUING_TAGS = {RESUME_RETRY_TAG, ASSET_RESUME_RETRY_TAG}
_RUN_KEY_TAG = "dagster/run_key"
_NOT_FAILED = [status for status in dg.DagsterRunStatus if status is not dg.DagsterRunStatus.FAILURE]
CHANGED_TAG = "changed"
"""Tag with the inputs for which a sensor requested the run."""
REPEATS_TAG = "repeats"
"""Tag with the schedule whose failed run is repeated."""


def record_seen(context: dg.AssetExecutionContext, what: str, stamp: str) -> None:
    """Record that the run has seen this state of an input, before the step reads it. Ignored for a run without a partition."""
    if not context.has_partition_key:
        return
    tenant, name = context.partition_key, seen_by(context.run)
    (seen,) = read_values(context.instance, tenant, [name])
    write_value(context.instance, tenant, name, json.dumps(json.loads(seen or "{}") | {what: _short(stamp)}))


def next_run(instance: dg.DagsterInstance, tenant: str, stamps: Mapping[str, str]) -> dg.RunRequest | dg.SkipReason | None:
    """Return the request for a run, the reason to wait, or None if the inputs' states (`stamps`) are reached.

    A request names the inputs whose state is not reached.
    """
    records = instance.get_run_records(dg.RunsFilter(tags={PARTITION_TAG: tenant}), limit=_MAX_RUNS_CHECKED)
    runs = [record.dagster_run for record in records]
    seen = _read_seen(instance, tenant, runs)
    newest = {what: place for place in reversed(range(len(runs))) if runs[place].is_success for what in seen[place]}
    reached = {(what, seen[place][what]) for what, place in newest.items()}
    left = {what: _short(stamp) for what, stamp in stamps.items()}.items() - reached
    since = min((newest[what] for what, _ in left if what in newest), default=len(runs))
    changed = ", ".join(sorted(what for what, _ in left))
    wanted = f"{changed} of {tenant}, {_short(' '.join(sorted(map(' '.join, left))))}"
    asked = [
        record
        for record, pairs in zip(records[:since], seen, strict=False)
        if left <= pairs.items() or record.dagster_run.tags.get(_RUN_KEY_TAG, "").startswith(wanted)
    ]
    if not left or any(record.dagster_run.is_success for record in asked):
        return None
    if not all(run.is_finished for run in runs):
        return dg.SkipReason(f"A run for {tenant} is in progress; the next tick checks again.")
    name = f"canceled:{changed}"
    (noted,) = read_values(instance, tenant, [name])
    is_canceled = _is_canceled(asked[0].dagster_run) if asked else since == len(runs) and noted == wanted
    canceled = wanted if is_canceled else ""
    if canceled != (noted or ""):
        write_value(instance, tenant, name, canceled)
    if is_canceled:
        return dg.SkipReason(f"The newest run for {tenant} was canceled; the next change starts another.")
    if asked and (wait := _seconds_to_wait(asked)):
        return dg.SkipReason(f"{len(asked)} run(s) for {tenant} failed; the next is requested in {wait:.0f} s.")
    before = f"after {runs[since].run_id[:8]}" if since < len(runs) else "first"
    last = f"after {asked[0].dagster_run.run_id[:8]} failed" if asked else before
    return dg.RunRequest(f"{wanted}, {last}", partition_key=tenant, tags={CHANGED_TAG: changed})


def _is_canceled(run: dg.DagsterRun) -> bool:
    """Return whether a person canceled a run in Dagster. An interrupted `memory run` is only another failure."""
    return run.status is dg.DagsterRunStatus.CANCELED and not MEMORY_RUN.items() <= run.tags.items()


def _seconds_to_wait(failed: Sequence[dg.RunRecord]) -> float:
    """Return the time until the next request after these failures, the newest first; 0 if it is due."""
    requested = sum(RETRY_NUMBER_TAG not in each.dagster_run.tags for each in failed)
    pause = min(_FIRST_PAUSE_SECONDS * 4 ** max(requested - 1, 0), _MAX_PAUSE_SECONDS)
    wait = (failed[0].end_time or 0) + pause - time.time()
    return wait if 0 < wait <= pause else 0.0  # a longer one is counted from the future, by a clock that was ahead


def repeat_failed(instance: dg.DagsterInstance, label: str, schedules: Sequence[str]) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yield a request, or the reason to wait, for each job and tenant whose newest run of a schedule, or its repeat, failed.

    None is requested once a later run of the job has begun, succeeded or been canceled for the tenant.
    """
    own = {REPOSITORY_LABEL_TAG: label}
    found: list[tuple[int, str, dg.DagsterRun]] = []
    for tag in (SCHEDULE_NAME_TAG, REPEATS_TAG):
        failures = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={**own, tag: schedules})
        records = instance.get_run_records(failures, limit=KEPT_RUNS)
        found += [(each.storage_id, each.dagster_run.tags[tag], each.dagster_run) for each in records]
    found.sort(key=itemgetter(0))
    newest = {(run.job_name, run.tags[PARTITION_TAG]): (place, schedule, run) for place, schedule, run in found}
    for (job, tenant), (place, schedule, run) in newest.items():
        of_job = {**own, PARTITION_TAG: tenant}
        others = instance.get_run_records(dg.RunsFilter(job_name=job, tags=of_job, statuses=_NOT_FAILED), limit=1)
        since = others[0].storage_id if others else 0
        if since > place:
            continue
        failures = dg.RunsFilter(job_name=job, tags=of_job, statuses=[dg.DagsterRunStatus.FAILURE])
        failed = [each for each in instance.get_run_records(failures, limit=_MAX_RUNS_CHECKED) if each.storage_id > since]
        if wait := _seconds_to_wait(failed):
            yield dg.SkipReason(f"{len(failed)} run(s) of {job} for {tenant} failed; the next is requested in {wait:.0f} s.")
            continue
        key = f"{job}:{tenant}, after {failed[0].dagster_run.run_id[:8]} failed"
        yield dg.RunRequest(key, job_name=job, run_config=run.run_config, partition_key=tenant, tags={REPEATS_TAG: schedule})


def _read_seen(instance: dg.DagsterInstance, tenant: str, runs: Sequence[dg.DagsterRun]) -> list[dict[str, str]]:
    """Return the stamps that each run recorded, the newest run first. A run that continues a failed one has its stamps too."""
    values = read_values(instance, tenant, map(seen_by, runs))
    seen: dict[str | None, dict[str, str]] = {}
    for run, value in zip(reversed(runs), reversed(values), strict=True):
        before = seen.get(run.parent_run_id, {}) if run.tags.keys() & _CONTINUING_TAGS else {}
        seen[run.run_id] = before | json.loads(value or "{}")
    return [seen[run.run_id] for run in runs]


def _short(stamp: str) -> str:
    """Return ten digits, which miss one change in 10^12."""
    return blake2b(stamp.encode(), digest_size=5).hexdigest()
