"""Sensors: they notice what changes outside of Dagster and ask for one run a change.

A tick compares digests of `stat` with its cursor and opens no file; only where they differ does it ask the catalog what is not
taken in yet, so that a change that `memory run` already took in makes no second run.
"""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import dagster as dg

from memory_assets.defs.assets.graph import graph_edges
from memory_assets.defs.assets.memory import stored_memories
from memory_assets.defs.jobs import reflect, remember
from memory_assets.defs.partitions import TENANTS, tenants_of
from memory_assets.defs.resources import MemoryResource
from memory_assets.ingest.scans import known_stamps, vanished_paths
from memory_assets.models import Scan, Source
from memory_assets.settings import Settings
from memory_assets.sources import claude_silos, pai_learning, pai_seed
from memory_assets.sources.digests import stat_digests
from memory_assets.tenants import Tenant, tenant_names

_INTERVAL_SECONDS = 10
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def _source_sensor(
    name: str, source: Source, path_of: Callable[[Settings], Path], scan: Callable[..., Scan], what: str
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        job=remember,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Runs `remember` when {what} change.",
    )
    def evaluate(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SensorResult | dg.SkipReason:
        settings = memory.settings()
        path = path_of(settings)
        digests = stat_digests(source, path)
        if digests == json.loads(context.cursor or "{}"):
            return dg.SkipReason(f"Nothing changed below {path}.")
        cursor = json.dumps(digests, sort_keys=True)
        tenant = Tenant(settings)
        if _is_under_way(context.instance, tenant.name):
            return dg.SkipReason(f"A run for {tenant.name} is under way; what it leaves is looked at next time.")
        known = known_stamps(tenant.catalog, source)
        found = scan(path, known)
        if not found.changed and not vanished_paths(found, known):
            return dg.SensorResult(skip_reason=f"What changed below {path} is already taken in.", cursor=cursor)
        digest = blake2b(cursor.encode(), digest_size=16).hexdigest()
        return dg.SensorResult(
            run_requests=[dg.RunRequest(f"{source}:{tenant.name}:{digest}", partition_key=tenant.name)],
            dynamic_partitions_requests=[TENANTS.build_add_request([tenant.name])],
            cursor=cursor,
        )

    return evaluate


@dg.sensor(
    job=reflect,
    minimum_interval_seconds=_INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Runs `reflect` when memories or relations were stored directly; the cursor is LanceDB's version.",
)
def stored_memories_sensor(context: dg.SensorEvaluationContext, memory: MemoryResource) -> dg.SensorResult | dg.SkipReason:
    """Compare LanceDB's versions with those that the last graph was built from, tenant by tenant."""
    settings = memory.settings()
    cursor: dict[str, str] = json.loads(context.cursor or "{}")
    requests, events, waiting = [], [], []
    tenants = sorted({*tenant_names(settings), *tenants_of(context.instance)})
    for tenant in (Tenant(settings, name) for name in tenants):
        if not tenant.exists or not len(tenant.memories):
            continue
        version = f"{tenant.memories.version}.{tenant.relations.version}"
        if cursor.get(tenant.name) == version:
            continue
        if version != _reflected(context.instance, tenant.name):
            if _is_under_way(context.instance, tenant.name):
                waiting.append(tenant.name)
                continue
            requests.append(dg.RunRequest(f"stored:{tenant.name}:{version}", partition_key=tenant.name))
            events.append(
                dg.AssetMaterialization(stored_memories.key, partition=tenant.name, tags={"dagster/data_version": version})
            )
        cursor[tenant.name] = version
    if waiting and not requests:
        return dg.SkipReason(f"A run for {', '.join(waiting)} is under way; its result is looked at next time.")
    return dg.SensorResult(
        run_requests=requests,
        asset_events=events,
        dynamic_partitions_requests=[TENANTS.build_add_request(tenants)] if requests else [],
        cursor=json.dumps(cursor, sort_keys=True),
    )


def _reflected(instance: dg.DagsterInstance, tenant: str) -> str | None:
    """The versions that the tenant's graph was last built from."""
    wanted = dg.AssetRecordsFilter(asset_key=graph_edges.key, asset_partitions=[tenant])
    records = instance.fetch_materializations(wanted, limit=1).records
    event = records[0].asset_materialization if records else None
    if event is None:
        return None
    return f"{event.metadata['lance_version'].value}.{event.metadata['relations_version'].value}"


def _is_under_way(instance: dg.DagsterInstance, tenant: str) -> bool:
    wanted = dg.RunsFilter(statuses=_UNDER_WAY, tags={"dagster/partition": tenant})
    return bool(instance.get_run_records(wanted, limit=1))


SENSORS = [
    _source_sensor(
        "silo_files_sensor",
        Source.CLAUDE_SILO,
        lambda settings: settings.claude_projects_dir,
        claude_silos.scan,
        "Claude Code's memory files",
    ),
    _source_sensor("seed_sensor", Source.PAI_SEED, lambda settings: settings.pai_seed, pai_seed.scan, "the entries of seed.json"),
    _source_sensor(
        "learning_sensor",
        Source.PAI_LEARNING,
        lambda settings: settings.pai_learning_dir,
        pai_learning.scan,
        "the homes of the LEARNING store",
    ),
    stored_memories_sensor,
]
