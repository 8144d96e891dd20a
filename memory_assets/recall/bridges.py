"""Bridges: paths through the graph from a search's hits to memories that explain them (seed 003, section 3).

From each of the best hits, a best-first search follows outgoing typed edges, and goes from one memory to another that mentions the same
rare entity.

    path score = score of the first hit * product of (edge confidence * DAMPING)

A path visits no node twice, has at most `depth` hops and ends where its score would fall below `LEAST`. Complete paths are ranked by the
product above, times the summed search scores of their memories, times `BACKWARDS` for every hop into the past, because an explanation
follows the order of events. A path is skipped if it shares more than half of its places with a better one; at most two begin at a hit.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from memory_assets.models import State
from memory_assets.recall.view import View
from memory_assets.stores.memories import MemoryStore

DAMPING = 0.9
"""Factor of a path's score for every hop, besides its confidence."""
DEPTH = 3
LEAST = 0.05
BACKWARDS = 0.7
"""Factor of a path's rank for every hop into the past."""
_SEEDS = 8
_PER_SEED = 2
_FAN = 6
"""Maximum number of edges, the strongest, followed from one node."""
_MAX_EXPANSIONS = 150
_MAX_MENTIONS = 12
"""Entities with more mentions are not followed: they connect anything."""
_SHARED_ENTITY_CONFIDENCE = 0.5
SHARED_ENTITY = "MENTIONS"
"""Type of a hop over an entity that both memories mention. The other types are the eleven relation types and SHARES_THEME."""
_UNINFORMATIVE = frozenset({"session", "similar", "same text"})
"""Origins of edges that only say that two memories are adjacent or say the same."""


class Hop(BaseModel):
    """One step of a path, and its reason."""

    source: int
    target: int
    type: str
    origin: str
    confidence: float
    reason: str


class Place(BaseModel):
    """A memory, entity or pattern on a path."""

    id: int
    label: str


class Bridge(BaseModel):
    """A path from a hit to what explains it; it has one place more than hops."""

    score: float
    path: list[Place]
    hops: list[Hop]

    def text(self) -> str:
        steps = [
            f"\n   {hop.type} ({hop.confidence:.2f}, {hop.reason}) -> {place.label} · id {place.id}"
            for hop, place in zip(self.hops, self.path[1:], strict=True)
        ]
        return f"{self.score:.2f}  {self.path[0].label} · id {self.path[0].id}{''.join(steps)}"


class _Step(NamedTuple):
    source: int
    target: int
    confidence: float
    edge: int | None
    """Index in the graph's edges; None if a shared entity joins the two."""
    entity: int = 0


class _Path(NamedTuple):
    score: float
    nodes: tuple[int, ...]
    steps: tuple[_Step, ...] = ()


def find_bridges(
    store: MemoryStore,
    view: View,
    scores: Mapping[int, float],
    *,
    limit: int = 5,
    depth: int = DEPTH,
    states: Sequence[State] = (State.ACTIVE,),
) -> list[Bridge]:
    """Return the paths that explain a search's hits, best first.

    `scores` holds every candidate's score by memory id. A path has at most `depth` hops; all its memories are in one of `states`.
    """
    if view.graph.empty or not scores or not limit or not len(view.timeline):
        return []
    walk = _Walk(view, scores, depth, only_active=tuple(states) == (State.ACTIVE,))
    chosen: list[_Path] = []
    from_seed: Counter[int] = Counter()
    for path in sorted(walk.complete_paths(), key=lambda path: -walk.rank(path)):
        if len(chosen) == limit:
            break
        repeated = any(2 * len(set(path.nodes) & set(better.nodes)) > len(path.nodes) for better in chosen)
        if not repeated and from_seed[path.nodes[0]] < _PER_SEED:
            chosen.append(path)
            from_seed[path.nodes[0]] += 1
    return _load_bridges(store, view, chosen, states)


