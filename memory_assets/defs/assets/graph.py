"""The graph group: how memories and entities hang together, and how much each memory matters now."""

from datetime import UTC, datetime
from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.memory import memories, stored_memories
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.relevance import refresh_relevance

GROUP = "graph"


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"duckdb"},
    owners=["team:memory"],
    deps=[memories, stored_memories],
)
def graph_edges(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Memories and entities as nodes, typed edges from links, supersession and statements."""
    started = perf_counter()
    tenant = memory.open(context.partition_key)
    outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{outcome.memories_version}.{outcome.relations_version}"),
        metadata={
            "dagster/partition_row_count": sum(outcome.edges_by_type.values()),
            "memories": outcome.memories,
            "entities": outcome.entities,
            "edges_by_type": dg.JsonMetadataValue(outcome.edges_by_type),
            "written": outcome.written,
            "lance_version": outcome.memories_version,
            "relations_version": outcome.relations_version,
            "seconds": round(perf_counter() - started, 3),
        },
    )


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"duckdb"},
    owners=["team:memory"],
    deps=[graph_edges],
)
def relevance_scores(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """How much each active memory matters now: decay, access, connections, importance and confidence."""
    started = perf_counter()
    tenant = memory.open(context.partition_key)
    outcome = refresh_relevance(
        tenant.catalog,
        tenant.memories,
        datetime.now(UTC),
        rate=tenant.settings.decay_rate,
        archive_threshold=tenant.settings.archive_threshold,
    )
    bars = "\n".join(
        f"| {low / 10:.1f} to {(low + 1) / 10:.1f} | {count} | {'█' * round(40 * count / max(1, outcome.scored))} |"
        for low, count in enumerate(outcome.histogram)
    )
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": outcome.scored,
            "below_archive_threshold": outcome.below_archive,
            "written": outcome.written,
            "distribution": dg.MarkdownMetadataValue(f"| relevance | memories | |\n|---|---|---|\n{bars}"),
            "seconds": round(perf_counter() - started, 3),
        },
    )
