"""Show the newest memories, the last changes, a session's start, and everything about one memory."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from memory_assets.display import counted, shortened
from memory_assets.errors import InvalidInputError, NotFoundError, StoreBusyError
from memory_assets.graph.relevance import Factors, explain
from memory_assets.language.times import format_local
from memory_assets.language.tokens import truncate_tokens
from memory_assets.learn.journal import Journal
from memory_assets.models import REVISES, Memory, State
from memory_assets.operations.answers import Answer, Instant, LocalTime, MemoryView, View, fit_lines, name_of
from memory_assets.operations.arguments import Narrowing, digits_of, find_memory, read_cursor, write_cursor
from memory_assets.operations.changes import guess_change, last_change
from memory_assets.operations.conflicts import find_pairs
from memory_assets.operations.fields import Cursor, Limit, given_as
from memory_assets.recall.view import find_outdated_of
from memory_assets.sources.dating import EARLIEST, LATEST
from memory_assets.sources.projects import Project
from memory_assets.stores.access_log import AccessLog
from memory_assets.stores.lance import timestamp
from memory_assets.tenants import Tenant

_MOST_VERSIONS = 100
_MOST_RECALLS = 20
INIT_LIMIT = 10
INIT_HOURS = 24
_MAX_HOURS = 720


class RecentMemories(Answer):
    """The newest memories, newest first."""

    memories: tuple[MemoryView, ...] = ()
    count: int = 0
    next_cursor: str | None = Field(default=None, description="Cursor of the next page; null on the last.")
    is_empty: bool = Field(default=False, exclude=True)
    """Whether the tenant has no memory at all."""

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        if not self.memories:
            if not self.is_empty:
                return "Nothing was remembered in that time."
            add, take_in = local.command("store TEXT"), local.command("run")
            return f"Nothing is remembered yet; {add} stores a text, {take_in} takes in Claude Code's memories."
        return fit_lines(lambda most: [memory.entry(local, "- ", most=most) for memory in self.memories], max_tokens)


class ChangeView(View):
    """A change of a memory, or an apply of `memory learn`."""

    at: Instant
    did: str
    """The change, such as `edit`, `forget` or `learn apply 3`."""
    memory_id: int | None = None
    name: str = ""
    """Name of the memory."""
    by: str = ""
    """User and machine of the apply."""
    deleted: tuple[str, ...] = ()
    """Silo files that an apply deleted."""

    def text(self, local: LocalTime) -> str:
        what = (
            f"{self.name} · id {self.memory_id}" if self.memory_id else f"{counted(len(self.deleted), 'file', 'files')} deleted"
        )
        by = f" by {self.by}" if self.by else ""
        return "\n".join(
            [f"- {format_local(self.at, local.zone)} · {self.did}{by}: {what}", *(f"    {path}" for path in self.deleted)]
        )


class RecentChanges(Answer):
    """The last changes, newest first."""

    changes: tuple[ChangeView, ...]
    count: int

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        if not self.changes:
            return "Nothing was changed in that time."
        return fit_lines(lambda _: [change.text(local) for change in self.changes], max_tokens)


class SessionStart(Answer):
    """The time, and the memories of the last day."""

    current_time: Instant
    recent_memories: tuple[MemoryView, ...]
    project: str = Field(default="", exclude=True)
    """Folder of the current project, if the memories are limited to it; not part of the JSON."""

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        begin = f"It is {format_local(self.current_time, local.zone)}."
        where = f" in {self.project}" if self.project else ""
        if not self.recent_memories:
            return f"{begin}\nNothing was remembered in the last {INIT_HOURS} hours{where}."
        heading = f"{begin}\n{counted(len(self.recent_memories))} of the last {INIT_HOURS} hours{where}:"
        return fit_lines(
            lambda most: [heading, *(memory.entry(local, "- ", most=most) for memory in self.recent_memories)], max_tokens
        )


def recent(
    tenant: Tenant,
    *,
    limit: Limit = 10,
    hours: Annotated[float | None, given_as(Annotated[float, Field(gt=0, le=_MAX_HOURS, allow_inf_nan=False)])] = None,
    narrowed: Narrowing | None = None,
    cursor: Cursor = None,
) -> RecentMemories:
    """List the newest memories, newest first.

    `hours` counts back from `narrowed.until`, or from now, and leaves out guessed times; `narrowed.since` overrides it. `cursor` is the
    previous page's `next_cursor`; repeat the other arguments with it.
    """
    _check_hours(hours)
    filters = (narrowed or Narrowing()).filters(tenant)
    if hours is not None and not filters.since:
        filters = replace(filters, since=(filters.until or datetime.now(UTC)) - timedelta(hours=hours), dated=True)
    if cursor:
        moment, ids = read_cursor(cursor)
        filters = replace(filters, after=(moment, max(ids, default=0)))
    memories = tenant.memories.recent(limit + 1, filters)
    page = memories[:limit]
    if not page:
        tenant.raise_if_gone()
    outdated = find_outdated_of(tenant, page)
    return RecentMemories(
        is_empty=not memories and not len(tenant.memories),
        memories=tuple(MemoryView.of(memory, outdated=outdated.get(memory.id, ())) for memory in page),
        count=len(page),
        next_cursor=write_cursor(page[-1].created_at, [page[-1].id]) if len(memories) > limit else None,
    )


def _check_hours(hours: float | None) -> None:
    if hours is not None and not 0 < hours <= _MAX_HOURS:  # NaN, too, is out of bounds
        raise InvalidInputError(f"hours is {hours:g}: give more than 0 and at most {_MAX_HOURS}, or a time (since).")


def recent_changes(
    tenant: Tenant, *, limit: int = 10, hours: float | None = None, narrowed: Narrowing | None = None
) -> RecentChanges:
    """List the last changes of memories and the applies of `memory learn`, with the silo files that they deleted and their author."""
    _check_hours(hours)
    filters = (narrowed or Narrowing()).filters(tenant)
    until = filters.until or LATEST
    since = filters.since or ((filters.until or datetime.now(UTC)) - timedelta(hours=hours) if hours else EARLIEST)
    where = replace(filters, since=None, until=None, states=()).sql()
    where += f" AND updated_at >= {timestamp(since)} AND updated_at <= {timestamp(until)}"
    applies = [each for each in _list_applies(tenant) if since <= each.at <= until]
    changed = [
        ChangeView(
            at=memory.updated_at, did=last_change(memory)[0] or guess_change(memory), memory_id=memory.id, name=name_of(memory)
        )
        for memory in tenant.memories.get(_ids_by_change(tenant, where)[:limit].to_pylist())
    ]
    newest = tuple(sorted([*applies, *changed], key=lambda each: each.at, reverse=True)[:limit])
    return RecentChanges(changes=newest, count=len(newest))


def _list_applies(tenant: Tenant) -> list[ChangeView]:
    journal = Journal(tenant.folder / "learn" / "applies")
    plans = ((plan, " (undone)" * journal.has(plan.number, "undone")) for plan in map(journal.plan, journal.numbers()))
    return [
        ChangeView(
            at=datetime.fromisoformat(plan.made_at),
            did=f"learn apply {plan.number}{undone}",
            by=plan.made_by,
            deleted=tuple(taken.path for taken in plan.taken),
        )
        for plan, undone in plans
    ]


def changed_since(tenant: Tenant, moment: datetime, *, limit: int = 10) -> RecentMemories:
    """List the active memories stored or changed after a time, the last change first; `count` counts all, beyond `limit` too."""
    found = _ids_by_change(tenant, f"state = '{State.ACTIVE}' AND updated_at > {timestamp(moment)}")
    memories = tenant.memories.get(found[:limit].to_pylist())
    return RecentMemories(memories=tuple(map(MemoryView.of, memories)), count=len(found))


def _ids_by_change(tenant: Tenant, where: str) -> pa.ChunkedArray:
    rows = tenant.memories.scan(("id", "updated_at"), where)
    return rows.sort_by([("updated_at", "descending"), ("id", "descending")])["id"]


def init(tenant: Tenant, here: Project | None = None) -> SessionStart:
    """Return the time and the memories of the last day, for the start of a session."""
    now = datetime.now(UTC)
    newest = recent(tenant, limit=INIT_LIMIT, hours=INIT_HOURS, narrowed=Narrowing(here=here)).memories
    return SessionStart(current_time=now, recent_memories=newest, project=here.folder if here else "")


class RelevanceView(Factors, View):
    """The five factors whose product is a memory's relevance; see `memory_assets.graph.relevance`."""

    def text(self, local: LocalTime) -> str:
        age = max(0.0, (self.computed_at - self.fresh_at).total_seconds() / 86_400)
        unread = max(0.0, (self.computed_at - self.accessed_at).total_seconds() / 86_400)
        factors = (
            ("decay", self.decay, f"{age:.0f} days since {local.day(self.fresh_at)}: {self.fresh_because}"),
            ("access", self.access, f"{self.accesses} recalls, last access {unread:.0f} days before"),
            ("density", self.density, f"joined to {self.edges} others"),
            ("importance", self.importance, f"0.5 + {self.importance - 0.5:.2f}"),
            ("confidence", self.confidence, f"0.7 + 0.3 x {(self.confidence - 0.7) / 0.3:.2f}"),
        )
        lines = [f"    {name:<12} {value:6.3f}  {why}" for name, value, why in factors]
        return "\n".join([f"{self.relevance:.3f} as of {local.day(self.computed_at)}, the product, at most 1, of", *lines])


