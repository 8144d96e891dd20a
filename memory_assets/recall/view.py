"""The view: a process's cache for one tenant's searches, with timeline, graph and term statistics.

Opening the catalog takes longer than a search. So it is opened only if its file has changed, and the graph is read only after a new
build. If there is no catalog, or another process writes it, the graph is empty or the last one read; a search hardly waits for it.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Rows
from memory_assets.errors import NewerStoreError, StoreError
from memory_assets.graph.outdated import (
    Outdated,
    Replaced,
    StatementChange,
    find_outdated,
    list_doubted,
    list_replaced,
    read_changes,
)
from memory_assets.language.embedders.protocol import are_whole
from memory_assets.language.words import fold, is_unspaced, stem, words
from memory_assets.models import Memory, State
from memory_assets.recall.timeline import Codes, Timeline, read_timeline
from memory_assets.stores.catalog import Catalog, Stamp
from memory_assets.stores.graph_builds import NO_BUILD, Build, read_build
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.schema import table
from memory_assets.tenants import Tenant

_LOCK_SECONDS = 0.25
_READ = {
    "graph_edges": """
        SELECT source_id, target_id, type, origin, coalesce(confidence, 1)::FLOAT AS confidence, note
        ORDER BY source_id, target_id, type, origin
    """,
    "graph_mentions": "ORDER BY memory_id, entity_id",
    "graph_nodes": "SELECT id, coalesce(label, '') AS label, type WHERE kind <> 'memory'",
}
"""Table of the catalog -> rest of the query that reads it."""
_REFRESH_SECONDS = 1.0
_REFRESHED_FAST = 200_000
"""A search refreshes the view after `_REFRESH_SECONDS`, proportionally later in a store of more memories than this. Concurrent searches
use the cached view meanwhile."""
_VECTORS = 500
"""Sample size for the mean of random memories' vectors."""
_SAMPLE = 2_000
"""Sample size, in texts, for word frequencies."""
_GROWTH = 1.25
"""Factor by which a store grows or shrinks before the frequencies are estimated again."""


@dataclass(frozen=True)
class Links:
    """Directed links as columns, indexed by either end."""

    columns: Mapping[str, npt.NDArray[Any]]
    """`source`, `target` and further columns, sorted by `source`."""
    _targets: Ids
    """Ascending."""
    _by_target: Rows

    @classmethod
    def of(cls, columns: Mapping[str, npt.NDArray[Any]]) -> "Links":
        """Index columns that are sorted by `source`."""
        by_target = np.argsort(columns["target"], kind="stable")
        return cls(columns, columns["target"][by_target], by_target)

    def __len__(self) -> int:
        return len(self._targets)

    def outgoing(self, nodes: Ids) -> tuple[Rows, Rows]:
        return ranges(self.columns["source"], nodes)

    def incoming(self, nodes: Ids) -> tuple[Rows, Rows]:
        """Return the links to these nodes, as pairs (index in `nodes`, row)."""
        places, at = ranges(self._targets, nodes)
        return places, self._by_target[at]

    def incoming_counts(self, nodes: Ids) -> Ids:
        return np.searchsorted(self._targets, nodes, "right") - np.searchsorted(self._targets, nodes)


@dataclass(frozen=True)
class GraphView:
    """A snapshot of the graph, for one stamp of the catalog."""

    stamp: Stamp
    build: Build
    edges: Links
    """Between nodes, with `type` and `origin` (codes) and `confidence`."""
    mentions: Links
    """From memories to entities."""
    types: Codes
    origins: Codes
    replaced: Replaced
    doubted: Replaced
    _notes: pa.ChunkedArray
    _labels: dict[int, str]
    """Labels of the nodes other than memories."""
    _kinds: pa.Table
    """`id` and `type` of these nodes."""

    @property
    def empty(self) -> bool:
        return not (len(self.edges) or len(self.mentions))

    def mentioning(self, kind: str) -> Ids:
        entities = self._kinds["id"].to_numpy()[self._kinds["type"].to_numpy() == kind]
        return np.unique(self.mentions.columns["source"][self.mentions.incoming(entities)[1]])

    def label(self, node: int) -> str:
        return self._labels.get(node, str(node))

    def note(self, edge: int) -> str:
        return self._notes[edge].as_py() or ""


