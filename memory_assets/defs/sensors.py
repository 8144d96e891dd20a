"""Sensors: they notice changes outside of Dagster and request runs until one has succeeded.

A tick compares inputs by `stat` and opens only what changed. `memory_assets.defs.run_requests` decides whether to request a run. A tick
creates nothing; a tenant that does not exist gets no run. See docs/decisions/0001-sensors-ask-for-runs.md.
"""

import hashlib
import json
import random
from base64 import urlsafe_b64encode
from hashlib import blake2b
from pathlib import Path
from time import monotonic

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from memory_assets.defs.assets.curation import silo_backlog
from memory_assets.defs.assets.memory import stored_memories
from memory_assets.defs.assets.sources import learning_entries, seed_entries, silo_files
from memory_assets.defs.assets.tana import tana_learnings
from memory_assets.defs.jobs import backlog, mirror_tana, reflect, remember
from memory_assets.defs.partitions import PARTITION_SET, TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import next_run
from memory_assets.defs.upkeep import end_dead_runs, forget_tenant, sweep_runs
from memory_assets.errors import MemoryAssetsError
from memory_assets.ingest.stamps import ABSENT, disk_stamp, source_stamp, stored_stamp
from memory_assets.models import Source
from memory_assets.privacy import close_to_others
from memory_assets.settings import Settings
from memory_assets.sources.readers import source_paths
from memory_assets.tana.client import TanaClient
from memory_assets.tana.config import integration
from memory_assets.tana.errors import TanaError
from memory_assets.tana.ledger import Ledger
from memory_assets.tenants import Tenant, sweep_deleted, tenant_names

_INTERVAL_SECONDS = 10
_NUDGE_SECONDS = 900
_HOUR_SECONDS = 3600
_TANA_SECONDS = 30
_TANA_PATIENCE_S = 1.0
_BUDGET_SECONDS = 0.5
"""How long a tick opens stores; the other tenants come with the next tick."""
_DIGEST_BYTES = 6
"""With a thousand tenants, one change in 10^11 is missed."""
_MOST_REQUESTS = 25
"""Runs requested in one tick: Dagster takes about a tenth of a second to record each."""


