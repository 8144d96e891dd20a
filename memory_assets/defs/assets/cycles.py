"""The sleep group: the scheduled consolidation cycles. The daily cycle is `relevance_scores` of the graph group.

Metadata holds counts and ids, and names the command that shows the texts.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from memory_assets.defs.assets.graph import relevance_scores
from memory_assets.defs.partitions import TENANTS, accepted_previews
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import Page, due_within, read_rows, tenant_asset
from memory_assets.models import Memory

GROUP = "sleep"
ARCHIVING = {"ops": {"archived_memories": {"config": {"archive": True}}}}
"""Run configuration of the quarterly schedule, with which `archived_memories` archives."""
_MAX_SHOWN = 30

_LINKS = Page(
    ("links_found",),
    "SELECT week, type, count(*) AS links, round(avg(similarity), 2) AS similarity FROM creative_links GROUP BY ALL ORDER BY ALL",
    is_result=True,
)
_ARCHIVED = Page(("archived", "deleted"), is_result=True)
_CLUSTERS = Page(
    ("written", "founded", "dissolved"),
    "SELECT id, size, round(cohesion, 2) AS cohesion, first_seen::DATE AS since FROM clusters ORDER BY size DESC LIMIT 20",
    is_result=True,
)


@tenant_asset(
    GROUP, "lancedb", "duckdb", writes="creative_links", page=_LINKS, deps=[relevance_scores], freshness_policy=due_within(8, 15)
)
def creative_links(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Weekly: new edges between similar memories that no edge connects."""
    from memory_assets.graph.creative import find_links

    tenant = memory.open_for(context)
    outcome = find_links(tenant, datetime.now(UTC))
    return {
        "dagster/partition_row_count": read_rows(tenant, "SELECT count(*) AS links FROM creative_links")[0]["links"],
        "week": outcome.week,
        "sampled": outcome.sampled,
        "alike": outcome.compared,
        "links_found": len(outcome.links),
        "shown_by": "memory show ID",
    }


@tenant_asset(
    GROUP,
    "scikitlearn",
    "duckdb",
    writes="clusters",
    page=_CLUSTERS,
    deps=[relevance_scores],
    freshness_policy=due_within(33, 64),
)
def clusters(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Monthly: dense groups of memories as MetaPatterns, each with a summary; members are PART_OF them."""
    from memory_assets.graph.clusters import find_clusters

    tenant = memory.open_for(context)
    outcome = find_clusters(tenant, datetime.now(UTC))
    return {
        "dagster/partition_row_count": len(outcome.clusters),
        "memories": outcome.memories,
        "members": sum(len(cluster.members) for cluster in outcome.clusters),
        "kept": outcome.kept,
        "founded": outcome.founded,
        "dissolved": outcome.dissolved,
        "written": outcome.written,
        "sizes": dg.JsonMetadataValue([len(each.members) for each in outcome.clusters[:_MAX_SHOWN]]),
        "shown_by": "memory consolidate cluster --dry-run",
    }


def _list_archived(archived: Sequence[tuple[Memory, float]]) -> dg.MetadataValue:
    columns = ("id", "kind", "said", "relevance")
    rows = [
        (str(each.id), each.kind.value, f"{each.created_at:%Y-%m-%d}", round(score, 4)) for each, score in archived[:_MAX_SHOWN]
    ]
    records = [dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(list(map(dg.TableColumn, columns))))


class Forgetting(dg.Config):
    """Whether the cycle archives. A click on Materialize only shows which memories would leave recall."""

    archive: bool = Field(default=False, description="Archive them; otherwise the step only shows which would leave recall.")


with accepted_previews():
    few_leave_at_once = dg.AssetCheckSpec(
        "few_leave_recall_at_once",
        asset="archived_memories",
        description="No more than MEMORY_FORGET_AT_MOST of the active memories would leave recall; otherwise none does.",
        partitions_def=TENANTS,
    )


@tenant_asset(
    GROUP,
    "lancedb",
    page=_ARCHIVED,
    deps=[relevance_scores],
    freshness_policy=due_within(95, 190),
    check_specs=[few_leave_at_once],
)
def archived_memories(context: dg.AssetExecutionContext, memory: MemoryResource, config: Forgetting) -> dg.MaterializeResult:
    """Quarterly: memories of low relevance are archived, reversibly. If the settings say so, some are deleted and kept in a file.

    The step archives if its schedule runs it, or with `archive: true` in the run configuration; otherwise it is a dry run.
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
            f"{verb}archived_because": _list_archived(outcome.archived),
            "file": str(outcome.file or "none"),
            "shown_by": "memory search '' --archived" if acted else "memory consolidate forget --dry-run",
        },
        check_results=[
            dg.AssetCheckResult(
                passed=not outcome.held_back,
                severity=dg.AssetCheckSeverity.WARN,
                description="Check with `memory consolidate forget --dry-run`, then confirm with --yes."
                if outcome.held_back
                else "",
                metadata={"active": outcome.active},
            )
        ],
    )