def read_graph(catalog: Catalog, known: GraphView | None) -> GraphView:
    """Read the graph from the catalog; returns `known` if it is current or the catalog cannot be read."""
    stamp = catalog.stamp
    if known is not None and known.stamp == stamp:
        return known
    if not stamp:
        return _empty_graph()
    try:
        with catalog.within(_LOCK_SECONDS).read() as connection:
            build = read_build(connection)
            if known is not None and known.build == build:
                return replace(known, stamp=stamp)
            tables = [connection.execute(f"FROM {name} {query}").to_arrow_table() for name, query in _READ.items()]
            changes = read_changes(connection)
    except NewerStoreError:
        raise
    except StoreError:
        return known or _empty_graph()
    return _graph_view(stamp, build, changes, *tables)


def _graph_view(
    stamp: Stamp, build: Build, changes: Sequence[StatementChange], edges: pa.Table, mentions: pa.Table, named: pa.Table
) -> GraphView:
    types, origins = Codes(), Codes()
    columns = {
        "type": types.encoded(edges["type"]),
        "origin": origins.encoded(edges["origin"]),
        "confidence": edges["confidence"].to_numpy(),
    }
    return GraphView(
        stamp=stamp,
        build=build,
        edges=Links.of({"source": edges["source_id"].to_numpy(), "target": edges["target_id"].to_numpy(), **columns}),
        mentions=Links.of({"source": mentions["memory_id"].to_numpy(), "target": mentions["entity_id"].to_numpy()}),
        types=types,
        origins=origins,
        replaced=list_replaced(changes),
        doubted=list_doubted(changes),
        _notes=edges["note"],
        _labels=dict(zip(named["id"].to_pylist(), named["label"].to_pylist(), strict=True)),
        _kinds=named.select(["id", "type"]),
    )


def _empty_graph() -> GraphView:
    return _graph_view((), NO_BUILD, (), *(table(name).arrow().empty_table() for name in _READ))


def ranges(keys: Ids, wanted: Ids) -> tuple[Rows, Rows]:
    """Find the wanted keys in sorted `keys`; returns pairs (index in `wanted`, index in `keys`)."""
    starts = np.searchsorted(keys, wanted, "left")
    counts = np.searchsorted(keys, wanted, "right") - starts
    places = np.repeat(np.arange(len(wanted)), counts)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, np.repeat(starts, counts) + offsets


@dataclass(frozen=True)
class TermStatistics:
    """Document frequencies of words in a sample of texts."""

    counts: Counter[str]
    texts: int
    store_size: int
    unspaced: float
    """Share of texts that contain a script without spaces between words."""
    _stems: frozenset[str]

    def knows(self, term: str) -> bool:
        """Return whether a word, or another form of it, occurs."""
        return term in self.counts or stem(term) in self._stems

    def idf(self, term: str) -> float:
        """Return the inverse document frequency as in BM25: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        count = self.counts[term]
        return math.log(1 + (self.texts - count + 0.5) / (count + 0.5))


@dataclass(frozen=True)
class Background:
    """The mean vector of random memories, from a sample."""

    column: str
    """The live column of vectors; empty if nothing is embedded."""
    mean: Floats
    texts: int


@dataclass(frozen=True)
class View:
    """One consistent state of the cache."""

    timeline: Timeline
    graph: GraphView
    terms: TermStatistics
    background: Background

    def take(self, store: MemoryStore, ids: Collection[int]) -> dict[int, Memory]:
        """Return the current memories by id; uses the timeline's row ids."""
        rows = self.timeline.rows(np.array(ids, np.int64))
        return store.take(list(ids), self.timeline.values("row_id", rows, -1).tolist())


