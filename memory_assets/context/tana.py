"""Tana live through its Local API, and memories and Tana as one reader.

Live, a node is read when it is walked from; what it shows of its children, fields and references is not asked for again. The number of
requests is bounded, and from the moment that Tana is away what was last read answers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from memory_assets.context.catalog import BELOW_MEMORIES, MOST_WORDS, TOLD_CHILDREN, TanaGraph, tana_node
from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.names import LONGEST_NAME, Candidate
from memory_assets.context.store import StoreReader, shared
from memory_assets.tana.client import ask_each
from memory_assets.tana.errors import TanaAwayError, TanaError
from memory_assets.tana.reading import plain_name, tag_names

if TYPE_CHECKING:
    from datetime import datetime

    from memory_assets.recall.question import Question
    from memory_assets.tana.client import Node as Found
    from memory_assets.tana.client import TanaClient, Workspace
    from memory_assets.tana.formats import Outline
    from memory_assets.tenants import Tenant

Answer = TypeVar("Answer")

_MOST_REQUESTS = 120
_MOST_LINKED = 5
"""Nodes of which live Tana is asked what refers to them."""
_LONGEST_TANA_ID = 12
"""Digits of an id that may be Tana's; a memory's has sixteen."""


class LiveTana:
    """The workspace as it is now; where it cannot be asked any more, as it was last read. It answers as `StoreReader` does."""

    def __init__(self, client: "TanaClient", workspace: "Workspace", graph: TanaGraph, warnings: list[str]) -> None:
        """Read a workspace; what was last read stands in, and what is to be said of that is added to `warnings`."""
        self._graph = graph
        self._client = client
        self._workspace = workspace
        self._warnings = warnings
        self._left = _MOST_REQUESTS
        self._outlines: dict[str, Outline] = {}
        """Nodes that were read."""
        self._seen: dict[str, Node] = {}
        """Nodes that others showed, by name and tags alone."""
        self._away = False

    @property
    def backend(self) -> str:
        return self._graph.backend if self._away else "live Tana"

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        return self._graph.things(names)

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """Those that nobody showed yet are read."""
        self._read([node for node in ids if node not in self._seen])
        if self._away:
            return self._graph.nodes(ids)
        dated = self._graph.nodes(ids)
        found = {}
        for node in ids:
            if outline := self._outlines.get(node):
                told = {"id": node, "name": outline.name, "description": outline.description, "tags": tag_names(outline)}
                known = dated.get(node)
                dates = {"created": known.created, "modified": known.modified} if known else {}
                children = [child.name for child in outline.children[:TOLD_CHILDREN]]
                found[node] = tana_node(told | dates | {"workspace": self._workspace.name}, children)
            elif node in self._seen:
                found[node] = dated.get(node, self._seen[node])
        return found

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """Children, fields and references of each node, what refers to the first few, and known parents."""
        self._read(ids)
        if self._away:
            return self._graph.neighbours(ids, scores, most)
        links: list[Link] = []
        totals = {}
        for node in ids:
            outline = self._outlines.get(node)
            if outline is None:
                continue
            own = [Link(node, child.id, "CHILD") for child in outline.children if child.id]
            own += [
                Link(node, value.ref, "FIELD", reason=name)
                for name, values in outline.fields.items()
                for value in values
                if value.ref
            ]
            own += [Link(node, target, "REFERENCE") for target in outline.references]
            if len(own) > most:
                totals[node] = len(own)
                own = sorted(own, key=lambda link: -scores.get(link.target, 0.0))[:most]
            links += own
        for node in list(ids)[:_MOST_LINKED]:
            links += [Link(node, found.id, "REFERENCE", forward=False) for found in self._search({"linksTo": [node]}, most)]
        parents = self._graph.neighbours(ids, scores, most).links
        links += [link for link in parents if link.relation == "CHILD" and not link.forward]
        return Neighbours(tuple(links), totals)

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """Of what was not read now, as last read."""
        found = self._graph.fields([node for node in ids if node not in self._outlines])
        for node in ids:
            if outline := self._outlines.get(node):
                told = tuple(
                    (name, tuple(value.text for value in values if value.text)) for name, values in outline.fields.items()
                )
                found[node] = tuple((name, values) for name, values in told if values)
        return found

    def search(self, topic: "Question", limit: int) -> dict[str, float]:
        """Nodes that hold the topic, or some of its words."""
        asked = topic.topic[:MOST_WORDS]
        found = {node.id: node for node in self._search({"textContains": topic.text[:200]}, limit)}
        if not found and len(asked) > 1:
            found |= {node.id: node for node in self._search({"or": [{"textContains": word} for word in asked]}, limit)}
        if self._away:
            return self._graph.search(topic, limit)
        near = {node: shared(topic.stems, f"{one.name} {one.description}") for node, one in found.items()}
        kept = sorted(((node, near[node]) for node in near if near[node] >= 0.5), key=lambda each: -each[1])
        return {node: BELOW_MEMORIES * similarity for node, similarity in kept}

    def named(self, topic: "Question") -> list[Candidate]:
        if self._away or len(topic.text) > LONGEST_NAME:
            return self._graph.named(topic)
        found = self._search({"textContains": topic.text}, 20)
        live = [Candidate(node.id, plain_name(node.name), bool(node.tags)) for node in found]
        return live or self._graph.named(topic)

    def _read(self, ids: Collection[str]) -> None:
        if self._away:
            return
        wanted = [node for node in ids if node not in self._outlines][: max(0, self._left)]
        self._left -= len(wanted)
        read = self._ask(lambda: ask_each(self._client.read, wanted)) or {}
        self._outlines |= read
        for outline in read.values():
            for child in outline.children:
                if child.id:
                    self._see(child.id, child.name, tag_names(child))
            for values in outline.fields.values():
                for value in values:
                    if value.ref:
                        self._see(value.ref, value.text, ())

    def _search(self, query: Mapping[str, object], limit: int) -> "list[Found]":
        if self._away or self._left <= 0:
            return []
        self._left -= 1
        found = self._ask(lambda: self._client.search(query, self._workspace.id, limit=min(100, limit))) or []
        for node in found:
            self._see(node.id, plain_name(node.name), tuple(tag.name for tag in node.tags))
        return found

    def _see(self, node: str, name: str, tags: Sequence[str]) -> None:
        self._seen.setdefault(node, tana_node({"id": node, "name": name, "tags": tags, "workspace": self._workspace.name}))

    def _ask(self, question: "Callable[[], Answer]") -> "Answer | None":
        """What Tana answers; None where it refuses, or is away and from then on is not asked again."""
        try:
            return question()
        except TanaError as error:
            if isinstance(error, TanaAwayError) and not self._away:
                self._away = True
                self._warnings.append(f"{error} The last reading answers instead.")
            return None


class JoinedReader(StoreReader):
    """Reads one tenant's memories, and what Tana knows beside them."""

    def __init__(self, tenant: "Tenant", tana: "TanaGraph | LiveTana", warnings: list[str]) -> None:
        super().__init__(tenant)
        self.warnings = warnings
        self._tana = tana
        self._known: dict[str, Node] = {}

    @property
    def backend(self) -> str:
        return f"{super().backend} and {self._tana.backend}"

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """An id of digits that the store does not know may be Tana's."""
        unknown = [node for node in ids if node not in self._known]
        self._known |= super().nodes([node for node in unknown if node.isdigit()])
        self._known |= self._tana.nodes([node for node in unknown if node not in self._known and _may_be_tanas(node)])
        return {node: self._known[node] for node in ids if node in self._known}

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """An entity and a tagged node of one name have the neighbours of both."""
        things = self.things_of(ids) | self._tana.nodes([node for node in ids if _may_be_tanas(node)])
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

    def search(self, topic: "Question", limit: int, now: "datetime | None" = None) -> dict[str, float]:
        """The hits of both in one order."""
        found = super().search(topic, limit, now) | self._tana.search(topic, limit // 3)
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def named(self, topic: "Question") -> list[Candidate]:
        return [*super().named(topic), *self._tana.named(topic)]


def _may_be_tanas(node: str) -> bool:
    return not node.isdigit() or len(node) <= _LONGEST_TANA_ID