def _source_sensor(
    name: str,
    asset: dg.AssetsDefinition,
    source: Source,
    what: str,
    *,
    job: str = remember.name,
    interval: int = _INTERVAL_SECONDS,
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        job_name=job,
        minimum_interval_seconds=interval,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Runs `{job}` when {what} change.",
    )
    def evaluate(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SensorResult | dg.SkipReason:
        end_dead_runs(context.instance)
        tenant = Tenant(memory.settings())
        path = source_paths(tenant.settings)[source]
        if not tenant.exists:
            return dg.SkipReason(f"There is no tenant {tenant.name!r} yet; `memory run` makes it.")
        stamp = source_stamp(tenant, source)
        cursor = json.dumps({tenant.name: stamp})
        if cursor == context.cursor or (stamp == ABSENT and not context.cursor):
            return dg.SkipReason(f"Nothing changed below {path}.")
        step = next_run(context.instance, tenant.name, asset.key.to_user_string(), stamp)
        match step:
            case dg.RunRequest():
                add = TENANTS.build_add_request([tenant.name])
                (given,) = asset.dependency_keys
                state = dg.AssetMaterialization(given, metadata={"path": str(path)}, tags={DATA_VERSION_TAG: stamp})
                return dg.SensorResult(run_requests=[step], dynamic_partitions_requests=[add], asset_events=[state])
            case None:
                return dg.SensorResult(skip_reason=f"What changed below {path} is taken in.", cursor=cursor)
        return step

    return evaluate


@dg.sensor(
    job=reflect,
    minimum_interval_seconds=_INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs `reflect` when memories or relations were stored directly.",
)
def stored_memories_sensor(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SensorResult | dg.SkipReason:
    """Request a run for each tenant whose tables differ from those that its graph was built from.

    The cursor holds a short digest of the `disk_stamp` of each tenant that needs no run, so that it stays short for a thousand
    tenants. A tenant whose tables cannot be read gets a run too: that run fails, and no other tenant's does.
    """
    end_dead_runs(context.instance)
    settings = memory.settings()
    before = set((context.cursor or "").split())
    settled: set[str] = set()
    changed: list[tuple[str, str | None]] = []
    for tenant in tenant_names(settings):
        stamp = disk_stamp(settings, tenant)
        digest = _digest(tenant, stamp)
        if stamp is not None and digest in before:
            settled.add(digest)
        else:
            changed.append((tenant, stamp))
    random.shuffle(changed)
    requests: list[dg.RunRequest] = []
    waiting: list[str] = []
    deadline = monotonic() + _BUDGET_SECONDS
    for tenant, stamp in changed:
        if monotonic() > deadline or len(requests) == _MOST_REQUESTS:
            waiting.append("More tenants have changed; they come next time.")
            break
        match _next_reflection(context.instance, settings, tenant, stamp):
            case dg.RunRequest() as request:
                requests.append(request)
            case dg.SkipReason(skip_message=why):
                waiting.append(why or "")
            case None:
                settled.add(_digest(tenant, stamp))
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else " ".join(waiting) or "Nothing was stored.",
        dynamic_partitions_requests=[TENANTS.build_add_request([str(each.partition_key) for each in requests])],
        cursor=" ".join(sorted(settled)),
    )


def _digest(tenant: str, stamp: str | None) -> str:
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
    return next_run(instance, name, stored_memories.key.to_user_string(), stamp)


@dg.sensor(
    job=mirror_tana,
    minimum_interval_seconds=_TANA_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs `mirror_tana` when changes wait and Tana answers, and with tanaIntegration.autoSync when seed.json changes.",
)
def tana_sensor(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SensorResult | dg.SkipReason:
    """Look at file and queue first. Tana is asked only if changes wait for it, and later after each failure."""
    settings = memory.settings()
    tenant = Tenant(settings)
    said = integration(settings)
    if said.enabled is False or not tenant.exists:
        return dg.SkipReason("pai-seed wants no Tana." if said.enabled is False else f"There is no tenant {tenant.name!r} yet.")
    waiting = sorted(Ledger(tenant.folder).queued().items())
    stamp = source_stamp(tenant, Source.PAI_SEED) if said.automatic else ""
    if not waiting and stamp in (context.cursor or "", ABSENT):
        return dg.SkipReason("Nothing waits for Tana.")
    wanted = hashlib.sha256(json.dumps([stamp, waiting]).encode()).hexdigest()[:32]
    step = next_run(context.instance, tenant.name, tana_learnings.key.to_user_string(), wanted)
    if step is None:
        return dg.SensorResult(skip_reason="What waited is in Tana.", cursor=stamp)
    if isinstance(step, dg.SkipReason):
        return step
    try:
        TanaClient.open(settings).health(timeout=_TANA_PATIENCE_S)
    except TanaError as error:
        return dg.SkipReason(str(error))
    add = TENANTS.build_add_request([tenant.name])
    return dg.SensorResult(run_requests=[step], dynamic_partitions_requests=[add])


@dg.sensor(
    minimum_interval_seconds=_HOUR_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Deletes what Dagster keeps of old runs and of deleted tenants, and closes its folder to others.",
)
def housekeeping_sensor(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SkipReason:
    """Do everything in the tick; start no run."""
    settings = memory.settings()
    instance = context.instance
    gone = set(instance.get_dynamic_partitions(PARTITION_SET)) - set(tenant_names(settings))
    for name in gone:
        forget_tenant(instance, name)
    sweep_deleted(settings)
    swept = sweep_runs(instance)
    close_to_others(Path(instance.root_directory))
    return dg.SkipReason(f"{swept} run records deleted, {len(gone)} deleted tenants forgotten.")


SENSORS = [
    _source_sensor("silo_files_sensor", silo_files, Source.CLAUDE_SILO, "Claude Code's memory files"),
    _source_sensor("seed_sensor", seed_entries, Source.PAI_SEED, "the entries of seed.json"),
    _source_sensor("learning_sensor", learning_entries, Source.PAI_LEARNING, "the homes of the LEARNING store"),
    _source_sensor(
        "backlog_sensor",
        silo_backlog,
        Source.CLAUDE_SILO,
        "Claude Code's memory files, to nudge: it counts what waits for `memory learn`, and proposes and applies nothing,",
        job=backlog.name,
        interval=_NUDGE_SECONDS,
    ),
    stored_memories_sensor,
    tana_sensor,
    housekeeping_sensor,
]
