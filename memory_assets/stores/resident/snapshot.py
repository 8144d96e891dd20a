"""One version of a `memories` table in memory, and searches of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memory_assets.stores.feed import UNKNOWN, Position
from memory_assets.stores.filters import Filters
from memory_assets.stores.resident.segment import ROW_ID, Segment, microseconds
from memory_assets.stores.resident.words import Stem, best_rows, inverse_frequency, words_of
from memory_assets.stores.search import UNMEASURED

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    Found = tuple["Part", Rows, npt.NDArray[np.floating]]
    """Rows of a part and what was measured of each."""


@dataclass(frozen=True)
class Part:
    """A segment, and which of its rows are still current."""

    segment: Segment
    current: "Mask"

    @classmethod
    def whole(cls, segment: Segment) -> "Part":
        """All rows of a segment."""
        return cls(segment, np.ones(len(segment), bool))

    @cached_property
    def _active(self) -> "Mask":
        return self.current & self.segment.active

    @cached_property
    def rows(self) -> int:
        """How many are current."""
        return int(self.current.sum())

    def places(self, ids: "npt.NDArray[np.int64]") -> "Rows":
        """Row of each id; -1 where it is not here, or no longer current."""
        places = self.segment.places(ids)
        return np.where((places >= 0) & self.current[places], places, -1) if len(self.segment) else places

    def passing(self, filters: Filters) -> "Mask":
        """Which current rows pass."""
        return self._active if filters == Filters() else self.current & self.segment.passing(filters)

    def without(self, ids: "npt.NDArray[np.int64]") -> "Part":
        """The part after these memories were changed or deleted."""
        places = self.segment.places(ids)
        places = places[places >= 0]
        if not self.current[places].any():
            return self
        current = self.current.copy()
        current[places] = False
        return Part(self.segment, current)


@dataclass(frozen=True)
class Snapshot:
    """One version of the table: a reader of its change feed, from which others can read the feed too."""

    position: Position
    column: str
    parts: tuple[Part, ...]
    terms: Stem
    appends: int = 0
    """Appends of this process since then, which the parts hold."""

    @property
    def version(self) -> int:
        """The table's version, if nobody else has written since."""
        return self.position.version + self.appends

    def __len__(self) -> int:
        return sum(part.rows for part in self.parts)

    def ids(self) -> "npt.NDArray[np.int64]":
        """Of all rows."""
        return np.concatenate([part.segment.ids[part.current] for part in self.parts])

    def updated(self, ids: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """When each row was updated last, in microseconds since 1970; `UNKNOWN` where it is not here."""
        times = np.full(len(ids), UNKNOWN, np.int64)
        for part in self.parts:
            places = part.places(ids)
            times[places >= 0] = part.segment.updated[places[places >= 0]]
        return times

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Columns of all rows."""
        return _taken([(part, np.flatnonzero(part.current)) for part in self.parts], columns)

    def updated_since(self, moment: datetime, columns: Sequence[str]) -> pa.Table:
        """Columns of the rows that were updated then or later."""
        since = microseconds(moment)
        recent = [part for part in self.parts if part.segment.updated_until >= since]
        found = [(part, np.flatnonzero(part.current & (part.segment.updated >= since))) for part in recent]
        return _taken(found or [(self.parts[0], np.array([], np.intp))], columns)

    def rows_of(self, ids: "npt.NDArray[np.int64]", columns: Sequence[str]) -> pa.Table:
        """Columns of the rows with these ids, in any order."""
        places = [(part, part.places(ids)) for part in self.parts]
        return _taken([(part, found[found >= 0]) for part, found in places], columns)

    @cached_property
    def texts(self) -> int:
        """Rows of all segments, current or not: BM25's collection."""
        return sum(len(part.segment) for part in self.parts)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(part.segment.nbytes for part in self.parts)

    @cached_property
    def mean_length(self) -> float | None:
        """Mean number of terms of a text; None without any text."""
        return sum(part.segment.words.length for part in self.parts) / self.texts if self.texts else None

    def nearest(
        self,
        vector: "npt.NDArray[np.float32]",
        column: str,  # noqa: ARG002
        limit: int,
        filters: Filters,
        columns: Sequence[str],
    ) -> pa.Table:
        """As `DiskSearch.nearest`; `column` is the one that is in memory."""
        found = [(part, *part.segment.vectors.nearest(vector, part.passing(filters), limit)) for part in self.parts]
        return _answer(found, limit, columns, "similarity")

    def cosines(self, found: pa.Table, column: str, vector: "npt.NDArray[np.float32]") -> "npt.NDArray[np.float32]":  # noqa: ARG002
        """As `DiskSearch.cosines`; `column` is the one of meanings."""
        ids = found["id"].to_numpy()
        measured = np.full(len(ids), UNMEASURED, np.float32)
        for part in self.parts:
            places = part.places(ids)
            here = places >= 0
            measured[here] = part.segment.meanings.cosines(places[here], vector)
        return measured

    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """As `DiskSearch.matching`."""
        terms = {term for term in self.terms(words_of(text)) if term is not None}
        holding = {term: sum(part.segment.words.frequency(term) for part in self.parts) for term in terms}
        weights = {term: inverse_frequency(self.texts, count) for term, count in holding.items() if count}
        found: list[Found] = []
        for part in self.parts:
            scores = part.segment.words.scores(weights, len(part.segment))
            scores *= part.passing(filters)
            rows = best_rows(scores, limit)
            found.append((part, rows, scores[rows]))
        return _answer(found, limit, columns, "score")

    def take(self, ids: Sequence[int], row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:  # noqa: ARG002
        """As `DiskSearch.take`, by the ids alone."""
        return self.rows_of(np.array(ids, np.int64), columns)

    def newest(self, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """As `DiskSearch.newest`."""
        found = []
        for part in self.parts:
            rows = np.flatnonzero(part.passing(filters))
            if len(rows) > limit:
                created = part.segment.created[rows]
                rows = rows[created >= np.partition(created, -limit)[-limit]]
            found.append((part, rows))
        newest = _taken(found, columns).sort_by([("created_at", "descending"), ("id", "descending")])
        return newest.slice(0, limit)


def _answer(found: "Sequence[Found]", limit: int, columns: Sequence[str], measure: str) -> pa.Table:
    """The best `limit` rows of all parts: `id`, the measure, `_rowid` (-1 if it is not known) and `columns`."""
    measured = np.concatenate([values for _, _, values in found])
    best = np.argsort(-measured, kind="stable")[:limit]
    ids = np.concatenate([part.segment.ids[rows] for part, rows, _ in found])
    taken = _taken([(part, rows) for part, rows, _ in found], (ROW_ID.name, *columns)).take(pa.array(best))
    row_ids = taken[ROW_ID.name].cast(pa.int64()).fill_null(-1)
    arrays = [pa.chunked_array([values]) for values in (ids[best], measured[best])]
    return pa.Table.from_arrays([*arrays, row_ids, *taken.columns[1:]], ["id", measure, ROW_ID.name, *columns])


def _taken(found: "Sequence[tuple[Part, Rows]]", columns: Sequence[str]) -> pa.Table:
    """Columns of the rows of several parts, part by part."""
    some = [(part, rows) for part, rows in found if len(rows)] or found[:1]
    return pa.Table.from_batches([part.segment.rows.select(list(columns)).take(pa.array(rows)) for part, rows in some])
