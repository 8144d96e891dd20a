"""Memories and Tana as one reader: ids of digits are the store's, others Tana's; a thing that both know by one name is joined."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from memory_assets.context.model import Category, Fields, Neighbours, Node
from memory_assets.context.reader import Reader
from memory_assets.context.resolver import Candidate

_LONGEST_TANA_ID = 12
"""Digits of an id that may be Tana's; a memory's has sixteen."""


class NamingReader(Reader, Protocol):
    """A reader that finds things by name."""

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Ids of things by lower-case name."""
        ...


class ThingReader(NamingReader, Protocol):
    """A reader that tells things from texts without reading these."""

    def things_of(self, ids: Collection[str]) -> dict[str, Node]:
        """Those of some nodes that are entities."""
        ...


class Joined:
    """Answers with what two readers know."""

    def __init__(self, memories: ThingReader, tana: NamingReader) -> None:
        self._memories = memories
        self._tana = tana
        self._known: dict[str, Node] = {}

    @property
    def backend(self) -> str:
        """What both read from."""
        return f"{self._memories.backend} and {self._tana.backend}"

    @property
    def warnings(self) -> list[str]:
        """What either could not read."""
        return [*self._memories.warnings, *self._tana.warnings]

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """As `Reader.nodes`; an id of digits that the store does not know may be Tana's."""
        unknown = [node for node in ids if node not in self._known]
        self._known |= self._memories.nodes([node for node in unknown if node.isdigit()])
        self._known |= self._tana.nodes([node for node in unknown if node not in self._known and _may_be_tanas(node)])
        return {node: self._known[node] for node in ids if node in self._known}

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """As `Reader.neighbours`; an entity and a tagged node of one name have the neighbours of both."""
        things = self._memories.things_of(ids) | self._tana.nodes([node for node in ids if _may_be_tanas(node)])
        theirs = {node for node, thing in things.items() if thing.category is Category.TANA}
        parts = []
        for own, other, is_theirs in ((self._memories, self._tana, False), (self._tana, self._memories, True)):
            asked = [node for node in ids if (node in theirs) is is_theirs]
            parts.append(own.neighbours(asked, scores, most))
            named = [things[node] for node in asked if node in things]
            twins = other.things({thing.name for thing in named}) if named else {}
            known_as = {twin: thing.id for thing in named for twin in twins.get(thing.name.lower(), ())}
            further = other.neighbours(list(known_as), scores, most) if known_as else Neighbours()
            parts.append(Neighbours(tuple(replace(link, origin=known_as[link.origin]) for link in further.links)))
        links = tuple(link for part in parts for link in part.links)
        return Neighbours(links, {node: total for part in parts for node, total in part.totals.items()})

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """As `Reader.fields`."""
        ours, theirs = self._divided(ids)
        return self._memories.fields(ours) | self._tana.fields(theirs)

    def search(self, topic: str, limit: int) -> dict[str, float]:
        """As `Reader.search`, the hits of both in one order."""
        found = self._memories.search(topic, limit) | self._tana.search(topic, limit // 3)
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def similarities(self, topic: str, nodes: Sequence[Node]) -> dict[str, float] | None:
        """As `Reader.similarities`."""
        return self._memories.similarities(topic, nodes)

    def named(self, topic: str) -> list[Candidate]:
        """As `Reader.named`."""
        return [*self._memories.named(topic), *self._tana.named(topic)]

    def newest(self, node: str) -> str:
        """As `Reader.newest`."""
        return self._memories.newest(node)

    def history(self, ids: Collection[str]) -> dict[str, tuple[Node, ...]]:
        """As `Reader.history`."""
        return self._memories.history(self._divided(ids)[0])

    def _divided(self, ids: Collection[str]) -> tuple[list[str], list[str]]:
        theirs = {node for node in ids if node in self._known and self._known[node].category is Category.TANA}
        return [node for node in ids if node not in theirs], [node for node in ids if node in theirs]


def _may_be_tanas(node: str) -> bool:
    return not node.isdigit() or len(node) <= _LONGEST_TANA_ID
