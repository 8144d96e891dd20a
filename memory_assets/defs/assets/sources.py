"""The source group: what others write, as of the last scan. Parsing belongs to `memory_assets.sources`."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import dagster as dg

from memory_assets.defs.failures import told
from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.reached import note_seen
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.settled import unless_settled
from memory_assets.ingest.stamps import source_stamp
from memory_assets.models import FileStamp, Scan, Source

if TYPE_CHECKING:
    from memory_assets.ingest.scans import ScanOutcome

GROUP = "sources"


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"markdown", "duckdb"},
    owners=["team:memory"],
)
@told
@unless_settled
def silo_files(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Every Claude Code memory file: its type, text and links, or why it is refused."""
    from memory_assets.sources import claude_silos

    settings = memory.settings()
    return _materialize(context, memory, Source.CLAUDE_SILO, settings.claude_projects_dir, claude_silos.scan)


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"json", "duckdb"}, owners=["team:memory"])
@told
@unless_settled
def seed_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The learnings and proposals of pai-seed's seed.json, entry by entry."""
    from memory_assets.sources import pai_seed

    return _materialize(context, memory, Source.PAI_SEED, memory.settings().pai_seed, pai_seed.scan)


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"markdown", "duckdb"}, owners=["team:memory"])
@told
@unless_settled
def learning_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """PAI's LEARNING store: the four canonical homes, ratings and reflections."""
    from memory_assets.sources import pai_learning

    return _materialize(context, memory, Source.PAI_LEARNING, memory.settings().pai_learning_dir, pai_learning.scan)


def _materialize(
    context: dg.AssetExecutionContext, memory: MemoryResource, source: Source, root: Path, scan: Callable[..., Scan]
) -> dg.MaterializeResult:
    """Scan a source for the tenant that the settings name; other tenants have no files of their own."""
    from memory_assets.ingest.scans import known_stamps, record_scan

    started = perf_counter()
    tenant = memory.open(context.partition_key)
    known: dict[str, FileStamp] = known_stamps(tenant.catalog, source)
    if tenant.is_sources_tenant:
        note_seen(context, context.asset_key.to_user_string(), source_stamp(tenant, source, root))
        limit = tenant.settings.source_max_bytes
        found = scan(root, known, max_bytes=limit) if limit else scan(root, known)
    else:
        found = Scan(source, "", notes=(f"The files belong to the tenant {tenant.settings.tenant!r}.",))
    outcome = record_scan(tenant.catalog, found, known, tenant.settings.secrets)
    return dg.MaterializeResult(data_version=dg.DataVersion(outcome.data_version), metadata=_metadata(outcome, root, started))


def _metadata(outcome: "ScanOutcome", root: Path, started: float) -> dict[str, dg.MetadataValue]:
    """Counts alone: what is refused, and why, may quote a file."""
    return {
        "dagster/partition_row_count": dg.IntMetadataValue(sum(outcome.items_by_kind.values())),
        "root": dg.PathMetadataValue(str(root)),
        "files_read": dg.IntMetadataValue(outcome.files_read),
        "files_unchanged": dg.IntMetadataValue(outcome.files_unchanged),
        "files_vanished": dg.IntMetadataValue(outcome.files_vanished),
        "items_by_kind": dg.JsonMetadataValue(outcome.items_by_kind),
        "refused": dg.IntMetadataValue(len(outcome.refusals)),
        "notes": dg.IntMetadataValue(len(outcome.notes)),
        "shown_by": dg.TextMetadataValue("memory status --refused"),
        "seconds": dg.FloatMetadataValue(round(perf_counter() - started, 3)),
    }
