"""What is remembered at a glance: how much of what, since when, what is new, what faded, and what waits for a decision."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.models import State
from memory_assets.operations.answers import Answer, LocalTime, MemoryView, View, listed

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_COLUMNS = ("id", "state", "kind", "source", "project", "created_at", "updated_at")
_MOST = 8
"""Projects, people and memories that are named."""
_COUNTS = """
    SELECT 'state', state, count(*) FROM stored GROUP BY state
    UNION ALL SELECT 'kind', kind, count(*) FROM stored WHERE state = 'active' GROUP BY kind
    UNION ALL SELECT 'source', source, count(*) FROM stored WHERE state = 'active' GROUP BY source
    UNION ALL SELECT 'project', project, count(*) FROM stored WHERE state = 'active' AND project <> '' GROUP BY project
    UNION ALL SELECT 'month', strftime(created_at, '%Y-%m'), count(*) FROM stored WHERE state = 'active' GROUP BY ALL
    ORDER BY 1, 3 DESC, 2
"""
_NEW = """
    SELECT id, count(*) OVER () FROM stored WHERE state = 'active' AND updated_at > $1 ORDER BY updated_at DESC, id LIMIT $2
"""
_PEOPLE = """
    SELECT n.label, count(*) FROM graph_mentions m JOIN graph_nodes n ON n.id = m.entity_id
    WHERE n.type = 'PERSON' GROUP BY n.id, n.label ORDER BY 2 DESC, 1 LIMIT $1
"""


class CountView(View):
    """A name and how many memories it has."""

    name: str
    count: int


class Overview(Answer):
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
    conflicts: int = Field(description="Pairs of memories that contradict each other.")

    def text(self, local: LocalTime) -> str:
        counts = (("memories", self.states), ("kinds", self.kinds), ("sources", self.sources))
        lines = [f"{name:<10}{', '.join(f'{count:,} {key}' for key, count in found.items())}" for name, found in counts if found]
        named = (("projects", self.projects), ("people", self.people))
        lines += [f"{name:<10}{', '.join(f'{each.name} ({each.count:,})' for each in found)}" for name, found in named if found]
        lines.append(f"{'waiting':<10}{self.refused} refused, {self.proposals} proposals, {self.conflicts} conflicts")
        return listed(lines)


def overview(tenant: "Tenant", *, since: datetime | None = None) -> Overview:
    """Count what a tenant remembers; `since` is the time after which memories count as new."""
    from memory_assets.ingest.scans import refusals
    from memory_assets.learn.journal import Status, read_decisions
    from memory_assets.operations.conflicts import conflicts
    from memory_assets.stores.filters import Filters

    counts: dict[str, dict[str, int]] = {name: {} for name in ("state", "kind", "source", "project", "month")}
    people: list[tuple[str, int]] = []
    new: list[tuple[int, int]] = []
    catalog = tenant.catalog.interactive
    if tenant.exists:
        with catalog.read() as connection:
            connection.register("stored", tenant.memories.scan(_COLUMNS))
            for group, name, count in connection.execute(_COUNTS).fetchall():
                counts[group][name] = count
            new = connection.execute(_NEW, [since or datetime.now(UTC), _MOST]).fetchall()
            people = connection.execute(_PEOPLE, [_MOST]).fetchall()
    known = {memory.id: memory for memory in tenant.memories.get([number for number, _ in new])} if new else {}
    faded = tenant.memories.recent(_MOST, Filters(states=(State.ARCHIVED,))) if counts["state"].get(State.ARCHIVED) else ()
    decisions = read_decisions(tenant.folder / "learn")
    return Overview(
        tenant=tenant.name,
        states=counts["state"],
        kinds=counts["kind"],
        sources=counts["source"],
        projects=tuple(CountView(name=name, count=count) for name, count in list(counts["project"].items())[:_MOST]),
        people=tuple(CountView(name=name, count=count) for name, count in people),
        months=dict(sorted(counts["month"].items())),
        new=tuple(MemoryView.of(known[number]) for number, _ in new if number in known),
        new_count=new[0][1] if new else 0,
        faded=tuple(MemoryView.of(each) for each in faded),
        refused=sum(not each.passed_over for each in refusals(catalog)),
        proposals=sum(each.status is Status.PENDING for each in decisions.proposals),
        conflicts=conflicts(tenant).count if tenant.exists else 0,
    )
