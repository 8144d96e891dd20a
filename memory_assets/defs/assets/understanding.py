"""The understanding group: the text of each memory, and its features."""

from dataclasses import asdict
from typing import Any

import dagster as dg

from memory_assets.defs.assets.sources import learning_entries, seed_entries, silo_files
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.tenant_assets import Page, report_progress, tenant_asset
from memory_assets.ingest import features
from memory_assets.language.pipeline import RULES_VERSION

GROUP = "understanding"

_ENTRIES = Page(
    ("added", "changed", "removed"),
    "SELECT source, kind, count(*) AS entries, max(created_at)::DATE AS newest FROM memory_entries GROUP BY ALL ORDER BY ALL",
)
_FEATURES = Page(
    ("analysed", "failed"),
    """
    SELECT entity.type AS entity_type, count(*) AS found, count(DISTINCT content_hash) AS texts
    FROM (SELECT content_hash, unnest(entities) AS entity FROM extracted_features) GROUP BY ALL ORDER BY found DESC
    """,
)


@tenant_asset(GROUP, "duckdb", writes="memory_entries", page=_ENTRIES, deps=[silo_files, seed_entries, learning_entries])
def memory_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """The items of all sources in one form: text, kind, times, tags and provenance."""
    figures = asdict(features.refresh_entries(memory.open_for(context)))
    return {"dagster/partition_row_count": figures.pop("total"), **figures}


@tenant_asset(
    GROUP,
    "spacy",
    "duckdb",
    writes="extracted_features",
    rules=RULES_VERSION,
    page=_FEATURES,
    pool="models",
    deps=[memory_entries],
)
def extracted_features(context: dg.AssetExecutionContext, memory: MemoryResource) -> dict[str, Any]:
    """Entities, actions and automatic tags of every text, extracted once per text and pipeline."""
    tenant = memory.open_for(context)
    figures = asdict(
        features.extract_features(tenant, report_progress(context, "analysed {} of {} texts"), memory.reader(tenant))
    )
    return {"dagster/partition_row_count": figures.pop("total"), **figures}
