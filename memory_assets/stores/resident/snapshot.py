"""One version of a `memories` table in memory. Its searches return what those of `DiskSearch` return."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Rows, Times
from memory_assets.stores.feed import UNKNOWN, Position, microseconds
from memory_assets.stores.filters import Filters
from memory_assets.stores.resident.segment import ROW_ID, Segment
from memory_assets.stores.resident.words import Stem, best_rows, inverse_frequency, words_of
from memory_assets.stores.search import UNMEASURED

Found = tuple[Segment, Rows, npt.NDArray[np.floating]]
"""Rows of a segment and their scores."""


@dataclass(frozen=True)
class Snapshot:
    """One version of the table. It reads the table's change feed, and can serve the feed to others."""

    position: Position
    column: str
    segments: tuple[Segment, ...]
    terms: Stem
    appends: int = 0
    """Appends of this process after `position`, included in the segments."""

    @property
    def version(self) -> int:
        """The table's version, unless another process has written since."""
        return self.position.version + self.appends

    def __len__(self) -> int:
        return sum(each.count for each in self.segments)

    def ids(self) -> Ids:
        return np.concatenate([each.ids[each.current] for each in self.segments])

    def updated(self, ids: Ids) -> Times:
        """Return when each row was last updated; `UNKNOWN` for missing rows."""
        times = np.full(len(ids), UNKNOWN, np.int64)
        for each in self.segments:
            places = each.places(ids)
            times[places >= 0] = each.updated[places[places >= 0]]
        return times

    def rows(self, columns: Sequence[str]) -> pa.Table:
        return _take_rows([(each, np.flatnonzero(each.current)) for each in self.segments], columns)

    def updated_since(self, moment: datetime) -> pa.Table:
        since = microseconds(moment)
        found = [(each, np.flatnonzero(each.current & (each.updated >= since))) for each in self.segments]
        return _take_rows(found, ("id", "updated_at"))

    def rows_of(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        places = [(each, each.places(ids)) for each in self.segments]
        return _take_rows([(each, found[found >= 0]) for each, found in places], columns)

    @cached_property
    def texts(self) -> int:
        """Rows of all segments, current or not: the size of BM25's collection."""
        return sum(map(len, self.segments))

    @cached_property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.segments)

    @cached_property
    def mean_length(self) -> float | None:
        """Mean number of terms of a text; None without texts."""
        return sum(each.words.length for each in self.segments) / self.texts if self.texts else None

    def nearest(
        self,
        vector: Floats,
        column: str,  # noqa: ARG002
        limit: int,
        filters: Filters,
        columns: Sequence[str],
    ) -> pa.Table:
        found = [(each, *each.vectors.nearest(vector, each.passing(filters), limit)) for each in self.segments]
        return _merge_results(found, limit, columns, "similarity")

    def cosines(self, found: pa.Table, column: str, vector: Floats) -> Floats:  # noqa: ARG002
        ids = found["id"].to_numpy()
        measured = np.full(len(ids), UNMEASURED, np.float32)
        for each in self.segments:
            places = each.places(ids)
            here = places >= 0
            measured[here] = each.meanings.cosines(places[here], vector)
        return measured

    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        terms = {term for term in self.terms(words_of(text)) if term is not None}
        postings = [[each.words.postings_of(term) for each in self.segments] for term in terms]
        weights = [inverse_frequency(self.texts, sum(int(each.stop - each.start) for each in places)) for places in postings]
        found: list[Found] = []
        for number, each in enumerate(self.segments):
            weighted = zip((places[number] for places in postings), weights, strict=True)
            scores = each.words.scores(weighted, len(each)) * each.passing(filters)
            rows = best_rows(scores, limit)
            found.append((each, rows, scores[rows]))
        return _merge_results(found, limit, columns, "score")

    def take(self, ids: Sequence[int], row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:  # noqa: ARG002
        return self.rows_of(np.array(ids, np.int64), columns)

    def newest(self, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        found = []
        for each in self.segments:
            rows = np.flatnonzero(each.passing(filters))
            if len(rows) > limit:
                created = each.created[rows]
                rows = rows[created >= np.partition(created, -limit)[-limit]]
            found.append((each, rows))
        newest = _take_rows(found, columns).sort_by([("created_at", "descending"), ("id", "descending")])
        return newest.slice(0, limit)


def _merge_results(found: "Sequence[Found]", limit: int, columns: Sequence[str], measure: str) -> pa.Table:
    """Return the best `limit` rows of all segments: `id`, the measure, `_rowid` (-1 if unknown) and `columns`."""
    measured = np.concatenate([values for _, _, values in found])
    best = np.argsort(-measured, kind="stable")[:limit]
    segment = np.repeat(np.arange(len(found)), [len(rows) for _, rows, _ in found])[best]
    rows = np.concatenate([rows for _, rows, _ in found])[best]
    ordered = [(each, rows[segment == number]) for number, (each, _, _) in enumerate(found)]
    taken = _take_rows(ordered, ("id", ROW_ID.name, *columns))
    if taken["id"].num_chunks > 1:
        taken = taken.take(pa.array(np.argsort(np.argsort(segment, kind="stable"))))
    ids, row_ids, *others = taken.columns
    row_ids = row_ids.cast(pa.int64()).fill_null(-1)
    scores = pa.chunked_array([measured[best]])
    return pa.Table.from_arrays([ids, scores, row_ids, *others], ["id", measure, ROW_ID.name, *columns])


def _take_rows(found: Sequence[tuple[Segment, Rows]], columns: Sequence[str]) -> pa.Table:
    some = [(each, rows) for each, rows in found if len(rows)] or found[:1]
    return pa.Table.from_batches([each.taken(rows, columns) for each, rows in some])
