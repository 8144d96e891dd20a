"""The newest memories, and what a session begins with."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.language.times import format_local
from memory_assets.operations import cursors
from memory_assets.operations.answers import Answer, Instant, LocalTime, MemoryView, counted, listed_within
from memory_assets.operations.given import Narrowing

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

_NOTHING_YET = "Nothing is remembered yet; `memory store TEXT` keeps a text, `memory run` takes in what Claude Code wrote down."
INIT_LIMIT = 10
INIT_HOURS = 24


class RecentMemories(Answer):
    """The newest memories, newest first."""

    memories: tuple[MemoryView, ...] = ()
    count: int = 0
    next_cursor: str | None = Field(default=None, description="Asks for the next page; null on the last.")
    is_empty: bool = Field(default=False, exclude=True)
    """Whether the tenant remembers nothing at all."""

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        if not self.memories:
            return _NOTHING_YET if self.is_empty else "Nothing was remembered in that time."
        return listed_within(lambda most: [memory.entry(local, "- ", most=most) for memory in self.memories], max_tokens)


class SessionStart(Answer):
    """The time, and what was remembered in the last day."""

    current_time: Instant
    recent_memories: tuple[MemoryView, ...]
    project: str = Field(default="", exclude=True)
    """Folder of the project at hand, if the memories are of it alone; not part of the JSON."""

    def text(self, local: LocalTime, *, max_tokens: int | None = None) -> str:
        begin = f"It is {format_local(self.current_time, local.zone)}."
        where = f" in {self.project}" if self.project else ""
        if not self.recent_memories:
            return f"{begin}\nNothing was remembered in the last {INIT_HOURS} hours{where}."
        heading = f"{begin}\n{counted(len(self.recent_memories))} of the last {INIT_HOURS} hours{where}:"
        return listed_within(
            lambda most: [heading, *(memory.entry(local, "- ", most=most) for memory in self.recent_memories)], max_tokens
        )


def recent(
    tenant: "Tenant",
    *,
    limit: int = 10,
    hours: float | None = None,
    narrowed: Narrowing | None = None,
    cursor: str | None = None,
) -> RecentMemories:
    """The newest memories by the time they are of.

    `hours` counts back from `narrowed.until`, or from now, and leaves out guessed times; `narrowed.since` goes before it. `cursor` is
    `next_cursor` of the page before, with otherwise the same arguments.

    Raises:
        StoreError: the store cannot be read.
    """
    if not tenant.exists:
        return RecentMemories(is_empty=True)
    filters = (narrowed or Narrowing()).filters(tenant)
    if hours is not None and not filters.since:
        filters = replace(filters, since=(filters.until or datetime.now(UTC)) - timedelta(hours=hours), dated=True)
    if cursor:
        filters = replace(filters, after=cursors.read_place(cursor))
    memories = tenant.memories.recent(limit + 1, filters)
    page = memories[:limit]
    return RecentMemories(
        is_empty=not memories and not len(tenant.memories),
        memories=tuple(MemoryView.model_validate(memory) for memory in page),
        count=len(page),
        next_cursor=cursors.place(page[-1].created_at, page[-1].id) if len(memories) > limit else None,
    )


def init(tenant: "Tenant", here: "Project | None" = None) -> SessionStart:
    """Begin a session, in the project `here` or anywhere.

    Raises:
        StoreError: the store cannot be read.
    """
    now = datetime.now(UTC)
    newest = recent(tenant, limit=INIT_LIMIT, hours=INIT_HOURS, narrowed=Narrowing(here=here)).memories
    return SessionStart(current_time=now, recent_memories=newest, project=here.folder if here else "")
