"""Read what a user gives: the id of a memory, filters, times as typed, and the cursor of a page.

A cursor is text that a client returns unread. In order of time it holds the last memory's time and id. A ranking has no such order,
because scores depend on the other hits. Its cursor holds the ids already shown, so that no page repeats one, and the time of the first
page, so that later memories do not enter.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from memory_assets.errors import ChangedMeanwhileError, InvalidInputError, NotFoundError
from memory_assets.models import Entity, Kind, Memory, Source, State
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.stores.filters import Filters

PLACE_CURSOR = r"^[0-9a-f]{32}$"
SEEN_CURSOR = r"^[0-9a-f]{16}([0-9a-f]{14})*$"
MOST_SEEN = 500
"""Memories that a client may page through with one question."""
SEEN_CURSOR_LENGTH = 16 + 14 * MOST_SEEN
EARLIEST, LATEST = datetime(1700, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""What the stores can compare; times beyond are taken as these, which no memory lies beyond."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST = (LATEST - _EPOCH) // _MICROSECOND
_OFFSET = 1 << 60
"""Added to times so that those before 1970 have no sign."""


def find_memory(tenant: Tenant, reference: str | int, seen: datetime | None = None) -> Memory:
    """The memory of an id, or, where `reference` is text, of the first digits of one.

    `seen` is the `updated_at` that somebody looked at: ChangedMeanwhileError if the memory has another one now.
    """
    found = [tenant.memories.resolve(reference)] if isinstance(reference, str) else tenant.memories.get([reference])
    for memory in found:
        if seen and memory.updated_at != seen:
            raise ChangedMeanwhileError(
                f"The memory {memory.id} was changed since you looked at it; look again (show {memory.id})."
            )
        return memory
    raise NotFoundError(f"There is no memory {reference}; `memory recent` lists the newest.")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a user wants to see alone, as it was typed; an empty field does not narrow."""

    kinds: Sequence[Kind] = ()
    sources: Sequence[Source] = ()
    tags: Sequence[str] = ()
    """All of these."""
    entities: Sequence[str] = ()
    """Names of people, projects and things; all of these, each in any spelling that the graph knows."""
    actions: Sequence[str] = ()
    """All of these, as lemmas: "decide"."""
    project: str = ""
    """A project as memories name it, or the last part of that: "billing" for /home/mira/src/billing."""
    here: Project | None = None
    """The project at hand: what is of another one is left out, unless it is about the user."""
    since: datetime | None = None
    until: datetime | None = None
    """Created at or after `since` and before `until`."""
    states: Sequence[State] = (State.ACTIVE,)

    def filters(self, tenant: Tenant) -> "Filters":
        """What the store is asked for."""
        from memory_assets.language.tags import normalise_tag
        from memory_assets.language.verbs import infinitive
        from memory_assets.learn.checkouts import project_names
        from memory_assets.stores.filters import Filters

        return Filters(
            kinds=self.kinds,
            sources=self.sources,
            tags=[normalise_tag(tag) for tag in self.tags],
            entities=[_spellings(tenant, name) for name in self.entities],
            actions=[infinitive(action) for action in self.actions],
            projects=_projects(tenant, self.project) if self.project else (),
            here=project_names(tenant.folder, self.here) if self.here else (),
            since=self.since,
            until=self.until,
            states=self.states,
        )


def _projects(tenant: Tenant, name: str) -> list[str]:
    """The projects of that name; a path names one alone."""
    if "/" in name:
        return [name]
    known: list[str] = tenant.memories.scan(("project",))["project"].unique().to_pylist()
    return [name, *(each for each in known if each.rstrip("/").rpartition("/")[2].casefold() == name.casefold())]


def _spellings(tenant: Tenant, name: str) -> frozenset[Entity]:
    """How memories write the things of this name, of whatever type."""
    from memory_assets.language.entity_types import EntityType

    as_typed = {Entity(name.strip(), kind) for kind in EntityType}
    if not tenant.catalog.exists:
        return frozenset(as_typed)
    with tenant.catalog.read() as connection:
        known = connection.execute(
            """
            SELECT "text", type FROM graph_aliases WHERE entity_id IN (
                SELECT entity_id FROM graph_aliases WHERE lower("text") = lower($1)
                UNION ALL SELECT id FROM graph_nodes WHERE kind = 'entity' AND lower(label) = lower($1)
            )
            """,
            [name.strip()],
        ).fetchall()
    return frozenset(as_typed | {Entity(text, kind) for text, kind in known})


def parse_time(text: str | None, name: str) -> datetime | None:
    """A time that somebody typed, as aware UTC.

    It is an ISO 8601 date or time, in UTC where it has no offset; or where a length before now or a named time begins ("7d",
    "2 hrs", "yesterday", "last week"), on the calendar of the person's zone.

    `name` is that of the option or argument, for the error.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _named_time(text, name)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(aware, EARLIEST), LATEST).astimezone(UTC)


def _named_time(text: str, name: str) -> datetime:
    from memory_assets.language.intervals import find_interval
    from memory_assets.language.times import display_zone
    from memory_assets.settings import load_settings

    interval = find_interval(text.strip(), datetime.now(UTC), display_zone(None, configured=load_settings().timezone))
    if interval is None or interval.span != (0, len(text.strip())):
        raise InvalidInputError(
            f"{name} {text!r} is not a time; write it like 2026-03-14, 2026-03-14T09:30+01:00, yesterday or 7d."
        )
    return interval.start


def place_cursor(created_at: datetime, number: int) -> str:
    """The cursor of what comes after the memory of this creation time and id."""
    return f"{_ticks(created_at):016x}{number:016x}"


def read_place_cursor(cursor: str) -> tuple[datetime, int]:
    """The time and id that `place_cursor` was given; of any 32 hexadecimal digits, some time and some id. InvalidInputError of others."""
    _check_cursor(cursor, PLACE_CURSOR)
    return _moment(cursor[:16]), min(int(cursor[16:], 16), (1 << 63) - 1)


def seen_cursor(asked_at: datetime, numbers: Sequence[int]) -> str:
    """The cursor of what was not shown yet when `numbers` were."""
    return f"{_ticks(asked_at):016x}" + "".join(f"{number:014x}" for number in numbers)


def read_seen_cursor(cursor: str) -> tuple[datetime, list[int]]:
    """What `seen_cursor` was given; InvalidInputError if it is none."""
    _check_cursor(cursor, SEEN_CURSOR)
    ids = cursor[16:]
    return _moment(cursor[:16]), [int(ids[start : start + 14], 16) for start in range(0, len(ids), 14)]


def _check_cursor(cursor: str, pattern: str) -> None:
    if len(cursor) > SEEN_CURSOR_LENGTH or not re.fullmatch(pattern, cursor):
        raise InvalidInputError("This cursor is not valid; ask for the first page again.")


def _ticks(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND + _OFFSET


def _moment(digits: str) -> datetime:
    return _EPOCH + _MICROSECOND * max(-_LATEST, min(int(digits, 16) - _OFFSET, _LATEST))
