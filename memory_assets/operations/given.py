"""What a user gives, as the stores know it: a memory by its id, filters as they were typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memory_assets.errors import NotFoundError
from memory_assets.models import Entity, Kind, State

if TYPE_CHECKING:
    from memory_assets.models import Memory
    from memory_assets.stores.filters import Filters
    from memory_assets.tenants import Tenant


def find_memory(tenant: "Tenant", reference: str | int) -> "Memory":
    """The memory of an id, or, where `reference` is text, of the first digits of one.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: the text is no digits, or the beginning of several ids.
        StoreError: the store cannot be read.
    """
    if isinstance(reference, str):
        return tenant.memories.resolve(reference)
    for memory in tenant.memories.get([reference]):
        return memory
    raise NotFoundError(f"There is no memory {reference}; `memory recent` lists the newest.")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a user wants to see alone, as it was typed; an empty field does not narrow."""

    kinds: Sequence[Kind] = ()
    tags: Sequence[str] = ()
    """All of these."""
    entities: Sequence[str] = ()
    """Names of people, projects and things; all of these, each in any spelling that the graph knows."""
    actions: Sequence[str] = ()
    """All of these, as lemmas: "decide"."""
    project: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """Created at or after `since` and before `until`."""
    states: Sequence[State] = (State.ACTIVE,)

    def filters(self, tenant: "Tenant") -> "Filters":
        """What the store is asked for.

        Raises:
            StoreError: the graph's spellings of a name cannot be read.
        """
        from memory_assets.language.tags import normalise_tag
        from memory_assets.stores.filters import Filters

        return Filters(
            kinds=self.kinds,
            tags=[normalise_tag(tag) for tag in self.tags],
            entities=[_spellings(tenant, name) for name in self.entities],
            actions=[action.strip().casefold() for action in self.actions],
            project=self.project,
            since=self.since,
            until=self.until,
            states=self.states,
        )


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
