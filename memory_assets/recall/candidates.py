"""The candidates of a search: the memories that LanceDB's indexes find for a question, with the data to judge them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Rows, Values, places_of
from memory_assets.language.embedders import Embedder
from memory_assets.recall.question import Question
from memory_assets.stores.memories import Filters, MemoryStore

FEWEST = 100
"""Minimum candidates from each index: enough that a memory second in both lists is among them, cheap enough for every search."""
_OVERFETCH = 5
_AS_ASKED = 0.5
"""Weight of the original question, relative to its first-person version."""
PREFERENCE_RANKS = (4, 6, 8)
"""Lowest ranks of the preferences that are most similar to a request, the most similar first."""


@dataclass(slots=True)
class Candidates:
    """The memories found, one entry each, sorted by id."""

    ids: Ids
    cosine: Values
    """NaN if the vector index did not return the memory."""
    bm25: Values
    """NaN if the full-text index did not return it."""
    texts: list[str]
    """Indexed text; empty if neither index returned the memory."""
    tags: list[tuple[str, ...]]
    """Empty if the full-text index did not return it."""
    preference: Values
    """Cosine of a preference that may apply to the request; NaN for every other memory."""
    row_ids: Ids
    """LanceDB's row id; -1 if unknown."""
    vector: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, ids: Ids) -> Rows:
        """Return the index of each id among the candidates; -1 for any other id."""
        return places_of(ids, self.ids)

    def best(self, count: int) -> Ids:
        return np.union1d(self.ids[_top(self.cosine, count)], self.ids[_top(self.bm25, count)])

    def extended(self, more: Ids, row_ids: Ids) -> "Candidates":
        """Add memories that neither index found; `more` is sorted and disjoint from `ids`."""
        places = np.searchsorted(self.ids, more)
        cosine, bm25, preference = (np.insert(each, places, np.nan) for each in (self.cosine, self.bm25, self.preference))
        texts, tags = self.texts.copy(), self.tags.copy()
        for place in places[::-1].tolist():
            texts.insert(place, "")
            tags.insert(place, ())
        ids, row_ids = np.insert(self.ids, places, more), np.insert(self.row_ids, places, row_ids)
        return Candidates(ids, cosine, bm25, texts, tags, preference, row_ids, self.vector)


def _top(values: Values, count: int) -> Rows:
    known = np.flatnonzero(~np.isnan(values))
    return known[np.argsort(-values[known], kind="stable")[:count]]


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=8, thread_name_prefix="recall")


def gather(store: MemoryStore, embedder: Embedder, question: Question, own: str, limit: int, filters: Filters) -> Candidates:
    """Query the vector and the full-text index and, if the question names a time, both again within that time.

    A request is also compared with the preferences. Indexes on disk are queried in parallel; those in memory answer sooner than a thread
    starts. `own` is `Question.in_first_person`: the question's text if it names nobody.
    """
    wanted = max(FEWEST, limit * _OVERFETCH)
    scopes = [filters]
    if question.interval:
        start, end = question.interval.start, question.interval.end
        since, until = max(start, filters.since or start), min(end, filters.until or end)
        scopes.append(replace(filters, since=since, until=until))
    look_up = partial(store.matching, question.keywords, wanted, columns=("indexed_text", "tags"))
    pending = [] if store.is_resident else [_threads().submit(look_up, scope) for scope in scopes]
    vector = _embed_question(embedder, question.text, own)
    by_meaning = [store.nearest(vector, embedder.name, wanted, scope, ("indexed_text",)) for scope in scopes]
    by_words = [found.result() for found in pending] or [look_up(scope) for scope in scopes]
    if question.is_request:
        scope = replace(filters, preferences=True)
        preferences = store.nearest(vector, embedder.name, len(PREFERENCE_RANKS), scope, ("indexed_text",))
        by_meaning.append(preferences.rename_columns({"similarity": "preference"}))
    return _merge(by_meaning, by_words, vector)


def _embed_question(embedder: Embedder, text: str, own: str) -> Floats:
    if own == text:
        return embedder.embed([text], "query")[0]
    first_person, as_asked = embedder.embed([own, text], "query")
    both = first_person + _AS_ASKED * as_asked
    return both / np.linalg.norm(both)


def _merge(by_meaning: list[pa.Table], by_words: list[pa.Table], vector: Floats) -> Candidates:
    tables = [table for table in (*by_meaning, *by_words) if table.num_rows]
    ids = np.unique(np.concatenate([np.array([], np.int64), *(table["id"].to_numpy() for table in tables)]))
    count = len(ids)
    unknown, no_rows = np.full(count, np.nan), np.full(count, -1, np.int64)
    found = Candidates(ids, unknown, unknown.copy(), [""] * count, [()] * count, unknown.copy(), no_rows, vector)
    for table in tables:
        places = np.searchsorted(ids, table["id"].to_numpy())
        found.row_ids[places] = table["_rowid"].to_numpy()
        for place, text in zip(places.tolist(), table["indexed_text"].to_pylist(), strict=True):
            found.texts[place] = text
        if "similarity" in table.column_names:
            found.cosine[places] = table["similarity"].to_numpy()
        elif "preference" in table.column_names:
            found.preference[places] = table["preference"].to_numpy()
        else:
            found.bm25[places] = table["score"].to_numpy()
            for place, tags in zip(places.tolist(), table["tags"].to_pylist(), strict=True):
                found.tags[place] = tuple(tags or ())
    return found
