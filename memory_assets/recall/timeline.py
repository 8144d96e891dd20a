"""The timeline: times, sessions, authors and importance of every memory, kept in one array per column.

A LanceDB query for a memory's time, or its neighbours in a session, would take far longer than these arrays, which answer in
microseconds. They are read once; after a commit only the changes are read and merged: 7 ms at 100,000 memories.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Ids, Rows, Times, places_of
from memory_assets.language.words import fold, pieces, words
from memory_assets.models import Source, State
from memory_assets.stores.feed import UNKNOWN, Changes, Position
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import to_arrow

Arrays = Mapping[str, npt.NDArray[Any]]

_COLUMNS = ("id", "created_at", "updated_at", "importance", "session", "author", "state", "source")
_MAX_INSERTED = 1_000
"""Maximum new rows that are inserted one by one; more are sorted together with all others."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ROWS = to_arrow([]).select(list(_COLUMNS))


class Codes:
    """Integer codes of names, from 0; -1 means no name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._of: dict[str, int] = {}
        self._folded: set[str] = set()
        self._called: set[str] = set()
        self._read = 0
        """Number of names whose words are in `_called`."""

    @property
    def called(self) -> set[str]:
        """The `name_words` of all names; only new names are processed."""
        new = self.names[self._read :]
        self._called.update(*map(name_words, new))
        self._read += len(new)
        return self._called

    def has_any(self, folded: Collection[str]) -> bool:
        """Return whether one of some lower-case names has a code, in any casing."""
        return not self._folded.isdisjoint(folded)

    def encoded(self, values: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        encoded = values.combine_chunks().dictionary_encode()
        local = np.array([self._code(name) if name else -1 for name in encoded.dictionary.to_pylist()], np.int32)
        return local[encoded.indices.to_numpy()] if len(local) else np.full(len(values), -1, np.int32)

    def _code(self, name: str) -> int:
        code = self._of.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
            self._folded.add(name.lower())
        return code


@dataclass(frozen=True)
class Timeline:
    """The rows of the `memories` table at a position of its change feed, sorted by session, time and id."""

    position: Position
    sessions: Codes
    authors: Codes
    columns: Arrays
    """`id`; `row_id`, LanceDB's row id when it was read, or -1; `created` and `updated` in microseconds since 1970; `importance`; `active`:
    takes part in recall; `filed`: written by the session as a file, not a turn; `session` and `author`: codes, -1 for none."""

    def __len__(self) -> int:
        return len(self.columns["id"])

    def ids(self) -> Ids:
        return self.columns["id"]

    @cached_property
    def sorted_ids(self) -> Ids:
        return self.columns["id"][self._by_id]

    def rows(self, ids: Ids) -> Rows:
        """Return the row of each id; -1 for unknown ids."""
        return places_of(ids, self.columns["id"], self._by_id)

    def updated(self, ids: Ids) -> Times:
        """Return the time of each memory's last update; `UNKNOWN` for unknown ids."""
        return self.values("updated", self.rows(ids), UNKNOWN)

    def values(self, column: str, rows: Rows, missing: Any) -> npt.NDArray[Any]:
        """Return the values of a column at some rows; `missing` where a row is -1."""
        return np.where(rows >= 0, self.columns[column][rows], missing) if len(self) else np.full(len(rows), missing)

    @cached_property
    def all_active(self) -> bool:
        """Whether every memory is active, so that a search need not filter by state."""
        return bool(self.columns["active"].all())

    @cached_property
    def _by_id(self) -> Rows:
        return np.argsort(self.columns["id"])

    def neighbour(self, rows: Rows, step: int) -> Rows:
        """Return the row `step` places later in the same session; -1 if there is none or the row itself is -1."""
        if not len(self):
            return np.full(len(rows), -1, np.intp)
        session = self.columns["session"]
        beside = np.clip(rows + step, 0, len(self) - 1)
        same = (session[beside] == session[rows]) & (session[rows] >= 0)
        return np.where((rows >= 0) & (beside == rows + step) & same, beside, -1)

    def following(self, changes: Changes) -> "Timeline":
        added = _arrays(changes.rows, self.sessions, self.authors)
        replaced = self.rows(np.union1d(added["id"], changes.gone))
        replaced = replaced[replaced >= 0]
        columns = {name: np.delete(values, replaced) for name, values in self.columns.items()} if len(replaced) else self.columns
        if len(added["id"]) > _MAX_INSERTED:
            columns = _sorted({name: np.concatenate([columns[name], values]) for name, values in added.items()})
        elif len(added["id"]):
            added = _sorted(added)
            keys = zip(*(added[name].tolist() for name in ("session", "created", "id")), strict=True)
            places = [_place(columns, *key) for key in keys]
            columns = {name: np.insert(columns[name], places, values) for name, values in added.items()}
        return replace(self, position=changes.position, columns=columns)


def read_timeline(store: MemoryStore, known: Timeline | None) -> Timeline:
    """Return the timeline of the store's current version; reads only the changes since `known`."""
    if known is None:
        codes = Codes(), Codes()
        nothing = Timeline(Position(0, _NEVER), *codes, _arrays(_NO_ROWS, *codes))
        return nothing.following(store.changes(None, nothing, _COLUMNS))
    if known.position.version == store.version:
        return known
    return known.following(store.changes(known.position, known, _COLUMNS))


def _arrays(rows: pa.Table, sessions: Codes, authors: Codes) -> dict[str, npt.NDArray[Any]]:
    row_ids = rows["_rowid"].cast(pa.int64()).to_numpy() if "_rowid" in rows.column_names else np.full(rows.num_rows, -1)
    return {
        "id": rows["id"].to_numpy(),
        "row_id": row_ids,
        "created": rows["created_at"].cast(pa.int64()).to_numpy(),
        "updated": rows["updated_at"].cast(pa.int64()).to_numpy(),
        "importance": rows["importance"].to_numpy(),
        "active": rows["state"].to_numpy() == State.ACTIVE.value,
        "filed": rows["source"].to_numpy() == Source.CLAUDE_SILO.value,
        "session": sessions.encoded(rows["session"]),
        "author": authors.encoded(rows["author"]),
    }


def _sorted(arrays: Arrays) -> Arrays:
    order = np.lexsort((arrays["id"], arrays["created"], arrays["session"]))
    return {name: values[order] for name, values in arrays.items()}


def _place(columns: Arrays, session: int, created: int, number: int) -> int:
    first, last = np.searchsorted(columns["session"], np.array([session, session + 1], np.int32))
    first, last = first + np.searchsorted(columns["created"][first:last], [created, created + 1])
    return int(first + np.searchsorted(columns["id"][first:last], number))


@lru_cache(maxsize=4_096)
def name_words(name: str) -> frozenset[str]:
    """Return the words of a name by which a question may refer to it; in scripts without spaces, pairs of characters."""
    return frozenset({word for word in words(fold(name)) if len(word) > 2} | {piece for piece in pieces(name) if len(piece) > 1})
