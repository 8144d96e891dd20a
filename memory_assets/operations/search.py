"""Search memories by meaning, words and the graph. The first hits count as recalled."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from memory_assets.graph.outdated import on_day
from memory_assets.operations.answers import SHORTEST_PASSAGE, Answer, Instant, LocalTime, MemoryView, View, fit_lines
from memory_assets.operations.arguments import Narrowing, read_cursor, write_cursor
from memory_assets.operations.fields import MOST_SEEN, Bridges, Cursor, Limit, Query
from memory_assets.recall.bridges import Bridge
from memory_assets.recall.likelihood import Fit
from memory_assets.recall.search import Component, search_with_bridges
from memory_assets.recall.view import find_newest, find_outdated_of
from memory_assets.stores.access_log import AccessLog
from memory_assets.tenants import Tenant

_NAMED = 3
"""The text names at most so many of the memories that say the same; JSON has all."""
_FIRST = 2
"""The passage of a page's best hit is so many times as long as that of another, unless there is hardly room for any."""
_RECALLED = 3
"""So many hits of a page count as recalled; those further down were probably not used."""


class RepeatedView(View):
    """A memory that says the same as a hit."""

    id: int
    content: str
    created_at: Instant


class FoundMemory(MemoryView):
    """A memory that a search found, and why."""

    score: float = Field(description="Orders the list; it means nothing by itself.")
    fit: Fit | None = Field(default=None, description="How well it fits: sure, likely, or only near; null if unknown.")
    components: list[Component]
    same: list[RepeatedView] = Field(description="Further memories that say the same; the list itself leaves them out.")
    replaced_by: RepeatedView | None = Field(default=None, description="The memory of the list that replaces this one.")
    replaced_on: Instant | None = Field(
        default=None, description="Since when the replacement holds, else when it was created; null if guessed."
    )

    def repeated(self, local: LocalTime) -> str:
        named = [f"id {each.id} ({local.age(each.created_at)})" for each in self.same[:_NAMED]]
        more = f" and {len(self.same) - _NAMED} more" if len(self.same) > _NAMED else ""
        return f"   said also in {', '.join(named)}{more}"


class Found(Answer):
    """The memories that a search found, best first."""

    query: str
    project: str = Field(default="", description="Folder of the current project, if the search was limited to it.")
    memories: tuple[FoundMemory, ...] = ()
    count: int = 0
    bridges: tuple[Bridge, ...] = ()
    below_floor: bool = Field(default=False, description="Nothing fits the query; `all` shows the nearest memories.")
    next_cursor: str | None = Field(default=None, description="Cursor of the next page; null on the last.")

    def text(self, local: LocalTime, *, explain: bool = False, max_tokens: int | None = None) -> str:
        if not self.memories:
            where = f" in {self.project}; elsewhere was not looked" if self.project else ""
            if self.below_floor:
                return f"Nothing relevant to {self.query!r} is remembered{where}; --all (in a call: all) shows what is nearest."
            return (
                f"Nothing is remembered about {self.query!r}{where}." if self.query.strip() else f"Nothing is remembered{where}."
            )

        def entries(most: int) -> list[str]:
            lines = [] if self.query.strip() else ["The newest, because no words were given:"]
            for number, memory in enumerate(self.memories, start=1):
                score = f"score {memory.score:.2f}" if explain and memory.components else ""
                note = " · ".join(filter(None, (memory.fit, score)))
                newer = memory.replaced_by
                if newer:
                    note = f"{note}{' · ' * bool(note)}replaced by {newer.id}{on_day(memory.replaced_on, local.zone)}"
                repeated = [memory.repeated(local)] if memory.same else []
                parts = [_explain_component(part) for part in memory.components if explain]
                length = most * _FIRST if number == 1 and self.query.strip() and most > SHORTEST_PASSAGE else most
                lines.append("\n".join([memory.entry(local, f"{number}. ", self.query, note, length), *repeated, *parts]))
            if self.bridges:
                lines.append("\n".join(["", "Bridges", *(bridge.text() for bridge in self.bridges)]))
            return lines

        return fit_lines(entries, max_tokens)


def _explain_component(part: Component) -> str:
    raw = "       -" if part.raw is None else f"{part.raw:8.3f}"
    reason = f"  ({part.reason})" if part.reason else ""
    return f"     {part.name:<10} {raw} scaled to {part.value:.2f} x {part.weight:.2f} = {part.contribution:.3f}{reason}"


def search(
    tenant: Tenant,
    query: Query = "",
    *,
    limit: Limit = 10,
    narrowed: Narrowing | None = None,
    bridges: Bridges = 0,
    cursor: Cursor = None,
    everything: Annotated[bool, Field(alias="all", description="Show the nearest, even if nothing fits.")] = False,
    recalls: bool = True,
) -> Found:
    """Search memories by meaning, words and the graph; an empty query finds the newest.

    `bridges` limits the paths that explain the first page. `cursor` is the previous page's `next_cursor`; repeat the other arguments
    with it. Later pages leave out memories stored since the first, unless some are dated ahead. With `everything`, a query that nothing
    fits returns the nearest memories. Without `recalls` no hit counts as recalled, as while a user is still typing.
    """
    narrowed = narrowed or Narrowing()
    project = narrowed.here.folder if narrowed.here else ""
    if not tenant.exists:
        return Found(query=query, project=project)
    now = datetime.now(UTC)
    asked_at, shown = read_cursor(cursor) if cursor else (now, [])
    filters = narrowed.filters(tenant)
    if cursor:
        filters = replace(filters, until=min(asked_at, filters.until) if filters.until else asked_at)
    known = set(shown)
    wanted = len(known) + limit + 1
    found = search_with_bridges(
        tenant, query, limit=wanted, filters=filters, bridges=0 if cursor else bridges, floor=not everything
    )
    new = [hit for hit in found.hits if hit.memory.id not in known]
    page = new[:limit]
    if not page:
        tenant.raise_if_gone()
    outdated = find_outdated_of(tenant, [hit.memory for hit in page])
    if recalls and query.strip():
        AccessLog(tenant.state).record([hit.memory.id for hit in page[:_RECALLED]], now)
    shown += [hit.memory.id for hit in page]
    more = len(new) > len(page) and len(shown) < MOST_SEEN
    if more and not cursor:  # memories that are dated ahead are on later pages, too
        newest = find_newest(tenant, narrowed.states) if query.strip() else page[0].memory.created_at
        asked_at = max(now, newest + timedelta(microseconds=1))
    return Found(
        query=query,
        project=project,
        memories=tuple(
            FoundMemory.of(
                hit.memory,
                score=hit.score,
                fit=hit.fit,
                components=list(hit.components),
                same=hit.same,
                replaced_by=hit.replaced_by,
                replaced_on=hit.replaced_on,
                outdated=outdated.get(hit.memory.id, ()),
            )
            for hit in page
        ),
        count=len(page),
        bridges=tuple(found.bridges),
        below_floor=found.below_floor and not everything,
        next_cursor=write_cursor(asked_at, shown) if more else None,
    )
