"""The curation group: memories waiting in the silos, curated entries, and proposals. Only a person applies proposals."""

from typing import Any

import dagster as dg
from pydantic import Field

from memory_assets.defs.assets.sources import learning_entries, silo_files
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import record_seen
from memory_assets.defs.tenant_assets import tenant_asset
from memory_assets.ingest.scans import refresh_source
from memory_assets.ingest.stamps import source_stamp
from memory_assets.learn.memory_files import read_homes
from memory_assets.models import Source
from memory_assets.sources.pai_learning import HOMES

GROUP = "curation"
PROPOSING = {"ops": {"proposals": {"config": {"propose": True}}}}
"""Run configuration of the job `propose`, with which `proposals` proposes."""


@tenant_asset(GROUP, "markdown", is_of_sources=True, deps=[silo_files])
def silo_backlog(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The uncurated memories in Claude Code's silos, by type."""
    from memory_assets.learn.curation import Curation

    curation = Curation(memory.open_for(context))
    record_seen(context, context.asset_key.to_user_string(), source_stamp(curation.tenant, Source.CLAUDE_SILO))
    refresh_source(curation.tenant, Source.CLAUDE_SILO)
    backlog = curation.backlog()
    return {
        "dagster/partition_row_count": backlog.memories,
        "nudge": f"{backlog}: `memory learn check` proposes, `memory learn apply` moves them.",
        "by_type": dg.JsonMetadataValue(backlog.by_type),
        "silos": backlog.silos,
        "rejected": backlog.rejected,
        "left_alone": backlog.left,
    }


@tenant_asset(GROUP, "markdown", is_of_sources=True, deps=[learning_entries])
def canonical_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The curated memories in PAI's four homes."""
    tenant = memory.open_for(context)
    refresh_source(tenant, Source.PAI_LEARNING)
    homes = read_homes(tenant)
    return {
        "dagster/partition_row_count": len(homes.entries),
        **{home.lower(): homes.counts.get(kind, 0) for home, kind in HOMES.items()},
        "refused": sum(not refusal.passed_over for refusal in homes.left),
    }


class Proposing(dg.Config):
    """Whether the step proposes. A click on Materialize writes no file."""

    propose: bool = Field(
        default=False, description="Propose, and write `review.md`; otherwise the step counts earlier proposals."
    )


@tenant_asset(GROUP, "markdown", is_of_sources=True, deps=[silo_backlog, canonical_entries])
def proposals(context: dg.AssetExecutionContext, memory: MemoryResource, config: Proposing) -> dict[str, Any]:
    """The proposals of `memory learn check`, in `review.md` for a person to decide. The silos are not changed."""
    from memory_assets.learn.curation import Curation
    from memory_assets.learn.journal import Status

    curation = Curation(memory.open_for(context))
    found = curation.check().proposals if config.propose else curation.decisions().proposals
    return {
        "dagster/partition_row_count": len(found),
        **{status.lower(): sum(each.status is status for each in found) for status in Status},
        "review": dg.PathMetadataValue(str(curation.review_path)),
        "shown_by": "memory learn review",
    }
