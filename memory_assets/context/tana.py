"""A reader that joins a tenant's memories with Tana as the catalog has it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from memory_assets.context.model import Category, Fields, Neighbours, Node
from memory_assets.context.names import Candidate
from memory_assets.context.store import StoreReader
from memory_assets.recall.question import Question
from memory_assets.tenants import Tenant


class JoinedReader(StoreReader):
    """Reader of one tenant's memories and Tana nodes."""

    def __init__(self, tenant: Tenant, *, is_live: bool) -> None:
        """Read a tenant. `is_live` means that Tana was asked about the topics a moment ago."""
        super().__init__(tenant)
        self._is_live = is_live
        self._tana = self.catalog.tana
        self._known: dict[str, Node] = {}

    @property
    def backend(self) -> str:
        return f"{super().backend} and {'live Tana' if self._is_live else self._tana.backend}"

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        unknown = [node for node in ids if node not in self._known]
        self._known |= super().nodes([node for node in unknown if node.isdigit()])
        self._known |= self._tana.nodes([node for node in unknown if node not in self._known])
        return {node: self._known[node] for node in ids if node in self._known}

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """Return neighbours from both; an entity and a tagged node of the same name share theirs."""
        things = self.things_of(ids) | self._tana.nodes(ids)
        theirs = {node for node, thing in things.items() if thing.category is Category.TANA}
        parts = []
        for own, other, is_theirs in ((super(), self._tana, False), (self._tana, super(), True)):
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
        theirs = [node for node in ids if node in self._known and self._known[node].category is Category.TANA]
        return super().fields(ids) | self._tana.fields(theirs)

    def search(self, topic: Question, limit: int, now: datetime | None = None) -> dict[str, float]:
        found = super().search(topic, limit, now) | self._tana.search(topic, limit // 3)
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def named(self, topic: Question) -> list[Candidate]:
        return [*super().named(topic), *self._tana.named(topic)]
