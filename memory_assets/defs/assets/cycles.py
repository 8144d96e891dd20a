"""The sleep group: the cycles that consolidate, each on its schedule; the daily one renews `relevance_scores` of the graph group.

What they do is in `memory_assets.graph`. Metadata holds counts and ids, and names the command that shows the texts.
"""

from datetime import UTC, datetime
from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.graph import relevance_scores
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS, partitioned_checks
from memory_assets.defs.resources import MemoryResource

GROUP = "sleep"
ARCHIVING = {"ops": {"archived_memories": {"config": {"archive": True}}}}
"""Run configuration with which `archived_memories` archives; the quarterly schedule gives it."""
_SHOWN = 30


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"lancedb", "duckdb"}, owners=["team:memory"], deps=[relevance_scores])
@told
def creative_links(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Weekly: edges between memories that are alike and were never connected."""
    from memory_assets.graph.sleep import creative_cycle

    started = perf_counter()
    outcome = creative_cycle(memory.open(context.partition_key), datetime.now(UTC))
    return dg.MaterializeResult(
        metadata={
            "week": outcome.week,
            "sampled": outcome.sampled,
            "alike": outcome.compared,
            "links_found": len(outcome.links),
            "shown_by": "memory show ID",
            "seconds": round(perf_counter() - started, 3),
        }
    )


@dg.asset(
    partitions_def=TENANTS, group_name=GROUP, kinds={"scikitlearn", "duckdb"}, owners=["team:memory"], deps=[relevance_scores]
)
@told
def clusters(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Monthly: dense groups of memories as MetaPatterns, each with a summary; members are PART_OF them."""
    from memory_assets.graph.sleep import cluster_cycle

    started = perf_counter()
    outcome = cluster_cycle(memory.open(context.partition_key), datetime.now(UTC))
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
            "seconds": round(perf_counter() - started, 3),
        }
    )


class Forgetting(dg.Config):
    """Whether the cycle acts. A click on Materialize only shows what would go."""

    archive: bool = False


with partitioned_checks():
    few_leave_at_once = dg.AssetCheckSpec(
        "few_leave_recall_at_once",
        asset="archived_memories",
        description="No more than MEMORY_FORGET_AT_MOST of the active memories would leave recall; otherwise none does.",
        partitions_def=TENANTS,
    )


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"lancedb"},
    owners=["team:memory"],
    deps=[relevance_scores],
    check_specs=[few_leave_at_once],
)
@told
def archived_memories(context: dg.AssetExecutionContext, memory: MemoryResource, config: Forgetting) -> dg.MaterializeResult:
    """Quarterly: what no longer matters leaves recall, reversibly; deleted only if the settings say so, and kept in a file.

    Acts where its schedule runs it, or where the run's configuration says `archive: true`; otherwise it only looks.
    """
    from memory_assets.graph.sleep import forget_cycle
    from memory_assets.learn.briefing import renew_brief

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    outcome = forget_cycle(tenant, datetime.now(UTC), dry_run=not config.archive)
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
            "seconds": round(perf_counter() - started, 3),
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
