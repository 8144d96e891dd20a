"""Parse arguments: the id of a memory, filters, times as typed, and a page's cursor.

A cursor is opaque text. In a list by time it holds the last memory's time and id. A ranking has no fixed order, because scores depend
on the other hits. Its cursor holds the ids already shown, so that no page repeats one, and the time of the first page, so that later
memories do not enter. If a memory is dated ahead, the cursor holds the newest time instead.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from memory_assets.errors import ChangedMeanwhileError, InvalidInputError, NotFoundError
from memory_assets.language.times import display_zone
from memory_assets.models import Entity, Memory, Source, State
from memory_assets.operations.fields import CURSOR, CURSOR_LENGTH, Kinds, Moment, Name, Names, Tags
from memory_assets.settings import load_settings
from memory_assets.sources.dating import EARLIEST, LATEST
from memory_assets.sources.projects import Project, is_home, may_be_called, slug_of
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.stores.filters import Filters

_ID = re.compile(r"\(?(?:memory://|id |#)?([0-9]+)[^\w\s]*")
_ISO_DAY = re.compile(r"\d{4}-\d\d?-\d\d?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST = (LATEST - _EPOCH) // _MICROSECOND
_OFFSET = 1 << 60
"""Added to times so that those before 1970 have no sign."""


def digits_of(reference: str) -> str:
    """The digits of an id in a form that outputs show, such as `#753…`, `memory://753`, `(id 753)` or `753.`; other text as it is."""
    found = _ID.fullmatch(reference.strip())
    return found[1] if found else reference


def find_memory(tenant: Tenant, reference: str | int, seen: datetime | None = None) -> Memory:
    """Return the memory of an id or, if `reference` is text, of an id's first digits, in a form that `digits_of` reads.

    Raise ChangedMeanwhileError if its `updated_at` is no longer `seen`.
    """
    found = [tenant.memories.resolve(digits_of(reference))] if isinstance(reference, str) else tenant.memories.get([reference])
    if not found:
        raise NotFoundError(f"There is no memory {reference}; look at the newest (recent).")
    if seen and found[0].updated_at != seen:
        raise ChangedMeanwhileError(
            f"The memory {found[0].id} was changed since you looked at it; look again (show {found[0].id})."
        )
    return found[0]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Filters as the user typed them; an empty field does not filter. Programs may set the fields that have a description."""

    kinds: Annotated[Kinds, Field(description="Only of one of these.")] = ()
    sources: Sequence[Source] = ()
    tags: Annotated[Tags, Field(description="Only memories with all of these.")] = ()
    entities: Annotated[
        Names, Field(description="Only memories that name all of these people and things, in any spelling that is known.")
    ] = ()
    actions: Annotated[Names, Field(description="Only memories with all of these verbs, such as `decide`.")] = ()
    project: Annotated[Name, Field(description="Only of this project; the last part of its folder is enough.")] = ""
    here: Project | None = None
    """The current project: memories of others are left out, unless they are about the user."""
    since: Annotated[Moment | None, Field(description="Only created at or after this time.")] = None
    until: Annotated[Moment | None, Field(description="Only created before this time.")] = None
    states: Sequence[State] = (State.ACTIVE,)

    def filters(self, tenant: Tenant) -> "Filters":
        from memory_assets.language.tags import normalise_tag
        from memory_assets.language.verbs import infinitive
        from memory_assets.learn.checkouts import project_names
        from memory_assets.stores.filters import Filters

        return Filters(
            kinds=self.kinds,
            sources=self.sources,
            tags=[normalise_tag(tag) for tag in self.tags],
            entities=[_find_spellings(tenant, name) for name in self.entities],
            actions=[infinitive(action) for action in self.actions],
            projects=_find_projects(tenant, self.project) if self.project else (),
            here=project_names(tenant.folder, self.here) if self.here else (),
            since=self.since,
            until=self.until,
            states=self.states,
        )


def _find_projects(tenant: Tenant, name: str) -> list[str]:
    """Return the projects of that name; a path names only one. The slug of a silo counts as its folder."""
    name = name.rstrip("/") or name
    if "/" in name:
        return [name, f"{name}/", slug_of(name)]
    known: list[str] = tenant.memories.scan(("project",))["project"].unique().to_pylist()
    places = _resolve_places(tenant, known)
    return [name, *(each for each in known if any(may_be_called(place, name) for place in places[each]))]