class _Walk:
    """One best-first search through the graph; caches the steps from each node."""

    def __init__(self, view: View, scores: Mapping[int, float], depth: int, *, only_active: bool) -> None:
        self._view = view
        self._scores = scores
        self._depth = depth
        self._only_active = only_active
        self._steps: dict[int, list[_Step]] = {}
        self._times: dict[int, int] = {}

    def complete_paths(self) -> list[_Path]:
        """Return the paths that cannot be continued, or were not when the limit of expansions was reached."""
        seeds = heapq.nlargest(_SEEDS, self._scores.items(), key=lambda item: (item[1], -item[0]))
        queue = [(-score, number, _Path(score, (node,))) for number, (node, score) in enumerate(seeds)]
        complete: list[_Path] = []
        pushed = len(queue)
        for _ in range(_MAX_EXPANSIONS):
            if not queue:
                break
            path = heapq.heappop(queue)[2]
            longer = self._continuations(path)
            for each in longer:
                heapq.heappush(queue, (-each.score, pushed, each))
                pushed += 1
            if path.steps and not longer:
                complete.append(path)
        return complete + [path for _, _, path in queue if path.steps]

    def rank(self, path: _Path) -> float:
        """Return the rank of a path by how much of the question it explains."""
        times = [self._time(node) for node in path.nodes]
        backwards = sum(0 <= later < earlier for earlier, later in pairwise(times))
        explained = sum(self._scores.get(node, 0.0) for node in path.nodes)
        return path.score / self._scores[path.nodes[0]] * explained * BACKWARDS**backwards

    def _time(self, node: int) -> int:
        if node not in self._times:
            row = self._view.timeline.rows(np.array([node]))
            self._times[node] = int(self._view.timeline.values("created", row, -1)[0])
        return self._times[node]

    def _continuations(self, path: _Path) -> list[_Path]:
        if len(path.steps) == self._depth:
            return []
        node = path.nodes[-1]
        if node not in self._steps:
            self._steps[node] = self._steps_from(node)
        return [
            _Path(score, (*path.nodes, step.target), (*path.steps, step))
            for step in self._steps[node]
            if step.target not in path.nodes and (score := path.score * step.confidence * DAMPING) >= LEAST
        ]

    def _steps_from(self, node: int) -> list[_Step]:
        best: dict[int, _Step] = {}
        for step in sorted(self._typed(node) + self._shared_entities(node), key=lambda step: (-step.confidence, step.target)):
            best.setdefault(step.target, step)
        if not best:
            return []
        targets = np.fromiter(best, np.int64)
        if self._only_active:
            for target in targets[~self._view.timeline.values("active", self._view.timeline.rows(targets), True)].tolist():
                del best[target]
        return sorted(best.values(), key=lambda step: -step.confidence * (0.2 + self._scores.get(step.target, 0.0)))[:_FAN]

    def _typed(self, node: int) -> list[_Step]:
        edges = self._view.graph.edges
        rows = edges.outgoing(np.array([node]))[1]
        columns = (edges.columns[name][rows].tolist() for name in ("target", "confidence", "origin"))
        return [
            _Step(node, target, confidence, edge)
            for edge, target, confidence, origin in zip(rows.tolist(), *columns, strict=True)
            if self._view.graph.origins.names[origin] not in _UNINFORMATIVE
        ]

    def _shared_entities(self, node: int) -> list[_Step]:
        mentions = self._view.graph.mentions
        memory, entity_of = mentions.columns["source"], mentions.columns["target"]
        entities = entity_of[mentions.outgoing(np.array([node]))[1]]
        counts = mentions.incoming_counts(entities)
        return [
            _Step(node, other, _SHARED_ENTITY_CONFIDENCE * (2 / count) ** 0.5, None, entity)
            for entity, count in zip(entities.tolist(), counts.tolist(), strict=True)
            if 1 < count <= _MAX_MENTIONS
            for other in memory[mentions.incoming(np.array([entity]))[1]].tolist()
            if other != node
        ]


def _hop(view: View, step: _Step) -> Hop:
    if step.edge is None:
        kind, origin, reason = SHARED_ENTITY, "entity", f"both mention {view.graph.label(step.entity)}"
    else:
        edges = view.graph.edges.columns
        kind, origin = view.graph.types.names[edges["type"][step.edge]], view.graph.origins.names[edges["origin"][step.edge]]
        reason = view.graph.note(step.edge) or origin
    return Hop(source=step.source, target=step.target, type=kind, origin=origin, confidence=step.confidence, reason=reason)


def _load_bridges(store: MemoryStore, view: View, paths: Sequence[_Path], states: Sequence[State]) -> list[Bridge]:
    """Load the memories on the paths; drops paths over a memory that was forgotten or deleted meanwhile."""
    nodes = np.unique(np.array([node for path in paths for node in path.nodes], np.int64))
    rows = view.timeline.rows(nodes)
    nodes, rows = nodes[rows >= 0], rows[rows >= 0]
    memories = store.take(nodes.tolist(), view.timeline.columns["row_id"][rows].tolist())
    gone = {node for node in nodes.tolist() if node not in memories or (states and memories[node].state not in states)}

    def place(node: int) -> Place:
        memory = memories.get(node)
        label = (memory.title or " ".join(memory.content.split())[:80]) if memory else view.graph.label(node)
        return Place(id=node, label=label)

    return [
        Bridge(score=path.score, path=[place(node) for node in path.nodes], hops=[_hop(view, step) for step in path.steps])
        for path in paths
        if gone.isdisjoint(path.nodes)
    ]
