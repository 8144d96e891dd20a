"""What the tests of ingestion share: a run without Dagster, and what it left."""

from memory_assets.ingest.features import extract_features, refresh_entries
from memory_assets.ingest.memories import MemoriesOutcome, sync_memories
from memory_assets.ingest.scans import refresh_source
from memory_assets.models import Memory, Source, State
from memory_assets.stores.layout import read_moves
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant


def ignore(_done: int, _total: int) -> None:
    return None


def ingest(tenant: Tenant) -> MemoriesOutcome:
    for source in (Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING):
        refresh_source(tenant, source)
    moves = read_moves(tenant.folder)
    refresh_entries(tenant.catalog, moves)
    extract_features(tenant.catalog, tenant.analyzer, ignore)
    return sync_memories(tenant.catalog, tenant.memories, lambda: tenant.embedder, ignore, moves)


def by_title(tenant: Tenant, state: State = State.ACTIVE) -> dict[str, Memory]:
    return {m.title: m for m in from_arrow(tenant.memories.scan(COLUMNS)) if m.state is state}
