"""Filters for reading the `memories` table, as values and as SQL for Lance."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_assets.models import OF_EVERY_PROJECT, Entity, Kind, Source, State
from memory_assets.stores import lance

GUESSED_TIME = '%"guessed": [%"created_at"%'
"""LIKE pattern of the metadata of a memory whose creation time was guessed."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters for reading the table; an empty field filters nothing."""

    kinds: Sequence[Kind] = ()
    sources: Sequence[Source] = ()
    tags: Sequence[str] = ()
    """All of these."""
    entities: Sequence[frozenset[Entity]] = ()
    """All of these, each in any of its spellings."""
    actions: Sequence[str] = ()
    """All of these."""
    projects: Sequence[str] = ()
    """Any of these."""
    here: Sequence[str] = ()
    """Any of these, which are in small letters, in any casing; no project, or a kind in `OF_EVERY_PROJECT`."""
    since: datetime | None = None
    until: datetime | None = None
    """Half-open: created at or after `since` and before `until`."""
    after: tuple[datetime, int] | None = None
    """Only memories that follow the memory with this creation time and id in the order of `MemoryStore.recent`."""
    preferences: bool = False
    """Only memories that state how the user wants things done."""
    dated: bool = False
    """Only memories whose time was stated or observed, not guessed."""
    states: Sequence[State] = (State.ACTIVE,)

    def __post_init__(self) -> None:
        """Convert sequences to tuples, so that equal filters compare equal."""
        for name in ("kinds", "sources", "tags", "entities", "actions", "projects", "here", "states"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def sql(self) -> str:
        any_of = {"state": self.states, "kind": self.kinds, "source": self.sources, "project": self.projects}
        clauses = [f"{name} IN {lance.quoted(accepted)}" for name, accepted in any_of.items() if accepted]
        clauses += [f"array_has(tags, {lance.quoted([tag])[1:-1]})" for tag in self.tags]
        clauses += [f"array_has(actions, {lance.quoted([action])[1:-1]})" for action in self.actions]
        clauses += [
            f"({' OR '.join(_has_entity(entity) for entity in sorted(spellings, key=str))})" for spellings in self.entities
        ]
        if self.here:
            clauses.append(f"(lower(project) IN {lance.quoted(('', *self.here))} OR kind IN {lance.quoted(OF_EVERY_PROJECT)})")
        if self.preferences:
            clauses.append("wish")
        if self.since:
            clauses.append(f"created_at >= {lance.timestamp(self.since)}")
        if self.until:
            clauses.append(f"created_at < {lance.timestamp(self.until)}")
        if self.dated:
            clauses.append(f"metadata NOT LIKE '{GUESSED_TIME}'")
        if self.after:
            created_at, number = lance.timestamp(self.after[0]), int(self.after[1])
            clauses.append(f"(created_at < {created_at} OR (created_at = {created_at} AND id < {number}))")
        return " AND ".join(clauses) or "true"


def _has_entity(entity: Entity) -> str:
    text, kind = (lance.quoted([value])[1:-1] for value in (entity.text, entity.type))
    return f"array_has(entities, named_struct('text', {text}, 'type', {kind}))"
