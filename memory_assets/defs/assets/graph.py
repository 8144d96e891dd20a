"""The graph group: typed edges between memories and entities, and each memory's relevance."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from memory_assets.defs.assets.memory import memories, stored_memories
from memory_assets.defs.assets.tana import freshness
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import record_seen
from memory_assets.defs.tenant_assets import Page, due_within, read_rows, report_external, report_progress, tenant_asset
from memory_assets.graph.changes import RULES_VERSION
from memory_assets.ingest.stamps import stored_stamp

GROUP = "graph"

OF_SLEEP = ("creative", "cluster")
"""Origins of edges from sleep cycles, which their own assets count."""
_GRAPH = Page(
    ("written",),
    "SELECT type, origin, count(*) AS edges, round(avg(confidence), 2) AS confidence FROM graph_edges GROUP BY ALL ORDER BY ALL",
)
_MONTHS = """
    SELECT * FROM (
        SELECT strftime(created_at, '%Y-%m') AS month, count(*) AS memories FROM graph_memories GROUP BY 1 ORDER BY 1 DESC LIMIT 12
    ) ORDER BY month
    """
"""Memories by month of creation: the last twelve months with any."""
_SCORES = Page(
    ("written", "woken_from_archive"),
    """
    SELECT kind, count(*) AS memories, round(avg(relevance), 3) AS mean, round(min(relevance), 3) AS least
    FROM relevance_scores JOIN scored_memories USING (id) GROUP BY ALL ORDER BY ALL
    """,
)


@tenant_asset(GROUP, "duckdb", writes="graph_edges", rules=RULES_VERSION, page=_GRAPH, deps=[memories, stored_memories])
def graph_edges(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Nodes (memories, entities, clusters) and typed edges from links, wording, provenance, sessions and statements."""
    from memory_assets.graph.analyzer import analyze_changed
    from memory_assets.graph.decided_names import read_spellings
    from memory_assets.graph.edges import refresh_graph
    from memory_assets.graph.known_names import refresh_known_names

    tenant = memory.open_for(context)
    stamp = stored_stamp(tenant)
    record_seen(context, stored_memories.key.to_user_string(), stamp)
    report_external(context, stored_memories, stamp, {"dagster/partition_row_count": len(tenant.memories)}, tenant.name)
    spellings = read_spellings(tenant)
    compared = report_progress(context, "compared {} of {} pairs of similar texts")
    outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations, spellings, compared)
    analyzed = analyze_changed(tenant, report_progress(context, "asked the chat model about {} of {} memories"))
    if analyzed.links or analyzed.withdrawn:
        outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations, spellings)
    refresh_known_names(tenant)
    asleep = sum(outcome.edges_by_origin.get(origin, 0) for origin in OF_SLEEP)
    return {
        "data_version": f"{outcome.memories_version}.{outcome.relations_version}",
        "dagster/partition_row_count": sum(outcome.edges_by_origin.values()) - asleep,
        "edges_of_sleep_cycles": asleep,
        "memories": outcome.memories,
        "entities": outcome.entities,
        "growth": dg.JsonMetadataValue({row["month"]: row["memories"] for row in read_rows(tenant, _MONTHS)}),
        "edge_types": dg.JsonMetadataValue(outcome.edges_by_type),
        "changed_memories": outcome.changed,
        "written": outcome.written,
        "analyzer": dg.JsonMetadataValue(analyzed.counts()),
        "lance_version": outcome.memories_version,
        "relations_version": outcome.relations_version,
    }


@tenant_asset(
    GROUP, "duckdb", writes="relevance_scores", page=_SCORES, deps=[graph_edges, freshness], freshness_policy=due_within(2, 3)
)
def relevance_scores(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The current relevance of each active memory: the daily sleep cycle. Archived memories above the threshold return to recall.

    The step also renews the brief of new sessions.
    """
    from memory_assets.graph.relevance import decay_cycle
    from memory_assets.learn.briefing import renew_brief
    from memory_assets.tana.freshness import store_activity

    tenant = memory.open_for(context)
    store_activity(tenant)
    outcome = decay_cycle(tenant, datetime.now(UTC))
    renew_brief(tenant)
    tenths = {f"{low / 10:.1f} to {(low + 1) / 10:.1f}": count for low, count in enumerate(outcome.histogram)}
    return {
        "dagster/partition_row_count": outcome.scored,
        "below_archive_threshold": outcome.below_archive,
        "woken_from_archive": len(outcome.woken),
        "written": outcome.written,
        "distribution": dg.JsonMetadataValue(tenths),
    }
