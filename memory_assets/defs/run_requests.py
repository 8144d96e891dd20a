"""When a sensor requests a run: the rule that all sensors share.

A step that reads an input first writes the input's stamp as a tag of its run. The stamp is reached when a run with that tag has
succeeded, whoever started it. Until then sensors request a run again, a minute after the first failure and later once an hour. A
sensor's cursor only saves this look-up; a lost cursor costs nothing.
"""

import time

import dagster as dg

from memory_assets.defs.upkeep import PARTITION_TAG, UNDER_WAY

_FIRST_PAUSE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 3600.0
_COUNTED_FAILURES = 10
_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def note_seen(context: dg.AssetExecutionContext, what: str, stamp: str) -> None:
    """Tag the run with the stamp of an input, before the step reads it."""
    context.instance.add_run_tags(context.run.run_id, {_tag(what): stamp})


def next_run(instance: dg.DagsterInstance, tenant: str, what: str, stamp: str) -> dg.RunRequest | dg.SkipReason | None:
    """What a sensor does about the state `stamp` of an input: request a run, wait and say why, or nothing if it is reached."""
    wanted = {PARTITION_TAG: tenant, _tag(what): stamp}
    if instance.get_run_ids(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags=wanted), limit=1):
        return None
    if instance.get_run_ids(dg.RunsFilter(statuses=UNDER_WAY, tags={PARTITION_TAG: tenant}), limit=1):
        return dg.SkipReason(f"A run for {tenant} is under way; what it leaves is looked at next time.")
    failed = instance.get_run_records(dg.RunsFilter(statuses=_FAILED, tags=wanted), limit=_COUNTED_FAILURES)
    if failed:
        pause = min(_FIRST_PAUSE_SECONDS * 4 ** (len(failed) - 1), _LONGEST_PAUSE_SECONDS)
        left = (failed[0].end_time or 0) + pause - time.time()
        if left > 0:
            return dg.SkipReason(f"{len(failed)} run(s) for {tenant} failed; the next is asked for in {left:.0f} s.")
    last = failed[0].dagster_run.run_id if failed else "first"
    return dg.RunRequest(f"{what}:{tenant}:{stamp}:{last}", partition_key=tenant, tags={_tag(what): stamp})


def _tag(what: str) -> str:
    """Dagster's UI hides tags of this prefix: the digest says nothing to a person."""
    return f".dagster/memory.{what}"
