"""The source group: what others write, as of the last scan. Parsing belongs to `memory_assets.sources`."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import dagster as dg

from memory_assets.defs.partitions import TENANTS
from memory_assets.defs.resources import MemoryResource
from memory_assets.ingest.scans import ScanOutcome, known_stamps, record_scan
from memory_assets.models import FileStamp, Scan, Source
from memory_assets.sources import claude_silos, pai_learning, pai_seed
from memory_assets.tenants import Tenant

GROUP = "sources"
_PREVIEW_ROWS = 20


@dg.asset(
    partitions_def=TENANTS,
    group_name=GROUP,
    kinds={"markdown", "duckdb"},
    owners=["team:memory"],
)
def silo_files(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """Every Claude Code memory file: its type, text and links, or why it is refused."""
    tenant = memory.open(context.partition_key)
    return _materialize(tenant, Source.CLAUDE_SILO, tenant.settings.claude_projects_dir, claude_silos.scan)


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"json", "duckdb"}, owners=["team:memory"])
def seed_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """The learnings and proposals of pai-seed's seed.json, entry by entry."""
    tenant = memory.open(context.partition_key)
    return _materialize(tenant, Source.PAI_SEED, tenant.settings.pai_seed, pai_seed.scan)


@dg.asset(partitions_def=TENANTS, group_name=GROUP, kinds={"markdown", "duckdb"}, owners=["team:memory"])
def learning_entries(context: dg.AssetExecutionContext, memory: MemoryResource) -> dg.MaterializeResult:
    """PAI's LEARNING store: the four canonical homes, ratings and reflections."""
    tenant = memory.open(context.partition_key)
    return _materialize(tenant, Source.PAI_LEARNING, tenant.settings.pai_learning_dir, pai_learning.scan)


def _materialize(tenant: Tenant, source: Source, root: Path, scan: Callable[..., Scan]) -> dg.MaterializeResult:
    """Scan a source for the tenant that the settings name; other tenants have no files of their own."""
    started = perf_counter()
    known: dict[str, FileStamp] = known_stamps(tenant.catalog, source)
    if tenant.name == tenant.settings.tenant:
        limit = tenant.settings.source_max_bytes
        found = scan(root, known, max_bytes=limit) if limit else scan(root, known)
    else:
        found = Scan(source, "", notes=(f"The files belong to the tenant {tenant.settings.tenant!r}.",))
    outcome = record_scan(tenant.catalog, found, known, tenant.settings.secrets)
    return dg.MaterializeResult(data_version=dg.DataVersion(outcome.data_version), metadata=_metadata(outcome, root, started))


def _metadata(outcome: ScanOutcome, root: Path, started: float) -> dict[str, dg.MetadataValue]:
    return {
        "dagster/partition_row_count": dg.IntMetadataValue(sum(outcome.items_by_kind.values())),
        "root": dg.PathMetadataValue(str(root)),
        "files_read": dg.IntMetadataValue(outcome.files_read),
        "files_unchanged": dg.IntMetadataValue(outcome.files_unchanged),
        "files_vanished": dg.IntMetadataValue(outcome.files_vanished),
        "items_by_kind": dg.JsonMetadataValue(outcome.items_by_kind),
        "refused": dg.IntMetadataValue(len(outcome.refusals)),
        "refused_by_reason": dg.JsonMetadataValue(dict(Counter(refusal.reason for refusal in outcome.refusals))),
        "refusals": dg.MarkdownMetadataValue(_refusal_table(outcome)),
        "notes": dg.TextMetadataValue(" ".join(outcome.notes) or "none"),
        "seconds": dg.FloatMetadataValue(round(perf_counter() - started, 3)),
    }


def _refusal_table(outcome: ScanOutcome) -> str:
    if not outcome.refusals:
        return "none"
    rows = [
        f"| `{refusal.path}` | {refusal.location} | {refusal.reason} | {refusal.mend} |"
        for refusal in outcome.refusals[:_PREVIEW_ROWS]
    ]
    more = len(outcome.refusals) - _PREVIEW_ROWS
    return "\n".join(
        ["| file | where | reason | mend |", "|---|---|---|---|", *rows, *([f"and {more} more"] if more > 0 else [])]
    )