_TOLD_OTHERWISE = frozenset(
    {"id", "title", "content", "active", "relevance", "created_at", "updated_at", "outdated", "is_graph_busy"}
)
"""Fields of a memory that are not listed below its text."""


class ShownMemory(MemoryView):
    """One memory in full."""

    relevance: RelevanceView | None
    contradicted_by: list[int] = Field(description="Memories that contradict it, until somebody decides.")
    is_graph_busy: bool = Field(default=False, description="Whether both are unknown because another process writes the graph.")

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        fields = {name: value for name, value in self.model_dump(mode="json").items() if name not in _TOLD_OTHERWISE}
        fields["entities"] = [f"{entity.text} ({entity.type})" for entity in self.entities]
        fields["metadata"] = [f"{key}={value}" for key, value in self.metadata.items()]
        fields |= {"created": self.age(local), "updated": local.age(self.updated_at)}
        shown = self._shorten_content(max_tokens)
        quoted = [(each, f'"{shortened(each.sentence, 60)}" ' if each.sentence else "") for each in self.outdated]
        outdated = [f"{sentence}{each.line(local.zone)}" for each, sentence in quoted if each.is_in(shown)]
        lines = [f"{self.title or self.kind} · id {self.id}", "", shown, *outdated, ""]
        for name, value in fields.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            if shown not in ("", None):
                lines.append(f"  {name:<14} {shown}")
        not_scored = f"not scored yet: {local.command('run')} does it" if self.active else "not scored: only active memories are"
        not_scored = "unknown: another process writes the graph; ask again" if self.is_graph_busy else not_scored
        lines.append(f"\n  {'relevance':<14} {self.relevance.text(local) if self.relevance else not_scored}")
        return "\n".join(lines)

    def _shorten_content(self, max_tokens: int | None) -> str:
        kept = self.content if max_tokens is None else truncate_tokens(self.content, max_tokens)
        left_out = len(self.content) - len(kept)
        return f"{kept}… ({left_out:,} more characters)" if left_out else kept


