"""The resident memories of one table: immutable segments, and what happens to them when the table changes.

Appends of this process are handed over as they are committed. Everything else (changes, deletions, other processes' commits) comes
from the table's change feed, of which the copy is a reader, and in turn the source for what is kept beside it. New rows form small
segments that are merged as they grow, so that each is merged some ten times on its way into the large one (a log-structured merge
tree).
"""

import logging
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from memory_assets.stores import feed
from memory_assets.stores.feed import UNKNOWN, Position, read_changes
from memory_assets.stores.filters import Filters
from memory_assets.stores.resident.segment import Segment, microseconds
from memory_assets.stores.resident.words import best_rows, inverse_frequency, words_of

if TYPE_CHECKING:
    import numpy.typing as npt
    from lancedb.table import Table

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    Found = tuple["_Part", Rows, npt.NDArray[np.floating]]
    """Rows of a part and what was measured of each."""

_log = logging.getLogger(__name__)
_INLINE = 2_000
"""Rows up to which segments are merged as they come; larger ones wait for `tend`."""
_OUTSIDE = 0.1
"""Share of the rows outside of the largest segment, or no longer current, from which all are merged."""
_MOST_SEGMENTS = 8
"""Large segments from which all but the largest are merged."""
_MOST_CHANGED = 20_000
"""Changed rows from which it is cheaper to read everything anew."""
_COMPARED_AGAIN_SECONDS = 30.0
"""After which the table is compared even where the number of versions says that nobody else has written."""
_STEMS_KEPT = 50_000
_WORDS_AT_ONCE = 4_096
_NOT_INFLECTED = re.compile(r"[a-z0-9]{0,39}[0-9]")
"""Ticket numbers and the like, which stemming leaves alone."""
_MARK = "sentinel"
"""Stands before and behind each batch of words; how far apart the two are tells that the tokenizer took each for one word."""


@dataclass(frozen=True)
class _Part:
    """A segment, and which of its rows still are what the table holds."""

    segment: Segment
    current: "Mask"

    @classmethod
    def whole(cls, segment: Segment) -> "_Part":
        return cls(segment, np.ones(len(segment), bool))

    @cached_property
    def _active(self) -> "Mask":
        return self.current & self.segment.active

    @cached_property
    def rows(self) -> int:
        return int(self.current.sum())

    def places(self, ids: "npt.NDArray[np.int64]") -> "Rows":
        """Row of each id; -1 where it is not here, or no longer current."""
        places = self.segment.places(ids)
        return np.where((places >= 0) & self.current[places], places, -1) if len(self.segment) else places

    def passing(self, filters: Filters) -> "Mask":
        return self._active if filters == Filters() else self.current & self.segment.passing(filters)

    def without(self, ids: "npt.NDArray[np.int64]") -> "_Part":
        places = self.segment.places(ids)
        places = places[places >= 0]
        if not self.current[places].any():
            return self
        current = self.current.copy()
        current[places] = False
        return _Part(self.segment, current)


@dataclass(frozen=True)
class _Snapshot:
    """What one version of the table holds: a reader of its change feed, and what that feed can be read from in its stead."""

    position: Position
    column: str
    parts: tuple[_Part, ...]
    appends: int = 0
    """Commits since then that this process made by appending, and that the parts hold."""

    @property
    def version(self) -> int:
        """The table's, where nobody else has written since."""
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
        return sum(len(part.segment) for part in self.parts)

    @cached_property
    def mean_length(self) -> float | None:
        return sum(part.segment.words.length for part in self.parts) / self.texts if self.texts else None