def name_projects(tenant: Tenant, known: Sequence[str]) -> dict[str, str]:
    """Map the stored projects to names that `Narrowing.project` finds: the last part of the remote or folder.

    A slug gets the longest matching name of another project, else its own. The home directory is no project.
    """
    places = _resolve_places(tenant, known)
    own = {each: places[each][0].rstrip("/").rpartition("/")[2] for each in known}
    by_ending = {slug_of(f"/{name}").casefold(): name for name in own.values()}
    names: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for each in known:
        place = places[each][0]
        folded = place.casefold()
        endings = (folded[begin.start() :] for begin in re.finditer("-", folded))
        alike = (by_ending[ending] for ending in endings if ending in by_ending)
        name = next((name for name in alike if may_be_called(place, name)), own[each])
        if not is_home(each):
            names[each] = spelled.setdefault(name.casefold(), name)
    return names


def _resolve_places(tenant: Tenant, known: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Map the stored projects to their remotes, the present one first, and folder, as far as known, else to themselves."""
    from memory_assets.learn.checkouts import read_remotes

    remotes = read_remotes(tenant.folder)
    folders = {slug_of(each): each for each in (*known, *remotes) if "/" in each}
    found = {each: folders.get(each, each) for each in known}
    return {each: (*remotes.get(place, ()), place) for each, place in found.items()}


def _find_spellings(tenant: Tenant, name: str) -> frozenset[Entity]:
    from memory_assets.language.entity_types import EntityType

    as_typed = {Entity(name.strip(), kind) for kind in EntityType}
    query = """
        SELECT "text", type FROM graph_aliases WHERE entity_id IN (
            SELECT entity_id FROM graph_aliases WHERE lower("text") = lower($1)
            UNION ALL SELECT id FROM graph_nodes WHERE kind = 'entity' AND lower(label) = lower($1)
        )
    """
    known = tenant.catalog.interactive.fetch(query, [name.strip()])
    return frozenset(as_typed | {Entity(text, kind) for text, kind in known})


def parse_time(text: str | None, name: str, timezone: str | None = None) -> datetime | None:
    """Parse a time that a user typed; return it in UTC with a time zone.

    Accepts an ISO 8601 date or time, a span before now or a named time, of which the start counts ("7d", "2 hrs", "yesterday", "last
    week"). Without an offset the time is in `timezone`, else in the settings' zone. `name` is the option or argument, for the error.
    """
    if text is None:
        return None
    text = text.strip()
    try:
        moment = datetime.fromisoformat(re.sub(r"(?<=\d-)(?<!W\d\d-)(\d)(?=-|$|[ T])", r"0\1", text))
    except ValueError:
        from memory_assets.language.intervals import find_interval

        now, zone = datetime.now(UTC), display_zone(load_settings(), timezone)
        read = ((form, find_interval(form, now, zone)) for form in (text, f"since {text}"))
        interval = next((found for form, found in read if found and found.span == (0, len(form))), None)
        if _ISO_DAY.fullmatch(text) or interval is None:
            raise InvalidInputError(
                f"{name} {text!r} is not a time; write it like 2026-03-14, 2026-03-14T09:30+01:00, yesterday or 7d."
            ) from None
        return interval.start
    aware = moment if moment.tzinfo else moment.replace(tzinfo=display_zone(load_settings(), timezone))
    return min(max(aware, EARLIEST), LATEST).astimezone(UTC)


def write_cursor(moment: datetime, numbers: Sequence[int]) -> str:
    """Return the cursor of the page after these memories: `moment` and the ids shown so far."""
    return f"{(moment - _EPOCH) // _MICROSECOND + _OFFSET:016x}" + "".join(f"{number:014x}" for number in numbers)


def read_cursor(cursor: str) -> tuple[datetime, list[int]]:
    """Return the time and ids of a cursor; raise InvalidInputError if its form is wrong. Forged digits give some time and ids."""
    if len(cursor) > CURSOR_LENGTH or not re.fullmatch(CURSOR, cursor):
        raise InvalidInputError("This cursor is not valid; ask for the first page again.")
    ids = cursor[16:]
    ticks = max(-_LATEST, min(int(cursor[:16], 16) - _OFFSET, _LATEST))
    return _EPOCH + _MICROSECOND * ticks, [int(ids[start : start + 14], 16) for start in range(0, len(ids), 14)]
