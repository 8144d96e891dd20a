"""What a process keeps for one tenant's searches and brings up to date: timeline, graph and term statistics."""

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memory_assets.language.words import fold, is_unspaced, words
from memory_assets.recall.graph_view import GraphView, read_graph
from memory_assets.recall.timeline import Timeline, read_timeline

if TYPE_CHECKING:
    from memory_assets.stores.memories import MemoryStore
    from memory_assets.tenants import Tenant

_REFRESH_SECONDS = 1.0
_REFRESHED_FAST = 200_000
"""After `_REFRESH_SECONDS`, in proportion more in a store of more memories, a search looks for what other processes committed; those that
come while it looks go on with what is known."""
_SAMPLE = 2_000
"""Texts from which the frequency of words is estimated."""
_GROWTH = 1.25
"""How much a store grows before the frequencies are estimated anew."""


@dataclass(frozen=True)
class TermStatistics:
    """In how many of a sample of texts each word occurs."""

    counts: Counter[str]
    texts: int
    store_size: int
    unspaced: float
    """Share of the texts that are, at least in part, in a script without spaces between words."""

    def idf(self, term: str) -> float:
        """Inverse document frequency as in BM25: ln(1 + (N - n + 0.5) / (n + 0.5))."""
        count = self.counts[term]
        return math.log(1 + (self.texts - count + 0.5) / (count + 0.5))


@dataclass(frozen=True)
class View:
    """One consistent state of what recall keeps."""

    timeline: Timeline
    graph: GraphView
    terms: TermStatistics


class _Keeper:
    """Keeps one tenant's view; several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: View | None = None
        self._checked = -math.inf

    def view(self, tenant: "Tenant", *, fresh: bool) -> View:
        known = self._view
        if known is not None and not fresh:
            patience = _REFRESH_SECONDS * max(1.0, len(known.timeline) / _REFRESHED_FAST)
            if time.monotonic() - self._checked < patience or self._lock.locked():
                return known
        with self._lock:
            known = self._view
            timeline = read_timeline(tenant.memories, known.timeline if known else None)
            graph = read_graph(tenant.catalog, known.graph if known else None)
            terms = known.terms if known else None
            size = len(timeline)
            if terms is None or not terms.store_size / _GROWTH <= size <= terms.store_size * _GROWTH:
                terms = _count_terms(tenant.memories, size)
            self._view = View(timeline, graph, terms)
            self._checked = time.monotonic()
            return self._view


_keepers: "WeakKeyDictionary[Tenant, _Keeper]" = WeakKeyDictionary()
_keepers_lock = threading.Lock()


def current_view(tenant: "Tenant", *, fresh: bool = False) -> View:
    """The tenant's view, at most a second old, in a store of a million five; `fresh` reads every commit made until now."""
    with _keepers_lock:
        keeper = _keepers.setdefault(tenant, _Keeper())
    return keeper.view(tenant, fresh=fresh)


def _count_terms(store: "MemoryStore", size: int) -> TermStatistics:
    if size <= _SAMPLE:
        texts = store.scan(("indexed_text",))["indexed_text"].to_pylist()
    else:
        offsets = np.linspace(0, size - 1, _SAMPLE).astype(int).tolist()
        texts = store.table.take_offsets(offsets).select(["indexed_text"]).to_arrow()["indexed_text"].to_pylist()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(words(fold(text))))
    return TermStatistics(counts, len(texts), size, sum(map(is_unspaced, texts)) / max(1, len(texts)))
