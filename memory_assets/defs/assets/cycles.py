"""The sleep group: the cycles that consolidate, each on its schedule; the daily one renews `relevance_scores` of the graph group.

What they do is in `memory_assets.graph`.
"""

from datetime import UTC, datetime
from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.graph import relevance_scores
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.graph.sleep import cluster_cycle, creative_cycle, forget_cycle

GROUP = "sleep"
_SHOWN = 30


def _table(head: str, rows: list[str], total: int) -> dg.MarkdownMetadataValue:
    if not rows:
        return dg.MarkdownMetadataValue("none")
    more = [f"and {total - len(rows)} more"] if total > len(rows) else []
    return dg.MarkdownMetadataValue("\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows, *more]))


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")[:160]


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"lancedb", "duckdb"}, owners=["team:memory"], deps=[relevance_scores])
def creative_links(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Weekly: edges between memories that are alike and were never connected."""
    started = perf_counter()
    outcome = creative_cycle(memory.open(context.partition_key), datetime.now(UTC))
    rows = [
        f"| {_cell(link['source_label'])} | {link['type']} | {_cell(link['target_label'])} | {link['similarity']:.2f} |"
        for link in outcome.links[:_SHOWN]
    ]
    return dg.MaterializeResult(
        metadata={
            "week": outcome.week,
            "sampled": outcome.sampled,
            "alike": outcome.compared,
            "links_found": len(outcome.links),
            "links": _table("| memory | edge | memory | similarity |", rows, len(outcome.links)),
            "seconds": round(perf_counter() - started, 3),
        }
    )


@dg.asset(
    partitions_def=TENANTS, group_name=GROUP, kinds={"scikitlearn", "duckdb"}, owners=["team:memory"], deps=[relevance_scores]
)
def clusters(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Monthly: dense groups of memories as MetaPatterns, each with a summary; members are PART_OF them."""
    started = perf_counter()
    outcome = cluster_cycle(memory.open(context.partition_key), datetime.now(UTC))
    rows = [f"| {_cell(c.label)} | {len(c.members)} | {c.cohesion:.2f} | {_cell(c.summary)} |" for c in outcome.clusters[:_SHOWN]]
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": len(outcome.clusters),
            "memories": outcome.memories,
            "members": sum(len(cluster.members) for cluster in outcome.clusters),
            "kept": outcome.kept,
            "founded": outcome.founded,
            "dissolved": outcome.dissolved,
            "written": outcome.written,
            "patterns": _table("| pattern | members | cohesion | summary |", rows, len(outcome.clusters)),
            "seconds": round(perf_counter() - started, 3),
        }
    )


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"lancedb"}, owners=["team:memory"], deps=[relevance_scores])
def archived_memories(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Quarterly: what no longer matters leaves recall, reversibly; deleted only if the settings say so, and kept in a file."""
    started = perf_counter()
    outcome = forget_cycle(memory.open(context.partition_key), datetime.now(UTC))
    rows = [
        f"| {_cell(found.title or found.content)} | {found.created_at:%Y-%m-%d} | {relevance:.3f} |"
        for found, relevance in outcome.archived[:_SHOWN]
    ]
    return dg.MaterializeResult(
        metadata={
            "scored": outcome.scored,
            "archived": len(outcome.archived),
            "deleted": len(outcome.deleted),
            "file": str(outcome.file or "none"),
            "archived_now": _table("| memory | created | relevance |", rows, len(outcome.archived)),
            "seconds": round(perf_counter() - started, 3),
        }
    )