class _ViewCache:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known: View | None = None
        self._checked = -math.inf
        self._has_failed = False

    def view(self, tenant: Tenant, *, fresh: bool) -> View:
        known = self.known
        if known is not None and not fresh:
            max_age = _REFRESH_SECONDS * max(1.0, len(known.timeline) / _REFRESHED_FAST)
            if time.monotonic() - self._checked < max_age or self._lock.locked():
                return known
        with self._lock:
            known = self.known
            with ThreadPoolExecutor(1) as thread:
                graph = thread.submit(read_graph, tenant.catalog, known.graph if known else None)
                if self._has_failed:
                    graph.result()  # fails first, so that no repeated request reads the timeline
                self._has_failed = True
                timeline = read_timeline(tenant.memories, known.timeline if known else None)
                size = len(timeline)
                terms, background = (known.terms, known.background) if known else (None, None)
                if terms is None or not terms.store_size / _GROWTH <= size <= terms.store_size * _GROWTH:
                    terms, background = _count_terms(tenant.memories, size), None
                column = tenant.memories.columns.live if tenant.memories.exists else None
                if background is None or background.column != (column or ""):
                    background = _read_background(tenant.memories, column, size)
            self.known = View(timeline, graph.result(), terms, background)
            self._checked, self._has_failed = time.monotonic(), False
            return self.known


_caches: "WeakKeyDictionary[Tenant, _ViewCache]" = WeakKeyDictionary()
_caches_lock = threading.Lock()


def current_view(tenant: Tenant, *, fresh: bool = False) -> View:
    """Return the tenant's view, at most a second old (five in a store of a million); `fresh` includes every commit until now."""
    with _caches_lock:
        cache = _caches.setdefault(tenant, _ViewCache())
    return cache.view(tenant, fresh=fresh)


def find_newest(tenant: Tenant, states: Collection[State]) -> datetime:
    """Return when the newest memory of the tenant's view was created, of the active ones if no other state is asked for."""
    timeline = current_view(tenant).timeline
    created = timeline.columns["created"]
    if set(states) == {State.ACTIVE}:
        created = created[timeline.columns["active"]]
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(created.max(initial=0)))


def find_outdated_of(tenant: Tenant, shown: Iterable[Memory]) -> dict[int, tuple[Outdated, ...]]:
    """Return the sentences of some memories that others replace, perhaps replace or contradict.

    Uses the tenant's view if this process has one, else the catalog, which is faster than building a view. Empty if another process
    writes the catalog. NewerStoreError: a newer release wrote the catalog.
    """
    with _caches_lock:
        cache = _caches.get(tenant)
    if cache and cache.known:
        view = cache.view(tenant, fresh=False)
        return find_outdated(
            view.graph.replaced, view.graph.doubted, shown, lambda numbers: view.take(tenant.memories, numbers).values()
        )
    if not tenant.catalog.exists:
        return {}
    try:
        with tenant.catalog.within(_LOCK_SECONDS).read() as connection:
            changes = read_changes(connection)
    except NewerStoreError:
        raise
    except StoreError:
        return {}
    return find_outdated(list_replaced(changes), list_doubted(changes), shown, tenant.memories.get)


def _count_terms(store: MemoryStore, size: int) -> TermStatistics:
    if size <= _SAMPLE:
        texts = store.scan(("indexed_text",))["indexed_text"].to_pylist()
    else:
        offsets = np.linspace(0, size - 1, _SAMPLE).astype(int).tolist()
        texts = store.table.take_offsets(offsets).select(["indexed_text"]).to_arrow()["indexed_text"].to_pylist()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(words(fold(text))))
    unspaced = sum(map(is_unspaced, texts)) / max(1, len(texts))
    return TermStatistics(counts, len(texts), size, unspaced, frozenset(map(stem, counts)))


def _read_background(store: MemoryStore, column: str | None, size: int) -> Background:
    if not column:
        return Background("", np.zeros(0, np.float32), 0)
    offsets = np.unique(np.linspace(0, size - 1, min(size, _VECTORS)).astype(int)).tolist()
    found = store.table.take_offsets(offsets).select([column]).to_arrow()[column].drop_null() if offsets else None
    if found is None or not len(found):
        return Background(column, np.zeros(0, np.float32), 0)
    vectors = found.combine_chunks().flatten().to_numpy().reshape(len(found), -1)
    whole = vectors[are_whole(vectors)]
    return Background(column, whole.mean(axis=0) if len(whole) else np.zeros_like(vectors[0]), len(whole))
