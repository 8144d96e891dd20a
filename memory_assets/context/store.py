"""A reader over the store: memories from LanceDB; entities, patterns and typed edges from this process's cache of the catalog.

If another process holds the catalog's lock for longer than a moment, the reader answers without the graph and adds a warning.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Floats, places_of
from memory_assets.context.catalog import CatalogCache, current_catalog, no_catalog
from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.names import Candidate
from memory_assets.context.neighbours import graph_neighbours
from memory_assets.display import counted, shortened
from memory_assets.errors import StoreBusyError
from memory_assets.graph.outdated import Outdated
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.words import stems, words
from memory_assets.models import Memory, State, is_time_guessed
from memory_assets.recall.question import Question
from memory_assets.recall.reading import MOST_READ
from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import read_query, search_with_bridges
from memory_assets.recall.view import View, current_view, find_outdated_of
from memory_assets.stores.filters import Filters
from memory_assets.stores.lance import ids_in
from memory_assets.stores.search import cosines
from memory_assets.tenants import Tenant

_NO_QUESTION_WEIGHT = 0.01
"""Weight of answers if the topic is no question. It is not 0, so that the hits are still read to decide whether any fits."""
_QUESTION_READS = 60
"""Hits that are read for a question: a document shows many more of them than a search, and may take longer."""
_NAME_LENGTH = 80
_MAX_MEMORIES_READ = 40
"""Memories per step whose texts are searched for names."""
_MAX_NAMES = 20
"""Entities per step that are searched for in texts."""
_MAX_NAMING = 60
"""Memories per step that may mention them."""
_OLDER_VERSIONS = 5
MIN_ID_DIGITS, _ID_DIGITS = 6, 16
_INTERNAL = frozenset(
    """
    path slug type_form extracted_at origin confirmed line dated_by guessed ingested_at source_cwd decided_at method proposed_kind
    section original_path decoding extra source_hash session_id timestamp
    """.split()  # noqa: SIM905
)
"""Metadata keys about a memory's origin, not its content."""
_NESTED = ("frontmatter", "fields")
"""Metadata keys that hold a source's own fields."""
_NOT_FOUND_SHARE = 0.5
"""Share of its cosine that a memory gets if the search did not find it, because neither its words nor its neighbours fit."""


