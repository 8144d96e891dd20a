"""The memory group: what is remembered, in LanceDB, from files and from the faces."""

from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.understanding import extracted_features
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.settled import unless_settled

GROUP = "memory"

stored_memories = dg.AssetSpec(
    "stored_memories",
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"lancedb"},
    owners=["team:memory"],
    description=(
        "What people and agents stored over CLI, HTTP and MCP. Written outside of Dagster: a "
        "sensor notices it, and a run that builds the graph observes what it found."
    ),
)


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"lancedb"},
    owners=["team:memory"],
    deps=[extracted_features],
)
@told
@unless_settled
def memories(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The `memories` table: entries embedded and stored; changed ones supersede, vanished ones rest until they return.

    If the settings choose a better embedder than the one that is searched with, all memories are moved to it first.
    """
    from memory_assets.ingest.backfill import catch_up
    from memory_assets.ingest.memories import sync_memories
    from memory_assets.stores.moves import read_moves

    started = perf_counter()
    tenant = memory.open(context.partition_key)

    def embedded(done: int, total: int) -> None:
        context.log.info(f"embedded {done} of {total} memories")

    embedded_anew = catch_up(tenant, embedded)
    moves = read_moves(tenant.folder)
    outcome = sync_memories(tenant.catalog, tenant.memories, lambda: memory.embedder(tenant), embedded, moves)
    if memory.settling(tenant).have_moved():
        sync_memories(tenant.catalog, tenant.memories, lambda: memory.embedder(tenant), embedded, moves)
    seconds = perf_counter() - started
    return dg.MaterializeResult(
        data_version=dg.DataVersion(str(outcome.version)),
        metadata={
            "dagster/partition_row_count": len(tenant.memories),
            "added": outcome.added,
            "updated": outcome.updated,
            "superseded": outcome.superseded,
            "vanished": outcome.vanished,
            "returned": outcome.returned,
            "lance_version": outcome.version,
            "embedder": tenant.memories.columns.embedder or "none yet",
            "embedded_anew": embedded_anew,
            "seconds": round(seconds, 3),
            "memories_per_second": round(outcome.changed / seconds, 1),
            "shown_by": "memory recent",
        },
    )