def _worth_merging(snapshot: _Snapshot) -> list[_Part]:
    large = [part for part in snapshot.parts if len(part.segment) > _INLINE // 2]
    if not large:
        return []
    largest = max(large, key=lambda part: len(part.segment))
    rows = sum(len(part.segment) for part in large)
    if rows - largest.rows > _OUTSIDE * rows:
        return large
    return [part for part in large if part is not largest] if len(large) > _MOST_SEGMENTS else []


class Allowance:
    """So many memories may be resident in this process, over all tables."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._taken: WeakKeyDictionary[ResidentMemories, int] = WeakKeyDictionary()

    def grant(self, asking: "ResidentMemories", rows: int) -> bool:
        """Whether one table may have so many rows, instead of what it had; who came first goes on."""
        self._taken.pop(asking, None)
        if sum(self._taken.values()) + rows > self.rows:
            return False
        self._taken[asking] = rows
        return True


class ResidentMemories:
    """The rows of a `memories` table in memory. Any thread may ask; None is the answer while they are not loaded."""

    def __init__(self, table: "Table", allowance: Allowance, freshness: float) -> None:
        """Keep nothing yet.

        Args:
            table: the table, with its full-text index.
            allowance: a table that it does not grant is not kept.
            freshness: seconds within which commits of other processes are seen.
        """
        self.table = table
        self._allowance = allowance
        self._freshness = freshness
        self._snapshot: _Snapshot | None = None
        self._writing = threading.Lock()
        self._looked_at = self._compared_at = 0.0
        self._stale = False
        self._stems: dict[str, str | None] = {}

    @property
    def loaded(self) -> bool:
        """Whether questions are answered."""
        return self._snapshot is not None

    # Keeping up with the table

    def tend(self, column: str | None) -> None:
        """Load the table where that has not been done, or merge what is worth it; takes its time, so do it in the background.

        Args:
            column: the live vector column.
        """
        snapshot = self._snapshot
        if snapshot is None or snapshot.column != column or not self._allowance.grant(self, snapshot.texts):
            self._load(column)
        else:
            self._merge(snapshot)

    def appended(self, rows: pa.Table, column: str, version: int) -> None:
        """Take over rows with new ids that this process appended; never fails, as that is done.

        Args:
            rows: what was appended.
            column: the vector column.
            version: of the table, at or after the commit.
        """
        if self._snapshot is None:
            self._stale = True
            return
        with self._writing:
            snapshot = self._snapshot
            if snapshot is None or version <= snapshot.position.version:
                return
            try:
                self._snapshot = self._grown(snapshot, rows, column)
            except Exception:  # noqa: BLE001  whatever is wrong here must not look like a store that failed
                self._snapshot = None
                _log.exception("the memories of %s are loaded anew", self.table.name)

    def _grown(self, snapshot: _Snapshot, rows: pa.Table, column: str) -> _Snapshot | None:
        if column != snapshot.column:
            return None
        ids = rows["id"].to_numpy()
        new = np.all([part.segment.places(ids) < 0 for part in snapshot.parts], axis=0)
        rows = rows.filter(pa.array(new))
        if not rows.num_rows:
            return snapshot
        added = Segment.of(rows.to_batches(), rows.schema, column, self._terms, snapshot.mean_length)
        return _Snapshot(snapshot.position, column, self._with(snapshot.parts, added), snapshot.appends + 1)

    def changed(self) -> None:
        """Compare with the table before the next answer, because this process changed it otherwise than by appending."""
        self._stale = True

    def _load(self, column: str | None) -> None:
        with self._writing:
            self._snapshot = None
            self._looked_at, self._stale = monotonic(), False
            here = Position(self.table.version, datetime.now(UTC))
            if column is None or not self._allowance.grant(self, self.table.count_rows()):
                return
            self._snapshot = _Snapshot(here, column, (_Part.whole(self._read(column, "true", None)),))

    def held(self) -> "_Snapshot | None":
        """What the change feed can be read from instead of the table; None while that is not loaded."""
        return self._latest()

    def _latest(self) -> _Snapshot | None:
        if self._snapshot is not None and self._is_due():
            with self._writing:
                if self._snapshot is not None and self._is_due():
                    self._look(self._snapshot)
        return self._snapshot

    def _look(self, known: _Snapshot) -> None:
        self._looked_at, self._stale = monotonic(), False
        try:
            self.table.checkout_latest()
            version = self.table.version
            if version == known.version and monotonic() - self._compared_at < _COMPARED_AGAIN_SECONDS:
                self._snapshot = replace(known, position=replace(known.position, version=version), appends=0)
            elif version > known.position.version:
                self._compared_at = monotonic()
                self._snapshot = self._compared(known)
        except Exception:  # noqa: BLE001  whatever is wrong here, the table on disk can be asked
            self._snapshot = None
            _log.exception("the memories of %s are loaded anew", self.table.name)

    def _is_due(self) -> bool:
        return self._stale or monotonic() - self._looked_at > self._freshness

    def _compared(self, known: _Snapshot) -> _Snapshot | None:
        """The snapshot after the commits until now; None where so much has changed that it is better loaded anew."""
        changes = read_changes(feed.Rows(self.table), known.position, known, ("id",))
        missing = changes.rows["id"].to_numpy()
        if len(missing) > _MOST_CHANGED:
            return None
        parts = tuple(part.without(changes.gone) for part in known.parts)
        if len(missing):
            added = self._read(known.column, f"id IN ({', '.join(map(str, missing.tolist()))})", known.mean_length)
            parts = self._with(parts, added)
        return _Snapshot(changes.position, known.column, parts)

    def _with(self, parts: Sequence[_Part], added: Segment) -> tuple[_Part, ...]:
        """The parts with another segment, of which small ones are merged; where both have a row, the new one counts."""
        changed = [*(part.without(added.ids) for part in parts), _Part.whole(added)]
        while len(changed) > 1:
            last, before = len(changed[-1].segment), len(changed[-2].segment)
            if 2 * last <= before or last + before > _INLINE:
                break
            changed[-2:] = [_Part.whole(self._joined(changed[-2:]))]
        return tuple(changed)

    @property
    def needs_tending(self) -> bool:
        """Whether `tend` has something to do."""
        snapshot = self._snapshot
        return snapshot is None or bool(_worth_merging(snapshot))

    def use(self, table: "Table") -> None:
        """Go on with another handle on the same table."""
        with self._writing:
            self.table = table

    def _merge(self, snapshot: _Snapshot) -> None:
        """Merge large segments where that is worth it, while answers and appends go on."""
        large = _worth_merging(snapshot)
        if not large:
            return
        joined = _Part.whole(self._joined(large))
        with self._writing:
            present = self._snapshot
            if present is None:
                return
            now = {id(part.segment): part for part in present.parts}
            if not all(id(part.segment) in now for part in large):
                return
            for part in large:
                lost = part.current & ~now.pop(id(part.segment)).current
                joined = joined.without(part.segment.ids[lost])
            parts = sorted([joined, *now.values()], key=lambda part: -len(part.segment))
            self._snapshot = replace(present, parts=tuple(parts))

    def _joined(self, parts: Sequence[_Part]) -> Segment:
        kept = [(part.segment, part.current) for part in parts]
        return Segment.joined(kept, self._terms, self._snapshot.mean_length if self._snapshot else None)

    def _read(self, column: str, where: str, mean_length: float | None) -> Segment:
        schema = self.table.schema
        others = [field.name for field in schema if pa.types.is_fixed_size_list(field.type) and field.name != column]
        names = [name for name in schema.names if name not in others]
        batches = self.table.search().where(where).select(names).to_batches()
        return Segment.of(batches, batches.schema, column, self._terms, mean_length)

    def _terms(self, words: Sequence[str]) -> list[str | None]:
        """The term that the table's full-text index makes of each word."""
        known = self._stems
        found: dict[str, str | None] = {word: word for word in words if _NOT_INFLECTED.fullmatch(word)}
        unknown = [word for word in words if word and word not in known and word not in found]
        for start in range(0, len(unknown), _WORDS_AT_ONCE):
            found |= self._tokenized(unknown[start : start + _WORDS_AT_ONCE])
        if len(known) + len(found) > _STEMS_KEPT:
            self._stems = {}
        else:
            known.update(found)
        return [found[word] if word in found else known.get(word) for word in words]

    def _tokenized(self, words: Sequence[str]) -> dict[str, str | None]:
        first, *tokens, last = self.table.tokenize(" ".join([_MARK, *words, _MARK]), column="indexed_text")
        if last.position - first.position == len(words) + 1:
            terms: dict[str, str | None] = dict.fromkeys(words)
            return terms | {words[token.position - first.position - 1]: token.text for token in tokens}
        if len(words) == 1:
            return {words[0]: tokens[0].text if tokens else None}
        half = len(words) // 2
        return self._tokenized(words[:half]) | self._tokenized(words[half:])

    # Answers

    def nearest(
        self,
        vector: "npt.NDArray[np.float32]",
        column: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str],
        between: tuple[float, float],
    ) -> pa.Table | None:
        """As `MemoryStore.nearest`, among the vectors of `column`."""
        snapshot = self._latest()
        if snapshot is None or snapshot.column != column:
            return None
        found: list[Found] = []
        for part in snapshot.parts:
            allowed = part.passing(filters) & part.segment.embedded
            found.append((part, *part.segment.vectors.nearest(vector, allowed, limit, between)))
        return _answer(found, limit, columns, "similarity")

    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table | None:
        """As `MemoryStore.matching`."""
        snapshot = self._latest()
        if snapshot is None:
            return None
        terms = {term for term in self._terms(words_of(text)) if term is not None}
        holding = {term: sum(part.segment.words.frequency(term) for part in snapshot.parts) for term in terms}
        weights = {term: inverse_frequency(snapshot.texts, count) for term, count in holding.items() if count}
        found: list[Found] = []
        for part in snapshot.parts:
            scores = part.segment.words.scores(weights, len(part.segment))
            scores *= part.passing(filters)
            rows = best_rows(scores, limit)
            found.append((part, rows, scores[rows]))
        return _answer(found, limit, columns, "score")

    def take(self, ids: Sequence[int], columns: Sequence[str]) -> pa.Table | None:
        """The given columns of the memories with these ids, in any order; those that are not there are left out."""
        snapshot = self._latest()
        if snapshot is None:
            return None
        return snapshot.rows_of(np.array(ids, np.int64), columns)

    def newest(self, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table | None:
        """The given columns of the memories that were created last, newest first; of those of one time, by falling id."""
        snapshot = self._latest()
        if snapshot is None:
            return None
        found = []
        for part in snapshot.parts:
            rows = np.flatnonzero(part.passing(filters))
            if len(rows) > limit:
                created = part.segment.created[rows]
                rows = rows[created >= np.partition(created, -limit)[-limit]]
            found.append((part, rows))
        newest = _taken(found, columns).sort_by([("created_at", "descending"), ("id", "descending")])
        return newest.slice(0, limit)


def _answer(found: "Sequence[Found]", limit: int, columns: Sequence[str], measure: str) -> pa.Table:
    """A table of the best `limit` of all parts: `id`, what was measured, `_rowid` (unknown, -1) and the columns asked for."""
    measured = np.concatenate([values for _, _, values in found])
    best = np.argsort(-measured, kind="stable")[:limit]
    ids = np.concatenate([part.segment.ids[rows] for part, rows, _ in found])
    arrays = [pa.chunked_array([values]) for values in (ids[best], measured[best], np.full(len(best), -1))]
    if columns:
        arrays += _taken([(part, rows) for part, rows, _ in found], columns).take(pa.array(best)).columns
    return pa.Table.from_arrays(arrays, ["id", measure, "_rowid", *columns])


def _taken(found: "Sequence[tuple[_Part, Rows]]", columns: Sequence[str]) -> pa.Table:
    """Columns of the rows of several parts, part by part."""
    tables = [part.segment.take(rows, columns) for part, rows in found if len(rows)]
    return pa.concat_tables(tables or [part.segment.take(rows, columns) for part, rows in found[:1]])
