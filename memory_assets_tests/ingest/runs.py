"""Helpers of the ingestion tests: run an ingestion, count its changes, read its memories."""

from memory_assets.models import Memory, State
from memory_assets.operations.take_in import take_in as ingest
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.tenants import Tenant

__all__ = ["by_title", "changed", "ignore", "ingest"]


def ignore(_done: int, _total: int) -> None:
    return None


def changed(tenant: Tenant) -> int:
    """Ingest and return the number of memories that changed."""
    taken = ingest(tenant)
    return taken.added + taken.updated + taken.superseded + taken.vanished + taken.returned


def by_title(tenant: Tenant, state: State = State.ACTIVE) -> dict[str, Memory]:
    return {m.title: m for m in from_arrow(tenant.memories.scan(COLUMNS)) if m.state is state}
