"""What a user gives, as the stores know it: a memory by its id, filters and times as they were typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.errors import InvalidInputError, NotFoundError
from memory_assets.models import Entity, Kind, Source, State

if TYPE_CHECKING:
    from memory_assets.models import Memory
    from memory_assets.sources.projects import Project
    from memory_assets.stores.filters import Filters
    from memory_assets.tenants import Tenant


def find_memory(tenant: "Tenant", reference: str | int) -> "Memory":
    """The memory of an id, or, where `reference` is text, of the first digits of one."""
    if isinstance(reference, str):
        return tenant.memories.resolve(reference)
    for memory in tenant.memories.get([reference]):
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
    here: "Project | None" = None
    """The project at hand: what is of another one is left out, unless it is about the user."""
    since: datetime | None = None
    until: datetime | None = None
    """Created at or after `since` and before `until`."""
    states: Sequence[State] = (State.ACTIVE,)

    def filters(self, tenant: "Tenant") -> "Filters":
        """What the store is asked for."""
        from memory_assets.language.tags import normalise_tag
        from memory_assets.learn.checkouts import project_names
        from memory_assets.stores.filters import Filters

        return Filters(
            kinds=self.kinds,
            sources=self.sources,
            tags=[normalise_tag(tag) for tag in self.tags],
            entities=[_spellings(tenant, name) for name in self.entities],
            actions=[action.strip().casefold() for action in self.actions],
            projects=_projects(tenant, self.project) if self.project else (),
            here=project_names(tenant.folder, self.here) if self.here else (),
            since=self.since,
            until=self.until,
            states=self.states,
        )


def _projects(tenant: "Tenant", name: str) -> list[str]:
    """The projects of that name; a path names one alone."""
    if "/" in name:
        return [name]
    known: list[str] = tenant.memories.scan(("project",))["project"].unique().to_pylist()
    return [name, *(each for each in known if each.rstrip("/").rpartition("/")[2].casefold() == name.casefold())]


def _spellings(tenant: "Tenant", name: str) -> frozenset[Entity]:
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
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


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
