"""The sleep group: the cycles that consolidate, each on its schedule. The daily one is `relevance_scores` of the graph group.

Metadata holds counts and ids, and names the command that shows the texts.
"""

from datetime import UTC, datetime

import dagster as dg

from memory_assets.defs.assets.graph import graph_edges, relevance_scores
from memory_assets.defs.partitions import TENANTS, partitioned_checks
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import tenant_asset
from memory_assets.tenants import Tenant

GROUP = "sleep"
ARCHIVING = {"ops": {"archived_memories": {"config": {"archive": True}}}}
"""Run configuration with which `archived_memories` archives; the quarterly schedule gives it."""
_SHOWN = 30


@tenant_asset(GROUP, "lancedb", "duckdb", writes="creative_links", deps=[relevance_scores])
def creative_links(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Weekly: edges between similar memories that no edge connects."""
    from memory_assets.graph.creative import find_links

    tenant = memory.open_for(context)
    outcome = find_links(tenant, datetime.now(UTC))
    _observe_edges(context, tenant)
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": _count(tenant, "creative_links"),
            "week": outcome.week,
            "sampled": outcome.sampled,
            "alike": outcome.compared,
            "links_found": len(outcome.links),
            "shown_by": "memory show ID",
        }
    )


@tenant_asset(GROUP, "scikitlearn", "duckdb", writes="clusters", deps=[relevance_scores])
def clusters(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Monthly: dense groups of memories as MetaPatterns, each with a summary; members are PART_OF them."""
    from memory_assets.graph.clusters import find_clusters

    tenant = memory.open_for(context)
    outcome = find_clusters(tenant, datetime.now(UTC))
    _observe_edges(context, tenant)
    rows = [f"| {cluster.id} | {len(cluster.members)} | {cluster.cohesion:.2f} |" for cluster in outcome.clusters[:_SHOWN]]
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": len(outcome.clusters),
            "memories": outcome.memories,
            "members": sum(len(cluster.members) for cluster in outcome.clusters),
            "kept": outcome.kept,
            "founded": outcome.founded,
            "dissolved": outcome.dissolved,
            "written": outcome.written,
            "patterns": dg.MarkdownMetadataValue("\n".join(["| pattern | members | cohesion |", "|---|---|---|", *rows])),
            "shown_by": "memory consolidate cluster --dry-run",
        }
    )


def _count(tenant: Tenant, table: str) -> int:
    with tenant.catalog.read() as connection:
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    return rows


def _observe_edges(context: dg.AssetExecutionContext, tenant: Tenant) -> None:
    """Report how many edges there are now that a cycle has written some of its own."""
    rows = {"dagster/partition_row_count": _count(tenant, "graph_edges")}
    context.log_event(dg.AssetObservation(graph_edges.key, partition=tenant.name, metadata=rows))


class Forgetting(dg.Config):
    """Whether the cycle acts. A click on Materialize only shows which memories would leave."""

    archive: bool = False


with partitioned_checks():
    few_leave_at_once = dg.AssetCheckSpec(
        "few_leave_recall_at_once",
        asset="archived_memories",
        description="No more than MEMORY_FORGET_AT_MOST of the active memories would leave recall; otherwise none does.",
        partitions_def=TENANTS,
    )


@tenant_asset(GROUP, "lancedb", deps=[relevance_scores], check_specs=[few_leave_at_once])
def archived_memories(context: dg.AssetExecutionContext, memory: MemoryResource, config: Forgetting) -> dg.MaterializeResult:
    """Quarterly: memories of low relevance leave recall, reversibly. They are deleted, and kept in a file, only if the settings say so.

    The step acts if its schedule runs it, or if the run's configuration says `archive: true`; otherwise it only looks.
    """
    from memory_assets.graph.forgetting import forget
    from memory_assets.learn.briefing import renew_brief

    tenant = memory.open_for(context)
    outcome = forget(tenant, datetime.now(UTC), dry_run=not config.archive)
    acted = config.archive and not outcome.held_back
    if acted:
        renew_brief(tenant)
    verb = "" if acted else "would_be_"
    return dg.MaterializeResult(
        metadata={
            "scored": outcome.scored,
            f"{verb}archived": len(outcome.archived),
            f"{verb}deleted": len(outcome.deleted),
            f"{verb}archived_ids": dg.JsonMetadataValue([str(found.id) for found, _ in outcome.archived[:_SHOWN]]),
            "file": str(outcome.file or "none"),
            "shown_by": "memory search --archived" if acted else "memory consolidate forget --dry-run",
        },
        check_results=[
            dg.AssetCheckResult(
                passed=not outcome.held_back,
                severity=dg.AssetCheckSeverity.WARN,
                description="Look with `memory consolidate forget --dry-run`, then let it with --yes."
                if outcome.held_back
                else "",
                metadata={"active": outcome.active},
            )
        ],
    )
