"""Sensors: they notice changes outside of Dagster and request runs until one has succeeded.

A tick compares inputs by `stat` and opens only changed ones. `memory_assets.defs.run_requests` decides whether to request a run. A tick
creates nothing; a tenant that does not exist gets no run. See docs/decisions.

Sensors close over the resource instead of taking it as an argument, and request the instance only after a change. Dagster opens the
instance for every tick of a sensor that takes a resource, which was nine tenths of the cost of an idle code location.
"""

import hashlib
import json
import random
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any

import dagster as dg

from memory_assets.defs.assets.curation import silo_backlog
from memory_assets.defs.assets.memory import stored_memories
from memory_assets.defs.assets.sources import learning_entries, seed_entries, silo_files
from memory_assets.defs.assets.tana import tana_learnings
from memory_assets.defs.jobs import JOBS
from memory_assets.defs.partitions import PARTITION_SET, TENANTS, adopt_partitions
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import next_run, repeat_failed
from memory_assets.defs.schedules import REPEATED, why_not
from memory_assets.defs.upkeep import LABEL, forget_tenant, sweep_runs
from memory_assets.errors import MemoryAssetsError, SettingsError
from memory_assets.ingest.stamps import ABSENT, source_stamp, stored_stamp, table_stamps
from memory_assets.models import Source
from memory_assets.privacy import close_to_others
from memory_assets.settings import Settings
from memory_assets.sources.readers import source_paths
from memory_assets.stores.records import instance_home, is_ours
from memory_assets.tana.client import TanaClient
from memory_assets.tana.config import integration
from memory_assets.tana.errors import TanaError
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant, sweep_deleted, tenant_names

_SOURCES = {silo_files: Source.CLAUDE_SILO, seed_entries: Source.PAI_SEED, learning_entries: Source.PAI_LEARNING}
_SOURCES_TEXT = "Runs `remember` when Claude Code's memory files, seed.json or the LEARNING homes change."
_BACKLOG_TEXT = (
    "Runs `backlog` when Claude Code's memory files change: counts memories that wait for `memory learn`. Proposes nothing."
)
_SOURCES_SECONDS = 4
_INTERVAL_SECONDS = 9
"""Dagster checks every five seconds which sensors are due; with an interval of five it would often check a moment too early."""
_BACKLOG_SECONDS = 900
_HOUR_SECONDS = 3600
_TANA_SECONDS = 60
_FAILED_SECONDS = 60
_TANA_TIMEOUT_SECONDS = 1.0
_BUDGET_SECONDS = 0.5
"""Time in which a tick opens stores; the next tick takes the other tenants."""
_DIGEST_BYTES = 6
"""With a thousand tenants, one change in 10^11 is missed."""
_MAX_REQUESTS = 25
"""Runs requested per tick; Dagster takes about a tenth of a second to record each."""


def build_sensors(memory: MemoryResource) -> list[dg.SensorDefinition]:
    """Return the sensors over the stores that `memory` opens."""
    return [
        _source_sensor("sources_sensor", memory, _SOURCES, "remember", _SOURCES_SECONDS, _SOURCES_TEXT),
        _source_sensor("backlog_sensor", memory, {silo_backlog: Source.CLAUDE_SILO}, "backlog", _BACKLOG_SECONDS, _BACKLOG_TEXT),
        _stored_memories_sensor(memory),
        _tana_sensor(memory),
        _failed_schedules_sensor(memory),
        _housekeeping_sensor(memory),
    ]


def _sensor(
    name: str, seconds: int, description: str, job: str | None = None
) -> Callable[[Callable[..., Any]], dg.SensorDefinition]:
    """Return a decorator that makes a sensor, which runs unless somebody stops it."""
    running = dg.DefaultSensorStatus.RUNNING
    return dg.sensor(name=name, job_name=job, minimum_interval_seconds=seconds, default_status=running, description=description)


