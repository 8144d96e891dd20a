"""The graph group: typed edges between memories and entities, and each memory's relevance."""

from datetime import UTC, datetime

import dagster as dg

from memory_assets.defs.assets.memory import memories, stored_memories
from memory_assets.defs.assets.tana import freshness
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import note_seen
from memory_assets.defs.tenant_assets import tenant_asset
from memory_assets.graph.changes import RULES_VERSION
from memory_assets.ingest.stamps import stored_stamp

GROUP = "graph"


@tenant_asset(GROUP, "duckdb", writes="graph_edges", code_version=f"rules-{RULES_VERSION}", deps=[memories, stored_memories])
def graph_edges(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Memories, entities and clusters as nodes; typed edges from links, wording, provenance, sessions and statements."""
    from memory_assets.graph.analyzer import analyze_changed
    from memory_assets.graph.edges import refresh_graph
    from memory_assets.graph.known_names import refresh_known_names

    tenant = memory.open_for(context)
    stamp = stored_stamp(tenant)
    note_seen(context, stored_memories.key.to_user_string(), stamp)
    context.log_event(dg.AssetObservation(stored_memories.key, partition=tenant.name, metadata={"stamp": stamp}))
    spellings = tenant.analyzer.gazetteer.canonical
    outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations, spellings)
    analyzed = analyze_changed(
        tenant, lambda done, total: context.log.info(f"asked the chat model about {done} of {total} memories")
    )
    if analyzed.links or analyzed.withdrawn:
        outcome = refresh_graph(tenant.catalog, tenant.memories, tenant.relations, spellings)
    refresh_known_names(tenant)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{outcome.memories_version}.{outcome.relations_version}"),
        metadata={
            "dagster/partition_row_count": sum(outcome.edges_by_type.values()),
            "memories": outcome.memories,
            "entities": outcome.entities,
            "edges_by_type": dg.JsonMetadataValue(outcome.edges_by_type),
            "edges_by_origin": dg.JsonMetadataValue(outcome.edges_by_origin),
            "changed_memories": outcome.changed,
            "written": outcome.written,
            "analyzer": dg.JsonMetadataValue(analyzed.counts()),
            "lance_version": outcome.memories_version,
            "relations_version": outcome.relations_version,
        },
    )


@tenant_asset(GROUP, "duckdb", writes="relevance_scores", deps=[graph_edges, freshness])
def relevance_scores(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The relevance of each active memory as of today: the daily sleep cycle. Archived memories above the threshold return to recall.

    The step renews the brief of new sessions, too.
    """
    from memory_assets.graph.relevance import decay_cycle
    from memory_assets.learn.briefing import renew_brief
    from memory_assets.tana.freshness import store_activity

    tenant = memory.open_for(context)
    store_activity(tenant)
    outcome = decay_cycle(tenant, datetime.now(UTC))
    renew_brief(tenant)
    bars = "\n".join(
        f"| {low / 10:.1f} to {(low + 1) / 10:.1f} | {count} | {'█' * round(40 * count / max(1, outcome.scored))} |"
        for low, count in enumerate(outcome.histogram)
    )
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": outcome.scored,
            "below_archive_threshold": outcome.below_archive,
            "woken_from_archive": len(outcome.woken),
            "written": outcome.written,
            "distribution": dg.MarkdownMetadataValue(f"| relevance | memories | |\n|---|---|---|\n{bars}"),
        },
    )
