"""When a sensor requests a run: the rule that all sensors share.

A step that reads an input first writes the input's stamp as a tag of its run. The stamp is reached when a run with that tag has
succeeded, whoever started it. Until then sensors request a run again, a minute after the first failure and later once an hour. A
sensor's cursor only saves this look-up; a lost cursor costs nothing.
"""

import time
from collections.abc import Mapping
from hashlib import blake2b

import dagster as dg

from memory_assets.defs.upkeep import PARTITION_TAG, UNDER_WAY

_FIRST_PAUSE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 3600.0
_COUNTED_FAILURES = 10
_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def note_seen(context: dg.AssetExecutionContext, what: str, stamp: str) -> None:
    """Tag the run with the stamp of an input, before the step reads it."""
    context.instance.add_run_tags(context.run.run_id, {_tag(what): _short(stamp)})


def next_run(instance: dg.DagsterInstance, tenant: str, stamps: Mapping[str, str]) -> dg.RunRequest | dg.SkipReason | None:
    """What a sensor does about the states of inputs: request a run, wait and say why, or nothing if they are reached.

    `stamps` are the states by input. A request is for those that are not reached.
    """
    left = {_tag(what): _short(stamp) for what, stamp in stamps.items() if not _is_reached(instance, tenant, what, stamp)}
    if not left:
        return None
    if instance.get_run_ids(dg.RunsFilter(statuses=UNDER_WAY, tags={PARTITION_TAG: tenant}), limit=1):
        return dg.SkipReason(f"A run for {tenant} is under way; what it leaves is looked at next time.")
    wanted = {PARTITION_TAG: tenant, **left}
    failed = instance.get_run_records(dg.RunsFilter(statuses=_FAILED, tags=wanted), limit=_COUNTED_FAILURES)
    if failed:
        pause = min(_FIRST_PAUSE_SECONDS * 4 ** (len(failed) - 1), _LONGEST_PAUSE_SECONDS)
        wait = (failed[0].end_time or 0) + pause - time.time()
        if wait > 0:
            return dg.SkipReason(f"{len(failed)} run(s) for {tenant} failed; the next is asked for in {wait:.0f} s.")
    last = f"after {failed[0].dagster_run.run_id[:8]} failed" if failed else "first"
    changed = ", ".join(sorted(what for what in stamps if _tag(what) in left))
    key = f"{changed} of {tenant}, {_short(' '.join(left.values()))}, {last}"
    return dg.RunRequest(key, partition_key=tenant, tags={"changed": changed, **left})


def _is_reached(instance: dg.DagsterInstance, tenant: str, what: str, stamp: str) -> bool:
    wanted = {PARTITION_TAG: tenant, _tag(what): _short(stamp)}
    return bool(instance.get_run_ids(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags=wanted), limit=1))


def _short(stamp: str) -> str:
    """Ten digits: one change in 10^12 is missed."""
    return blake2b(stamp.encode(), digest_size=5).hexdigest()


def _tag(what: str) -> str:
    """Dagster's UI hides tags of this prefix: the digest says nothing to a person."""
    return f".dagster/memory.{what}"
