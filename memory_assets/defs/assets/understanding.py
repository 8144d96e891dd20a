"""The understanding group: one text per memory-to-be, and what the language room finds in it."""

from time import perf_counter

import dagster as dg

from memory_assets.defs.assets.sources import learning_entries, seed_entries, silo_files
from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.settled import unless_settled

GROUP = "understanding"


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"duckdb"},
    owners=["team:memory"],
    deps=[silo_files, seed_entries, learning_entries],
)
@told
@unless_settled
def memory_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Everything from the sources that is to be remembered, in one shape: one text, its kind, times, tags and provenance."""
    from memory_assets.ingest.entries import refresh_entries
    from memory_assets.stores.moves import read_moves

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    outcome = refresh_entries(tenant.catalog, read_moves(tenant.folder))
    return dg.MaterializeResult(
        data_version=dg.DataVersion(outcome.data_version),
        metadata={
            "dagster/partition_row_count": outcome.total,
            "added": outcome.added,
            "changed": outcome.changed,
            "removed": outcome.removed,
            "seconds": round(perf_counter() - started, 3),
        },
    )


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"spacy", "duckdb"},
    owners=["team:memory"],
    deps=[memory_entries],
)
@told
@unless_settled
def extracted_features(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Entities, actions and auto-tags of every text, extracted once per text and pipeline."""
    from memory_assets.ingest.features import extract_features

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    outcome = extract_features(
        tenant.catalog,
        tenant.analyzer,
        lambda done, total: context.log.info(f"analysed {done} of {total} texts"),
        lambda texts: memory.embed_ahead(tenant, texts),
        memory.reader(tenant),
    )
    seconds = perf_counter() - started
    return dg.MaterializeResult(
        data_version=dg.DataVersion(outcome.data_version),
        metadata={
            "dagster/partition_row_count": outcome.total,
            "analysed": outcome.analysed,
            "failed": outcome.failed,
            "pipeline": outcome.pipeline,
            "seconds": round(seconds, 3),
            "texts_per_second": round(outcome.analysed / seconds, 1),
        },
    )
