"""The source group: source files as of the last scan. `memory_assets.sources` parses them."""

from typing import Any

import dagster as dg

from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.run_requests import CHANGED_TAG, record_seen
from memory_assets.defs.tenant_assets import Page, external_asset, report_external, tenant_asset
from memory_assets.ingest.scans import refresh_source
from memory_assets.ingest.stamps import source_stamp
from memory_assets.models import Source
from memory_assets.sources.readers import source_paths

GROUP = "sources"

claude_code_silos = external_asset(
    "claude_code_silos", GROUP, "claude", "markdown", description="Claude Code's memory folders, one silo per project."
)
seed_json = external_asset("seed_json", GROUP, "json", description="The file that pai-seed writes.")
learning_homes = external_asset(
    "learning_homes", GROUP, "markdown", description="PAI's LEARNING store: four homes, ratings and reflections."
)
_PAGE = Page(
    ("files_read", "files_vanished"),
    "SELECT source, kind, count(*) AS items, max(created_at)::DATE AS newest FROM source_items GROUP BY ALL ORDER BY ALL",
)


@tenant_asset(GROUP, "markdown", "duckdb", writes="source_items", page=_PAGE, deps=[claude_code_silos])
def silo_files(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Every Claude Code memory file with its type, text and links, or the reason for its refusal."""
    return _materialize(context, memory, Source.CLAUDE_SILO, claude_code_silos)


@tenant_asset(GROUP, "json", "duckdb", writes="source_items", page=_PAGE, deps=[seed_json])
def seed_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The learnings and proposals of pai-seed's seed.json, entry by entry."""
    return _materialize(context, memory, Source.PAI_SEED, seed_json)


@tenant_asset(GROUP, "markdown", "duckdb", writes="source_items", page=_PAGE, deps=[learning_homes])
def learning_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """PAI's LEARNING store: the four canonical homes, ratings and reflections."""
    return _materialize(context, memory, Source.PAI_LEARNING, learning_homes)


def _materialize(
    context: dg.AssetExecutionContext, memory: MemoryResource, source: Source, external: dg.AssetSpec
) -> dict[str, Any]:
    """Scan a source. The digest of the files' content is also reported as the data version of the asset `external`."""
    tenant = memory.open_for(context)
    if tenant.is_sources_tenant:
        tenant.memories.prepare()
        record_seen(context, context.asset_key.to_user_string(), source_stamp(tenant, source))
    if CHANGED_TAG in context.run.tags:  # a sensor saw changes, so there will be texts to analyse
        memory.prepare_reader(tenant)
    outcome = refresh_source(tenant, source)
    if outcome.files_read:
        memory.prepare_reader(tenant)
    root = dg.PathMetadataValue(str(source_paths(tenant.settings)[source]))
    if tenant.is_sources_tenant:
        files = {"path": root, "files": outcome.files_read + outcome.files_unchanged}
        report_external(context, external, outcome.data_version, files)
    return {  # counts only: a refusal or its reason may quote a file
        "data_version": outcome.data_version,
        "dagster/partition_row_count": sum(outcome.items_by_kind.values()),
        "root": root,
        "files_read": outcome.files_read,
        "files_unchanged": outcome.files_unchanged,
        "files_vanished": outcome.files_vanished,
        "items_by_kind": dg.JsonMetadataValue(outcome.items_by_kind),
        "refused": len(outcome.refusals),
        "notes": len(outcome.notes),
        "shown_by": "memory status --refused",
    }
