"""Tana as a reader: as it was last read into the catalog, or live through its Local API.

Live, a node is read when it is walked from; what it shows of its children, fields and references is not asked for again. The number of
requests is bounded, and from the moment that Tana is away what was last read answers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.names import LONGEST_NAME, Candidate
from memory_assets.context.store import shared
from memory_assets.context.tana_graph import TanaGraph
from memory_assets.tana.errors import TanaAwayError, TanaError
from memory_assets.tana.reading import plain_name, tag_names

if TYPE_CHECKING:
    from memory_assets.recall.question import Question
    from memory_assets.tana.client import Node as Found
    from memory_assets.tana.client import TanaClient, Workspace
    from memory_assets.tana.formats import Outline

Answer = TypeVar("Answer")

_TOLD_CHILDREN = 40
"""Children whose names are the text of a node."""
_BELOW_MEMORIES = 0.8
"""What a hit by words counts at most, so that it does not outdo what memories say about the topic."""
_MOST_WORDS = 6
_MOST_REQUESTS = 120
_MOST_LINKED = 5
"""Nodes of which live Tana is asked what refers to them."""


class TanaReader:
    """The workspace as `memory tana read` left it in the catalog."""

    def __init__(self, graph: TanaGraph) -> None:
        """Tell what this process keeps of it."""
        self.warnings: list[str] = []
        self._graph = graph
        self.empty = not graph.nodes.num_rows
        self.backend = f"Tana as read on {graph.read_at:%Y-%m-%d}" if graph.read_at else "Tana as read so far"

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """As `StoreReader.nodes`."""
        rows = self._graph.rows(ids)
        children = [self._graph.records(self._graph.children(row)[:_TOLD_CHILDREN]) for row in rows.tolist()]
        return {
            told["id"]: _tana_node(
                told["id"],
                told["name"],
                told["description"],
                told["tags"] or (),
                [child["name"] for child in below],
                told["created"],
                told["modified"] or told["created"],
                told["workspace"],
            )
            for told, below in zip(self._graph.records(rows), children, strict=True)
        }

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """As `StoreReader.neighbours`: parents, children, references, fields, in both directions."""
        return self._graph.neighbours(ids, scores, most)

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """As `StoreReader.fields`."""
        found: dict[str, dict[str, list[str]]] = {}
        for node, values in self._graph.field_values(ids).items():
            for name, value in values:
                found.setdefault(node, {}).setdefault(name, []).append(value)
        return {node: tuple((name, tuple(values)) for name, values in fields.items()) for node, fields in found.items()}

    def search(self, topic: "Question", limit: int) -> dict[str, float]:
        """As `StoreReader.search`: nodes whose names and descriptions hold at least half of the topic's words."""
        asked = topic.topic[:_MOST_WORDS]
        found = self._graph.holding(asked, (len(asked) + 1) // 2, limit) if asked else []
        return {node: _BELOW_MEMORIES * held / len(asked) for node, held in found}

    def named(self, topic: "Question") -> list[Candidate]:
        """As `StoreReader.named`."""
        found = self._graph.records(self._graph.names.near(topic.text))
        return [Candidate(node["id"], node["name"], bool(node["tags"])) for node in found]

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Tagged nodes by name, without case."""
        found: dict[str, list[str]] = {}
        for node in self._graph.records(self._graph.names.exactly(names)):
            if node["tags"]:
                found.setdefault(node["folded"], []).append(node["id"])
        return found


class LiveTanaReader(TanaReader):
    """The workspace as it is now; where it cannot be asked any more, as it was last read."""

    def __init__(self, client: "TanaClient", workspace: "Workspace", graph: TanaGraph) -> None:
        super().__init__(graph)
        self._backend_as_read, self.backend = self.backend, "live Tana"
        self._client = client
        self._workspace = workspace
        self._left = _MOST_REQUESTS
        self._outlines: dict[str, Outline] = {}
        """Nodes that were read."""
        self._seen: dict[str, Node] = {}
        """Nodes that others showed, by name and tags alone."""
        self._away = False

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """As `StoreReader.nodes`; reads those that nobody showed yet."""
        if self._away:
            return super().nodes(ids)
        self._read([node for node in ids if node not in self._seen])
        if self._away:
            return super().nodes(ids)
        dated = super().nodes(ids)
        found = {}
        for node in ids:
            if outline := self._outlines.get(node):
                known = dated.get(node)
                children = [child.name for child in outline.children[:_TOLD_CHILDREN]]
                dates = (known.created, known.modified) if known else (None, None)
                found[node] = _tana_node(
                    node,
                    outline.name,
                    outline.description,
                    tag_names(outline),
                    children,
                    *dates,
                    self._workspace.name,
                )
            elif node in self._seen:
                found[node] = dated.get(node, self._seen[node])
        return found

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """As `StoreReader.neighbours`: children, fields and references of each node, what refers to the first few, and known parents."""
        if not self._away:
            self._read(ids)
        if self._away:
            return super().neighbours(ids, scores, most)
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
        parents = super().neighbours(ids, scores, most).links
        links += [link for link in parents if link.relation == "CHILD" and not link.forward]
        return Neighbours(tuple(links), totals)

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """As `StoreReader.fields`; of what was not read now, as last read."""
        found = super().fields([node for node in ids if node not in self._outlines])
        for node in ids:
            if outline := self._outlines.get(node):
                told = tuple(
                    (name, tuple(value.text for value in values if value.text)) for name, values in outline.fields.items()
                )
                found[node] = tuple((name, values) for name, values in told if values)
        return found

    def search(self, topic: "Question", limit: int) -> dict[str, float]:
        """As `StoreReader.search`: nodes that hold the topic, or some of its words."""
        if self._away:
            return super().search(topic, limit)
        asked = topic.topic[:_MOST_WORDS]
        found = {node.id: node for node in self._search({"textContains": topic.text[:200]}, limit)}
        if not found and len(asked) > 1:
            found |= {node.id: node for node in self._search({"or": [{"textContains": word} for word in asked]}, limit)}
        if self._away:
            return super().search(topic, limit)
        near = {node: shared(topic.stems, f"{one.name} {one.description}") for node, one in found.items()}
        kept = sorted(((node, near[node]) for node in near if near[node] >= 0.5), key=lambda each: -each[1])
        return {node: _BELOW_MEMORIES * similarity for node, similarity in kept}

    def named(self, topic: "Question") -> list[Candidate]:
        """As `StoreReader.named`."""
        if self._away or len(topic.text) > LONGEST_NAME:
            return super().named(topic)
        found = self._search({"textContains": topic.text}, 20)
        live = [Candidate(node.id, plain_name(node.name), bool(node.tags)) for node in found]
        return live or super().named(topic)

    def _read(self, ids: Collection[str]) -> None:
        wanted = [node for node in ids if node not in self._outlines][: max(0, self._left)]
        self._left -= len(wanted)
        for node, answer in {node: self._client.begin_read(node) for node in wanted}.items():
            outline = self._ask(answer)
            if outline is None:
                continue
            self._outlines[node] = outline
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
        self._seen.setdefault(node, _tana_node(node, name, "", tags, (), None, None, self._workspace.name))

    def _ask(self, question: "Callable[[], Answer]") -> "Answer | None":
        """What Tana answers; None where it refuses, or is away and from then on is not asked again."""
        try:
            return question()
        except TanaError as error:
            if isinstance(error, TanaAwayError) and not self._away:
                self._away = True
                self.backend = self._backend_as_read
                self.warnings.append(f"{error} What was last read answers instead.")
            return None


def _tana_node(node, name, description, tags, children, created, modified, workspace) -> Node:
    content = "\n".join([*filter(None, [description]), *(f"- {child}" for child in children)])
    return Node(
        node,
        name or node,
        Category.TANA,
        tags[0] if tags else "node",
        content,
        tuple(tags),
        created,
        modified,
        source=f"tana:{workspace}",
    )