class StoreReader:
    """Reader of one tenant's memories and their graph."""

    def __init__(self, tenant: Tenant) -> None:
        self.warnings: list[str] = []
        self._tenant = tenant
        self._memories: dict[str, Memory] = {}
        self._found: dict[str, float] = {}
        self._vectors: dict[str, Floats] = {}
        self.same: dict[str, str] = {}
        """Id of the hit that a memory repeats, by the memory's id."""
        self.replaced: dict[str, str] = {}
        """Id of the hit that replaces an outdated hit, by the outdated hit's id."""

    @property
    def backend(self) -> str:
        return "store"

    @property
    def size(self) -> int:
        """Number of memories in any state."""
        return len(self._view.timeline.sorted_ids) if self._tenant.memories.exists else 0

    @cached_property
    def catalog(self) -> CatalogCache:
        """This process's cache of the catalog; an empty one if the catalog is locked."""
        try:
            return current_catalog(self._tenant)
        except StoreBusyError:
            self.warnings.append("The graph was not walked: another process is writing it; ask again in a moment.")
            return no_catalog(self._tenant)

    @cached_property
    def _view(self) -> View:
        """Recall's cache, of the same catalog version as `catalog` or newer."""
        view = current_view(self._tenant)
        return view if view.graph.stamp == self.catalog.stamp else current_view(self._tenant, fresh=True)

    def understand(self, topic: str, now: datetime | None = None) -> Question:
        return read_query(self._tenant, topic, now)

    def short_ids(self) -> Callable[[str], str]:
        """Return a function that shortens an id to digits that are unique now, and most likely in a store ten times as large."""
        if not self._tenant.memories.exists:
            return str
        known = self._view.timeline.sorted_ids
        fewest = max(MIN_ID_DIGITS, len(str(len(known))) + 2)

        @cache
        def short(node: str) -> str:
            if len(node) < _ID_DIGITS or not node.isdigit():
                return node
            place = int(np.searchsorted(known, int(node)))
            if place == len(known) or known[place] != int(node):
                return node
            for digits in range(fewest, _ID_DIGITS):
                step = 10 ** (_ID_DIGITS - digits)
                first = int(node) // step * step
                if np.searchsorted(known, first + step) - np.searchsorted(known, first) == 1:
                    return node[:digits]
            return node

        return short

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        """Return nodes by id, without unknown and inactive ones."""
        things = self._things(ids)
        self._read([int(node) for node in ids if _is_number(node) and node not in things])
        memories = (self._memories.get(node) for node in ids)
        return things | {str(memory.id): _memory_node(memory) for memory in memories if memory and memory.state is State.ACTIVE}

    def things_of(self, ids: Collection[str]) -> dict[str, Node]:
        """Return the entities among the nodes, by id."""
        return {node: thing for node, thing in self._things(ids).items() if thing.category is Category.ENTITY}

    def _things(self, ids: Collection[str]) -> dict[str, Node]:
        asked = np.unique(np.array([int(node) for node in ids if _is_number(node)], np.int64))
        rows = places_of(asked, self.catalog.thing_ids)
        rows = rows[rows >= 0]
        if not len(rows):
            return {}
        mentions = self._view.graph.mentions.incoming_counts(self.catalog.thing_ids[rows]).tolist()
        things = self.catalog.things.take(rows).to_pylist()
        return {str(row["id"]): _thing_node(row, count) for row, count in zip(things, mentions, strict=True)}

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """Return the `most` most relevant neighbours of each node over typed edges in both directions and mentions, one link each."""
        numbers = np.array([int(node) for node in ids if _is_number(node)], np.int64)
        if not self._tenant.memories.exists:
            return Neighbours()
        known = graph_neighbours(self._view, numbers, scores, most)
        linked = {(link.origin, link.target) for link in known.links}
        named = [link for link in self._named_links(ids) if (link.origin, link.target) not in linked]
        return replace(known, links=(*known.links, *named))

    def _named_links(self, ids: Collection[str]) -> list[Link]:
        """Find mentions in texts that the graph has not linked: it knows the name from another memory."""
        memories = [memory for node in ids if (memory := self._memories.get(node))][:_MAX_MEMORIES_READ]
        links = [
            Link(str(memory.id), str(name["id"]), "MENTIONS")
            for memory, rows in zip(memories, self.catalog.names.within([each.content for each in memories]), strict=True)
            for name in self.catalog.named.take(pa.array(rows, pa.int64())).to_pylist()
            if name["entity"]
        ]
        things = list(self.things_of(ids).values())[:_MAX_NAMES]
        if not things:
            return links
        query = " ".join(thing.name for thing in things)
        found = self._tenant.memories.matching(query, _MAX_NAMING, Filters(), columns=("content",))
        texts = [(str(row["id"]), f" {' '.join(words(row['content']))} ") for row in found.to_pylist()]
        for thing in things:
            name = f" {' '.join(words(thing.name))} "
            links += [Link(thing.id, memory, "MENTIONS", forward=False) for memory, text in texts if name in text]
        return links

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        """Return project, author and the sources' own fields of memories, by id."""
        return {node: fields for node in ids if (memory := self._memories.get(node)) and (fields := _fields(memory))}

    def search(self, topic: Question, limit: int, now: datetime | None = None) -> dict[str, float]:
        """Return the score, 0..1, of memories that match a topic, best first; by words alone if the embedder fails.

        For a question, answers come first. If the topic only names something, return none where `memory search` finds none; a question or
        a task needs more than its answers.
        """
        if not self._tenant.memories.exists:
            return {}
        try:
            find = partial(search_with_bridges, self._tenant, topic, bridges=0, now=now, floor=topic.is_bare)
            shown = find() if topic.is_bare else None
            if shown and shown.below_floor:
                return {}
            weights = Weights.of(self._tenant.settings)
            if not (topic.is_asked or topic.is_bare):
                weights = replace(weights, answer=min(weights.answer, _NO_QUESTION_WEIGHT))
            most_read = _QUESTION_READS if topic.is_asked else MOST_READ
            findings = find(limit=limit, weights=weights, most_read=most_read)
            hits = findings.hits if not findings.below_floor else shown.hits if shown else []
        except EmbedderError as error:
            self.warnings.append(f"Meaning was not compared: {error}")
            rows = self._tenant.memories.matching(topic.keywords, limit, Filters())
            best = max(rows["score"].to_pylist(), default=1.0)
            found = {str(row["id"]): row["score"] / best for row in rows.select(["id", "score"]).to_pylist()}
        else:
            if findings.vector is not None:
                self._vectors[topic.text] = findings.vector
            self._memories |= {str(hit.memory.id): hit.memory for hit in hits}
            found = {str(hit.memory.id): hit.score for hit in hits}
            self.same |= {str(each.id): str(hit.memory.id) for hit in hits for each in hit.same}
            self.replaced |= {str(hit.memory.id): str(hit.replaced_by.id) for hit in hits if hit.replaced_by}
        self._found |= found
        return found

    def similarities(self, topic: Question, nodes: Sequence[Node]) -> dict[str, float] | None:
        """Return the similarity of nodes to a topic, or None if nothing is embedded.

        It is the search score of a hit, half the cosine of another memory, and the share of the topic's words in any other node.
        """
        vector = self._embed(topic)
        if vector is None:
            return None
        memories = [int(node.id) for node in nodes if node.category is Category.MEMORY and node.id not in self._found]
        found = self._cosines(memories, vector) | self._found
        return {
            node.id: found.get(node.id, 0.0)
            if node.category is Category.MEMORY
            else shared(topic.stems, f"{node.name} {node.content}")
            for node in nodes
        }

    def _embed(self, topic: Question) -> Floats | None:
        """Return the vector of a topic; None if nothing is embedded or the embedder fails."""
        if topic.text not in self._vectors and self._tenant.memories.exists and self._tenant.memories.columns.live:
            with suppress(EmbedderError):
                self._vectors[topic.text] = self._tenant.with_embedder(lambda embedder: embedder.embed([topic.text], "query")[0])
        return self._vectors.get(topic.text)

    def _cosines(self, memories: Sequence[int], vector: Floats) -> dict[str, float]:
        store = self._tenant.memories
        column = store.columns.live
        if column is None or not memories:
            return {}
        rows = store.scan(("id", column), ids_in(memories))
        return {str(node): max(0.0, cosine) * _NOT_FOUND_SHARE for node, cosine in cosines(rows, column, vector).items()}

    def named(self, topic: Question) -> list[Candidate]:
        """Find nodes whose names match a topic: entities by every spelling, patterns by label, memories by title."""
        found = self.catalog.named.take(self.catalog.names.near(topic.text)).to_pylist()
        return [Candidate(str(row["id"]), row["name"], row["entity"]) for row in found]

    def newest(self, node: str) -> str:
        """Return the id of the newest version of a node; its own if it is not superseded."""
        seen = {node}
        while _is_number(node):
            self._read([int(node)])
            memory = self._memories.get(node)
            if memory is None or memory.superseded_by is None or str(memory.superseded_by) in seen:
                break
            node = str(memory.superseded_by)
            seen.add(node)
        return node

    def history(self, ids: Collection[str]) -> dict[str, tuple[Node, ...]]:
        """Return up to five older versions of each memory, newest first."""
        heads = {int(node): node for node in ids if node in self._memories}
        older: dict[str, list[Memory]] = {}
        for _ in range(_OLDER_VERSIONS):
            if not heads:
                break
            replaced = f"superseded_by IN ({', '.join(map(str, heads))}) AND state = '{State.SUPERSEDED.value}'"
            before = self._tenant.memories.get(self._tenant.memories.scan(("id",), replaced)["id"].to_pylist())
            following = {}
            for memory in before:
                head = heads[memory.superseded_by or 0]
                older.setdefault(head, []).append(memory)
                following[memory.id] = head
            heads = following
        return {
            head: tuple(_memory_node(memory) for memory in sorted(versions, key=lambda memory: memory.updated_at, reverse=True))[
                :_OLDER_VERSIONS
            ]
            for head, versions in older.items()
        }

    def outdated(self, ids: Collection[str]) -> dict[str, tuple[Outdated, ...]]:
        found = find_outdated_of(self._tenant, [self._memories[node] for node in ids if node in self._memories])
        return {str(number): sentences for number, sentences in found.items()}

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Return the ids of entities by lower-case name, in any known spelling."""
        found: dict[str, list[str]] = {}
        for row in self.catalog.named.take(self.catalog.names.exactly(names)).to_pylist():
            if row["entity"]:
                found.setdefault(row["folded"], []).append(str(row["id"]))
        return found

    def _read(self, numbers: Sequence[int]) -> None:
        unknown = [number for number in numbers if str(number) not in self._memories]
        if unknown and self._tenant.memories.exists:
            found = self._view.take(self._tenant.memories, unknown)
            self._memories |= {str(number): memory for number, memory in found.items()}


def shared(asked: Collection[str], text: str) -> float:
    """Return the share of the topic's words that a text contains."""
    return len(stems(text) & frozenset(asked)) / len(asked) if asked else 0.0