def _source_sensor(
    name: str, memory: MemoryResource, sources: Mapping[dg.AssetsDefinition, Source], job: str, interval: int, description: str
) -> dg.SensorDefinition:
    @_sensor(name, interval, description, job)
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        settings = memory.settings()
        tenant = Tenant(settings)
        if not tenant.exists:
            return dg.SkipReason(f"There is no tenant {tenant.name!r} yet; `memory run` makes it.")
        paths = source_paths(settings)
        stamps = {asset.key.to_user_string(): source_stamp(tenant, source) for asset, source in sources.items()}
        before = json.loads(context.cursor or "{}")
        if before.get("tenant") != tenant.name:
            before = {}
        changed = {what: stamp for what, stamp in stamps.items() if stamp != before.get(what, ABSENT)}
        if not changed:
            return dg.SkipReason(f"Nothing changed in {', '.join(str(paths[source]) for source in sources.values())}.")
        step = next_run(context.instance, tenant.name, changed)
        return _respond(step, tenant.name, "The changes are ingested.", json.dumps({"tenant": tenant.name, **stamps}))

    return evaluate


def _respond(step: dg.RunRequest | dg.SkipReason | None, tenant: str, done: str, cursor: str) -> dg.SensorResult | dg.SkipReason:
    """Return the request or the reason to wait; if there is nothing to do, say so and keep the cursor."""
    if step is None:
        return dg.SensorResult(skip_reason=done, cursor=cursor)
    if isinstance(step, dg.SkipReason):
        return step
    return dg.SensorResult(run_requests=[step], dynamic_partitions_requests=[TENANTS.build_add_request([tenant])])


def _stored_memories_sensor(memory: MemoryResource) -> dg.SensorDefinition:
    @_sensor(
        "stored_memories_sensor",
        _INTERVAL_SECONDS,
        "Runs `reflect` when memories or relations were stored directly.",
        "reflect",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        """Request a run for each tenant whose tables differ from those that its graph was built from.

        The cursor holds a short digest of the `table_stamp` of each tenant that needs no run, so that it stays short for a thousand
        tenants. A tenant whose tables cannot be read also gets a run, so that only its own run fails.
        """
        settings = memory.settings()
        before = set((context.cursor or "").split())
        settled: set[str] = set()
        changed: list[tuple[str, str | None]] = []
        for tenant, stamp in table_stamps(settings).items():
            digest = tenant_digest(tenant, stamp)
            if stamp is not None and digest in before:
                settled.add(digest)
            else:
                changed.append((tenant, stamp))
        random.shuffle(changed)
        requests: list[dg.RunRequest] = []
        waiting: list[str] = []
        deadline = monotonic() + _BUDGET_SECONDS
        for tenant, stamp in changed:
            if monotonic() > deadline or len(requests) == _MAX_REQUESTS:
                waiting.append("More tenants have changed; the next tick takes them.")
                break
            match _next_reflection(context.instance, settings, tenant, stamp):
                case dg.RunRequest() as request:
                    requests.append(request)
                case dg.SkipReason(skip_message=why):
                    waiting.append(why or "")
                case None:
                    settled.add(tenant_digest(tenant, stamp))
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else " ".join(waiting) or "Nothing was stored.",
            dynamic_partitions_requests=[TENANTS.build_add_request([str(each.partition_key) for each in requests])],
            cursor=" ".join(sorted(settled)),
        )

    return evaluate


def tenant_digest(tenant: str, stamp: str | None) -> str:
    """Return the entry of a tenant that needs no run in the cursor of `stored_memories_sensor`."""
    return urlsafe_b64encode(blake2b(f"{tenant} {stamp}".encode(), digest_size=_DIGEST_BYTES).digest()).decode()


def _next_reflection(
    instance: dg.DagsterInstance, settings: Settings, name: str, disk: str | None
) -> dg.RunRequest | dg.SkipReason | None:
    try:
        tenant = Tenant(settings, name)
        if not (len(tenant.memories) or instance.has_dynamic_partition(PARTITION_SET, name)):
            return None
        stamp = stored_stamp(tenant)
    except MemoryAssetsError:
        stamp = f"unreadable:{disk}"
    return next_run(instance, name, {stored_memories.key.to_user_string(): stamp})