class ShownThing(Answer):
    """A person, project or other entity that memories name, or a pattern of memories."""

    id: int
    name: str
    type: str
    spellings: list[str]
    count: int = Field(description="Number of memories that name it or are part of it.")
    memories: tuple[MemoryView, ...] = Field(description="The newest of those memories.")

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        heading = f"{self.name} · {self.type} · named in {counted(self.count)} · id {self.id}"
        also = [f"also {', '.join(self.spellings)}"] if self.spellings else []
        return fit_lines(
            lambda most: [heading, *also, *(memory.entry(local, "- ", most=most) for memory in self.memories)], max_tokens
        )


_THING = """
    SELECT n.id, coalesce(n.label, '') AS name, coalesce(n.type, n.kind) AS type,
           list_distinct(list(a."text") FILTER (a."text" IS NOT NULL AND a."text" <> n.label)) AS spellings
    FROM graph_nodes n LEFT JOIN graph_aliases a ON a.entity_id = n.id
    WHERE n.kind <> 'memory' AND n.id = ? GROUP BY ALL
"""
_ITS_MEMORIES = """
    SELECT memory_id FROM graph_mentions WHERE entity_id = $1
    UNION SELECT source_id FROM graph_edges WHERE target_id = $1 AND type = 'PART_OF'
"""