def _is_number(node: str) -> bool:
    return node.isascii() and node.isdigit() and len(node) <= 16


def _thing_node(row: Mapping[str, Any], mentions: int) -> Node:
    if row["kind"] == "pattern":
        return Node(str(row["id"]), row["label"], Category.PATTERN, "pattern", f"Pattern of {counted(row['size'])}.")
    content = f"Named in {mentions} {'memory' if mentions == 1 else 'memories'}."
    return Node(str(row["id"]), row["label"], Category.ENTITY, row["type"].casefold() or "name", content)


def _memory_node(memory: Memory) -> Node:
    created = None if is_time_guessed(memory.metadata) else memory.created_at
    return Node(
        str(memory.id),
        memory.title or shortened(memory.content[: 4 * _NAME_LENGTH], _NAME_LENGTH),
        Category.MEMORY,
        memory.kind.value,
        memory.content,
        memory.tags,
        created,
        created,
        titled=bool(memory.title),
        source=memory.source_key or memory.source.value,
    )


def _fields(memory: Memory) -> Fields:
    given: dict[str, Any] = dict(memory.metadata)
    for key in _NESTED:
        nested = given.pop(key, None)
        given |= nested if isinstance(nested, dict) else {}
    found = {"project": memory.project.rstrip("/").rpartition("/")[2], "author": memory.author}
    found |= {key: str(value) for key, value in given.items() if key not in _INTERNAL and isinstance(value, str | int | float)}
    return tuple((name, (value,)) for name, value in found.items() if value)
