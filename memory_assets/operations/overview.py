"""What is remembered at a glance: how much of what, since when, what is new, what faded, and what waits for a decision."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from memory_assets.ingest.scans import refusals_of
from memory_assets.learn.journal import Status, read_decisions
from memory_assets.models import State
from memory_assets.operations.answers import MemoryView, View
from memory_assets.operations.conflicts import conflicts
from memory_assets.stores.filters import Filters
from memory_assets.stores.lance import timestamp
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant

_COUNTED = ("state", "kind", "source", "project")
_MOST = 8
"""Projects, people and memories that are named."""
_MOST_NAMED = 1_000
"""Names among which the people are looked for: those that most memories mention."""
_PEOPLE = """
    SELECT n.label, m.mentions FROM (
        SELECT entity_id, count(*) AS mentions FROM graph_mentions GROUP BY ALL ORDER BY mentions DESC LIMIT $most_named
    ) m JOIN graph_nodes n ON n.id = m.entity_id
    WHERE n.type = 'PERSON' ORDER BY m.mentions DESC, n.label LIMIT $most
"""
_CONTRADICTIONS = "SELECT count(*) FROM graph_edges WHERE type = 'CONTRADICTS'"


class CountView(View):
    """A name and how many memories it has."""

    name: str
    count: int


class Overview(View):
    """What one tenant remembers."""

    tenant: str
    states: dict[str, int]
    kinds: dict[str, int] = Field(description="Of active memories, as the counts below.")
    sources: dict[str, int]
    projects: tuple[CountView, ...] = Field(description="Those with most memories.")
    people: tuple[CountView, ...] = Field(description="Those whom most memories mention.")
    months: dict[str, int] = Field(description="Year and month -> memories created in it.")
    new: tuple[MemoryView, ...] = Field(description="Stored or changed since the given time, newest first.")
    new_count: int
    faded: tuple[MemoryView, ...] = Field(description="Archived memories, newest first.")
    refused: int = Field(description="Source files, or parts of them, that were not taken in.")
    proposals: int = Field(description="Proposals of `memory learn` that wait for a decision.")
    syncs: int = Field(description="Changes that wait for Tana.")
    conflicts: int = Field(description="Pairs of memories that contradict each other.")


def overview(tenant: Tenant, *, since: datetime | None = None) -> Overview:
    """Count what a tenant remembers; `since` is the time after which memories count as new."""
    counts: dict[str, dict[str, int]] = {name: {} for name in (*_COUNTED, "created_at")}
    people: list[tuple[str, int]] = []
    new: list[int] = []
    contradictions = refused = 0
    if tenant.exists:
        rows = tenant.memories.scan((*_COUNTED, "created_at"))
        counts["state"] = _counted(rows["state"])
        active = rows.filter(pc.call_function("equal", [rows["state"], pa.scalar(State.ACTIVE.value)]))
        counts |= {name: _counted(active[name]) for name in _COUNTED if name != "state"}
        counts["created_at"] = _counted(
            pc.call_function("floor_temporal", [active["created_at"]], pc.RoundTemporalOptions(unit="month"))
        )
        if since:
            where = f"state = '{State.ACTIVE}' AND updated_at > {timestamp(since)}"
            new = tenant.memories.scan(("id", "updated_at"), where).sort_by([("updated_at", "descending")])["id"].to_pylist()
        with tenant.catalog.interactive.read() as connection:
            people = connection.execute(_PEOPLE, {"most_named": _MOST_NAMED, "most": _MOST}).fetchall()
            (contradictions,) = connection.execute(_CONTRADICTIONS).fetchone() or (0,)
            refused = sum(not each.passed_over for each in refusals_of(connection))
    known = {memory.id: memory for memory in tenant.memories.get(new[:_MOST])} if new else {}
    faded = tenant.memories.recent(_MOST, Filters(states=(State.ARCHIVED,))) if counts["state"].get(State.ARCHIVED) else ()
    decisions = read_decisions(tenant.folder / "learn")
    return Overview(
        tenant=tenant.name,
        states=counts["state"],
        kinds=counts["kind"],
        sources=counts["source"],
        projects=tuple(CountView(name=name, count=count) for name, count in counts["project"].items() if name)[:_MOST],
        people=tuple(CountView(name=name, count=count) for name, count in people),
        months={month[:7]: count for month, count in sorted(counts["created_at"].items())},
        new=tuple(MemoryView.of(known[number]) for number in new[:_MOST] if number in known),
        new_count=len(new),
        faded=tuple(MemoryView.of(each) for each in faded),
        refused=refused,
        proposals=sum(each.status is Status.PENDING for each in decisions.proposals),
        syncs=len(SyncRecord.load(tenant.folder).queue),
        conflicts=conflicts(tenant).count if contradictions else 0,
    )


def _counted(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value stands in a column, the most frequent first."""
    found = sorted(column.value_counts().to_pylist(), key=lambda each: (-each["counts"], str(each["values"])))
    return {str(each["values"]): each["counts"] for each in found}
