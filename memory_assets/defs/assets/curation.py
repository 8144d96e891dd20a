"""The curation group: what waits in the silos, what was curated, and what is proposed. Nothing here applies: that is a person's."""

from time import perf_counter
from typing import TYPE_CHECKING

import dagster as dg

from memory_assets.defs.assets.sources import learning_entries, silo_files
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.reached import note_seen
from memory_assets.defs.resources import MemoryResource
from memory_assets.ingest.stamps import source_stamp
from memory_assets.models import Source
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.learn.desk import Desk

GROUP = "curation"


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"markdown"}, owners=["team:memory"], deps=[silo_files])
@told
def silo_backlog(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The memories in Claude Code's silos that were not curated yet, by type: what `memory learn` has before it."""
    from memory_assets.learn.backlog import count_backlog

    started = perf_counter()
    desk = _desk(memory.open(context.partition_key))
    if desk is None:
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": 0})
    note_seen(context, context.asset_key.to_user_string(), source_stamp(desk.tenant, Source.CLAUDE_SILO, desk.projects_dir))
    backlog = count_backlog(desk.silos(), desk.decisions())
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": backlog.memories,
            "nudge": f"{backlog}: `memory learn check` proposes, `memory learn apply` moves them.",
            "by_type": dg.JsonMetadataValue(backlog.by_type),
            "silos": backlog.silos,
            "rejected": backlog.rejected,
            "left_alone": backlog.left,
            "seconds": round(perf_counter() - started, 3),
        }
    )


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"markdown"}, owners=["team:memory"], deps=[learning_entries])
@told
def canonical_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The curated memories in PAI's four homes."""
    from memory_assets.sources.pai_learning import HOMES

    desk = _desk(memory.open(context.partition_key))
    if desk is None:
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": 0})
    homes = desk.homes()
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": len(homes.entries),
            **{home.lower(): len(homes.of(kind)) for home, kind in HOMES.items()},
            "refused": sum(not refusal.passed_over for refusal in homes.refusals),
        }
    )


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"markdown"},
    owners=["team:memory"],
    deps=[silo_backlog, canonical_entries],
)
@told
def proposals(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """What `memory learn check` proposes now, in `review.md` for a person to decide; no silo is touched."""
    from memory_assets.learn.proposals import Status

    started = perf_counter()
    desk = _desk(memory.open(context.partition_key))
    if desk is None:
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": 0})
    found = desk.check().checked.proposals
    return dg.MaterializeResult(
        metadata={
            "dagster/partition_row_count": len(found),
            **{status.lower(): sum(each.status is status for each in found) for status in Status},
            "review": dg.PathMetadataValue(str(desk.review_path)),
            "shown_by": "memory learn review",
            "seconds": round(perf_counter() - started, 3),
        }
    )


def _desk(tenant: Tenant) -> "Desk | None":
    """Where a tenant curates; None for one that the settings do not name, which has no files of its own."""
    from memory_assets.learn.desk import Desk

    return Desk(tenant) if tenant.is_sources_tenant else None
