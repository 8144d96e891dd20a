"""The memory group: the LanceDB tables, written from source files and by the faces."""

from dataclasses import asdict
from typing import Any

import dagster as dg
from pydantic import Field

from memory_assets.defs.assets.understanding import extracted_features
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import Page, external_asset, report_progress, schema_version, table_metadata, tenant_asset
from memory_assets.ingest.backfill import catch_up, reanalyse, reembed
from memory_assets.ingest.memories import sync_memories

GROUP = "memory"
_MAX_REPEATS = 3
"""Repeated comparisons of the entries with the table, until one finds the table unchanged."""

stored_memories = external_asset(
    "stored_memories",
    GROUP,
    "lancedb",
    partitions_def=TENANTS,
    metadata=table_metadata("memories"),
    code_version=schema_version("memories"),
    description=(
        "Memories that people and agents stored over CLI, HTTP and MCP, outside of Dagster. A sensor notices "
        "them, and a run that builds the graph reports them."
    ),
)
_PAGE = Page(("added", "updated", "superseded", "vanished", "returned", "embedded_anew"), is_result=True)

MOVING = {"ops": {"memories": {"config": {"move": True}}}}
"""Run configuration with which `memories` moves to the models of the settings."""

_MOVE = (
    "Embed and analyse again memories made by other models than the settings'. Searches use the old vectors until all are done."
)


class Moving(dg.Config):
    """Whether memories move to the models of the settings."""

    move: bool = Field(default=False, description=_MOVE)


@tenant_asset(GROUP, "lancedb", writes="memories", page=_PAGE, pool="models", deps=[extracted_features])
def memories(context: dg.AssetExecutionContext, memory: MemoryResource, config: Moving) -> dict[str, Any]:
    """The `memories` table: embedded entries. A changed entry supersedes its old version; a vanished one leaves recall until it returns.

    If the settings choose a better embedder than the one in use, all memories move to it first. If hosts share the memories, only the job
    `move_models` moves them.
    """
    tenant = memory.open_for(context)
    embedded = report_progress(context, "embedded {} of {} memories")
    embedded_anew = catch_up(tenant, embedded)
    if config.move and tenant.memories.exists:
        reanalyse(tenant.memories, tenant.analyzer, report_progress(context, "analysed {} of {} memories"))
        embedded_anew += reembed(tenant.memories, tenant.open_embedder(tenant.settings.embedder), embedded)
    compared = tenant.memories.version
    outcome = sync_memories(tenant, embedded)
    for _ in range(_MAX_REPEATS):
        if tenant.memories.version == compared:
            break
        compared = tenant.memories.version
        sync_memories(tenant, embedded)
    return {
        "data_version": compared,
        "dagster/partition_row_count": len(tenant.memories),
        **asdict(outcome),
        "lance_version": compared,
        "embedder": tenant.memories.columns.embedder or "none yet",
        "embedded_anew": embedded_anew,
        "shown_by": "memory recent",
    }
