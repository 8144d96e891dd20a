"""Asset checks: what must always hold. Each reads the stores as they are and can fail.

Statistics belong to the assets' metadata; here are invariants, each with the command that mends it.
"""

import dagster as dg
import numpy as np

from memory_assets.defs.assets.graph import graph_edges, relevance_scores
from memory_assets.defs.assets.memory import memories
from memory_assets.defs.partitions import tenants_of
from memory_assets.defs.resources import MemoryResource
from memory_assets.models import State
from memory_assets.tenants import Tenant

_LENGTH_TOLERANCE = 1e-3


def _partitions(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> list[Tenant]:
    tenants = [memory.open(name) for name in tenants_of(context.instance)]
    return [tenant for tenant in tenants if tenant.exists]


def _result(faults: dict[str, int], mend: str) -> dg.AssetCheckResult:
    found = {tenant: count for tenant, count in faults.items() if count}
    return dg.AssetCheckResult(
        passed=not found, description=mend if found else "", metadata={"faults_by_tenant": dg.JsonMetadataValue(found)}
    )


@dg.asset_check(asset=memories, description="Every memory in recall has an embedding of unit length.")
def every_memory_has_a_unit_embedding(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
    """Counts active memories whose live vector is missing or not of length 1."""
    faults = {}
    for tenant in _partitions(context, memory):
        column = tenant.memories.columns.live
        if column is None:
            faults[tenant.name] = len(tenant.memories)
            continue
        vectors = tenant.memories.scan((column,), f"state = '{State.ACTIVE}'")[column].combine_chunks()
        flat = vectors.drop_null().flatten().to_numpy().reshape(-1, vectors.type.list_size)
        lengths = np.linalg.norm(flat, axis=1)
        faults[tenant.name] = vectors.null_count + int((np.abs(lengths - 1) > _LENGTH_TOLERANCE).sum())
    return _result(faults, "Run `memory backfill` to fill the missing vectors.")


@dg.asset_check(asset=memories, description="No two memories that are not superseded come from one source key.")
def one_memory_per_source_key(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
    """Counts source keys that stand behind several current memories."""
    faults = {}
    for tenant in _partitions(context, memory):
        keys = tenant.memories.scan(("source_key",), f"source_key <> '' AND state <> '{State.SUPERSEDED}'")["source_key"]
        faults[tenant.name] = len(keys) - len(keys.unique())
    return _result(faults, "Run `memory run`: it supersedes all but the newest.")


@dg.asset_check(asset=memories, description="Every row lies in the folder of the tenant whose files it came from.")
def no_memory_of_another_tenant(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
    """Counts memories from files in tenants other than the one the settings name, whose catalogs must know their keys."""
    faults = {}
    for tenant in _partitions(context, memory):
        rows = tenant.memories.scan(("source_key",), f"source_key <> '' AND state = '{State.ACTIVE}'")
        with tenant.catalog.read() as connection:
            connection.register("rows", rows)
            (strangers,) = connection.execute(
                "SELECT count(*) FROM rows ANTI JOIN memory_entries e ON e.key = rows.source_key"
            ).fetchone() or (0,)
        faults[tenant.name] = strangers
    return _result(faults, "These memories' sources are not this tenant's; run `memory run` for the tenant.")


@dg.asset_check(asset=graph_edges, description="Both ends of every edge and mention are nodes.")
def no_edge_dangles(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
    """Counts edges and mentions with an end that no node has."""
    faults = {}
    for tenant in _partitions(context, memory):
        with tenant.catalog.read() as connection:
            (dangling,) = connection.execute("""
                SELECT count(*) FROM (
                    SELECT source_id AS id FROM graph_edges UNION ALL SELECT target_id FROM graph_edges
                    UNION ALL SELECT memory_id FROM graph_mentions UNION ALL SELECT entity_id FROM graph_mentions
                ) ends ANTI JOIN graph_nodes USING (id)
            """).fetchone() or (0,)
        faults[tenant.name] = dangling
    return _result(faults, "Materialise graph_edges again.")


@dg.asset_check(asset=relevance_scores, description="Scores lie within 0..1.")
def scores_within_bounds(context: dg.AssetCheckExecutionContext, memory: MemoryResource) -> dg.AssetCheckResult:
    """Counts scores below 0, above 1 or not a number."""
    faults = {}
    for tenant in _partitions(context, memory):
        with tenant.catalog.read() as connection:
            (outside,) = connection.execute(
                "SELECT count(*) FROM relevance_scores WHERE relevance IS NULL OR isnan(relevance) "
                "OR relevance NOT BETWEEN 0 AND 1"
            ).fetchone() or (0,)
        faults[tenant.name] = outside
    return _result(faults, "Check importance and confidence of the memories, then materialise relevance_scores again.")