def _tana_sensor(memory: MemoryResource) -> dg.SensorDefinition:
    @_sensor(
        "tana_sensor",
        _TANA_SECONDS,
        "Runs `mirror_tana` when changes wait and Tana answers, and with tanaIntegration.autoSync when seed.json changes.",
        "mirror_tana",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        """Check the file and the queue first. Tana is called only if changes wait for it, and later after each failure."""
        settings = memory.settings()
        tenant = Tenant(settings)
        try:
            config = integration(settings)
        except SettingsError as error:
            return dg.SkipReason(str(error))
        if config.enabled is False:
            return dg.SkipReason("pai-seed's configuration switches Tana off.")
        if not tenant.exists:
            return dg.SkipReason(f"There is no tenant {tenant.name!r} yet.")
        waiting = sorted(SyncRecord.load(tenant.folder).queue.items())
        stamp = source_stamp(tenant, Source.PAI_SEED) if config.enabled and config.auto_sync else ""
        if not waiting and stamp in (context.cursor or "", ABSENT):
            return dg.SkipReason("Nothing waits for Tana.")
        asked = [source_stamp(tenant, Source.PAI_SEED), waiting]  # an entry that waits again may have another text
        wanted = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]
        step = next_run(context.instance, tenant.name, {tana_learnings.key.to_user_string(): wanted})
        try:
            if isinstance(step, dg.RunRequest):
                TanaClient.open(settings).health(timeout=_TANA_TIMEOUT_SECONDS)
        except TanaError as error:
            return dg.SkipReason(str(error))
        return _respond(step, tenant.name, "The waiting changes are in Tana.", stamp)

    return evaluate


def _failed_schedules_sensor(memory: MemoryResource) -> dg.SensorDefinition:
    @dg.sensor(
        name="failed_schedules_sensor",
        jobs=[job for job in JOBS if job.name in REPEATED.values()],
        minimum_interval_seconds=_FAILED_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Repeats a schedule's failed run after 1, 4, 16, then every 60 minutes; not of Tana or trials of backups.",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Request each run again until one of its job has succeeded or been canceled, or the job has no more work."""
        settings = memory.settings()
        tenants = adopt_partitions(context.instance, tenant_names(settings))
        requests: list[dg.RunRequest] = []
        waiting: list[str] = []
        for each in repeat_failed(context.instance, location_label(context), list(REPEATED)):
            if isinstance(each, dg.SkipReason):
                waiting.append(each.skip_message or "")
            elif each.partition_key in tenants and not why_not(each.job_name or "", settings):
                requests.append(each)
        reason = None if requests else " ".join(waiting) or "No newest run of a schedule failed."
        return dg.SensorResult(run_requests=requests[:_MAX_REQUESTS], skip_reason=reason)

    return evaluate


def _housekeeping_sensor(memory: MemoryResource) -> dg.SensorDefinition:
    @_sensor(
        "housekeeping_sensor",
        _HOUR_SECONDS,
        "Deletes the records of old runs and of deleted tenants, and closes Dagster's folder to others. Leaves other projects' alone.",
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        """Do the work in the tick, without a run. A folder that another project or Dagster's chart set up keeps its permissions."""
        settings = memory.settings()
        instance, home, label = context.instance, Path(context.instance.root_directory), location_label(context)
        is_foreign = home != instance_home(settings) and not is_ours(home)
        tenants = set(tenant_names(settings))
        adopt_partitions(instance, tenants)
        gone = set(instance.get_dynamic_partitions(PARTITION_SET)) - tenants
        for name in gone:
            forget_tenant(instance, name, label, is_foreign=is_foreign)
        sweep_deleted(settings)
        swept = sweep_runs(instance, label)
        done = f"{swept} run records deleted, {len(gone)} deleted tenants forgotten."
        if is_foreign:
            return dg.SkipReason(f"{done} {home} is not this project's, so the records of other projects there are left alone.")
        close_to_others(home)
        return dg.SkipReason(done)

    return evaluate


def location_label(context: dg.SensorEvaluationContext) -> str:
    """Return the label with which Dagster tags the runs of the sensor's code location."""
    origin = context.code_location_origin
    return f"{context.repository_name}@{origin.location_name}" if origin else LABEL