def look_up(tenant: Tenant, reference: str) -> "ShownMemory | ShownThing":
    """Return the memory, entity or pattern that an id in a context stands for."""
    try:
        return show(tenant, reference)
    except NotFoundError:
        given = [int(digits_of(reference))]
        with tenant.catalog.interactive.read() as connection:
            thing = connection.execute(_THING, given).fetchone()
            ids = [row[0] for row in connection.execute(_ITS_MEMORIES, given).fetchall()]
        if thing is None:
            raise
        number, name, kind, spellings = thing
        found = sorted(tenant.memories.get(ids), key=lambda memory: memory.created_at, reverse=True)
        active = [memory for memory in found if memory.state is State.ACTIVE]
        newest = tuple(map(MemoryView.model_validate, active[:INIT_LIMIT]))
        return ShownThing(id=number, name=name, type=kind, spellings=sorted(spellings or ()), count=len(active), memories=newest)


def show(tenant: Tenant, reference: str | int) -> ShownMemory:
    """Show everything about one memory, in any state; without the parts from the graph while another process writes it."""
    memory = find_memory(tenant, reference)
    AccessLog(tenant.state).record([memory.id], datetime.now(UTC))
    try:
        factors = explain(tenant.catalog.interactive, memory.id)
        ends = {end for pair in find_pairs(tenant, memory.id) for end in pair[:2]}
    except StoreBusyError:
        return ShownMemory.of(memory, relevance=None, contradicted_by=[], is_graph_busy=True)
    relevance = RelevanceView.model_validate(factors) if factors else None
    outdated = find_outdated_of(tenant, [memory]).get(memory.id, ())
    return ShownMemory.of(memory, relevance=relevance, contradicted_by=sorted(ends - {memory.id}), outdated=outdated)


def recalls(tenant: Tenant, reference: str | int) -> list[tuple[datetime, str]]:
    """Return one memory's recalls of the last 30 days, newest first: time, and cli, http, mcp, page or empty if unknown."""
    return AccessLog(tenant.state).recalls_of(find_memory(tenant, reference).id)[:_MOST_RECALLS]


def history(tenant: Tenant, reference: str | int) -> list[Memory]:
    """Return all versions of a memory, oldest first: those that it replaced, itself, and those that replaced it."""
    first = find_memory(tenant, reference)
    known, wanted = {first.id: first}, [first]
    while wanted and len(known) < _MOST_VERSIONS:
        numbers = ", ".join(str(each.id) for each in wanted)
        older = tenant.memories.scan(("id",), f"superseded_by IN ({numbers})")["id"].to_pylist()
        linked = [number for each in wanted for number in (each.superseded_by, each.metadata.get(REVISES))]
        new = {number for number in (*older, *linked) if isinstance(number, int) and number not in known}
        wanted = tenant.memories.get(new) if new else []
        known |= {each.id: each for each in wanted}
    return sorted(known.values(), key=lambda each: (each.created_at, each.id))
