"""What recall keeps in memory of every row: when, in which session, by whom, how important. One small array a column.

Searching LanceDB for a memory's neighbours in its session, or for its time, would cost a query each; these arrays answer in
microseconds. They are read once; after a commit only what changed since is read, appended and merged into the order of its session.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.models import State
from memory_assets.recall.arrays import Codes, Columns, Grouping
from memory_assets.stores.feed import UNKNOWN, Changes, Position
from memory_assets.stores.rows import to_arrow

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

    Ids = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

_COLUMNS = ("id", "created_at", "updated_at", "importance", "session", "author", "state")
_MOST = 1_000
"""Outdated rows that are carried along in a small store, and new ones that are merged one by one."""
_SHARE = 0.25
"""The same as a share of the memories, where that is more; beyond it everything is sorted anew."""
_NONE = np.array([], np.intp)
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ROWS = to_arrow([]).select(list(_COLUMNS))


@dataclass(frozen=True)
class Timeline:
    """The rows of the `memories` table as of a position of its change feed. A memory that changes gets another row."""

    position: Position
    sessions: Codes
    authors: Codes
    columns: Columns
    """`id`; `row_id`, where LanceDB kept the row when it was read, or -1; `created` and `updated` in microseconds since 1970; `importance`;
    `active`: it takes part in recall; `session` and `author`: codes, -1 for none."""
    _by_id: Grouping
    _by_session: Grouping
    """Rows in the order of time and id."""
    _memories: int
    _inactive: int

    def __len__(self) -> int:
        """How many memories there are; there may be more rows."""
        return self._memories

    def ids(self) -> "Ids":
        return self._by_id.keys()

    def rows(self, ids: "Ids") -> "Rows":
        """Row of each id; -1 where it is unknown."""
        places, rows = self._by_id.of(ids)
        found = np.full(len(ids), -1, np.intp)
        found[places] = rows
        return found

    def updated(self, ids: "Ids") -> "npt.NDArray[np.int64]":
        """When each memory was updated last, in microseconds since 1970; `UNKNOWN` for those that are not here."""
        rows = self.rows(ids)
        return np.where(rows >= 0, self.columns["updated"][rows], UNKNOWN) if len(self.columns) else rows

    @property
    def all_active(self) -> bool:
        """Whether every memory is active, so that no search needs to look at the state of each."""
        return not self._inactive

    def neighbour(self, rows: "Rows", step: int) -> "Rows":
        """The row that lies `step` places later in the same session; -1 where there is none or the row itself is -1."""
        found = np.full(len(rows), -1, np.intp)
        valid = np.flatnonzero(rows >= 0)
        sessions = self.columns["session"][rows[valid]]
        valid, sessions = valid[sessions >= 0], sessions[sessions >= 0]
        found[valid] = self._by_session.beside(sessions, rows[valid], step)
        return found

    def following(self, changes: Changes) -> "Timeline":
        """The timeline after some changes, at a cost that follows them."""
        added = _arrays(changes.rows, self.sessions, self.authors)
        replaced = self.rows(np.union1d(added["id"], changes.gone))
        replaced = replaced[replaced >= 0]
        columns = self.columns.grown(added)
        memories = self._memories - len(replaced) + len(added["id"])
        new = np.arange(len(self.columns), len(columns))
        if max(len(columns) - memories, len(new)) > max(_MOST, _SHARE * memories):
            current = np.concatenate([np.setdiff1d(self.rows(self.ids()), replaced), new])
            arrays = {name: columns[name][current] for name in added}
            return _sorted(changes.position, self.sessions, self.authors, arrays)
        ids = {int(number): _NONE for number in changes.gone} | {
            number: np.array([row]) for number, row in zip(added["id"].tolist(), new.tolist(), strict=True)
        }
        inactive = self._inactive - int((~self.columns["active"][replaced]).sum()) + int((~added["active"]).sum())
        by_session = self._by_session.changed(self._sessions_after(columns, replaced, new))
        return Timeline(
            changes.position, self.sessions, self.authors, columns, self._by_id.changed(ids), by_session, memories, inactive
        )

    def _sessions_after(self, columns: Columns, replaced: "Rows", new: "Rows") -> "dict[int, Rows]":
        """The rows of the sessions that some rows leave and others join."""
        session, created, ids = columns["session"], columns["created"], columns["id"]
        joining: dict[int, list[int]] = defaultdict(list)
        for row in new.tolist():
            joining[int(session[row])].append(row)
        after = {}
        for code in (joining.keys() | set(session[replaced].tolist())) - {-1}:
            rows = self._by_session.rows_of(code)
            rows = rows[~np.isin(rows, replaced)]
            for row in joining[code]:
                first, last = np.searchsorted(created[rows], [created[row], created[row] + 1])
                rows = np.insert(rows, first + np.searchsorted(ids[rows[first:last]], ids[row]), row)
            after[code] = rows
        return after


def read_timeline(store: "MemoryStore", known: Timeline | None) -> Timeline:
    """The timeline of the store's present version; from `known`, only what changed since is read."""
    if known is None:
        codes = Codes(), Codes()
        nothing = _sorted(Position(0, _NEVER), *codes, _arrays(_NO_ROWS, *codes))
        return nothing.following(store.changes(None, nothing, _COLUMNS))
    if known.position.version == store.version:
        return known
    return known.following(store.changes(known.position, known, _COLUMNS))


def _arrays(rows: pa.Table, sessions: Codes, authors: Codes) -> "dict[str, npt.NDArray[Any]]":
    row_ids = rows["_rowid"].cast(pa.int64()).to_numpy() if "_rowid" in rows.column_names else np.full(rows.num_rows, -1)
    return {
        "id": rows["id"].to_numpy(),
        "row_id": row_ids,
        "created": rows["created_at"].cast(pa.int64()).to_numpy(),
        "updated": rows["updated_at"].cast(pa.int64()).to_numpy(),
        "importance": rows["importance"].to_numpy(),
        "active": rows["state"].to_numpy() == State.ACTIVE.value,
        "session": sessions.encoded(rows["session"]),
        "author": authors.encoded(rows["author"]),
    }


def _sorted(position: Position, sessions: Codes, authors: Codes, arrays: "dict[str, npt.NDArray[Any]]") -> Timeline:
    ids, session = arrays["id"], arrays["session"]
    by_id = np.argsort(ids)
    within = np.flatnonzero(session >= 0)
    by_session = within[np.lexsort((ids[within], arrays["created"][within], session[within]))]
    return Timeline(
        position,
        sessions,
        authors,
        Columns(arrays),
        Grouping.of_sorted(ids[by_id], by_id),
        Grouping.of_sorted(session[by_session].astype(np.int64), by_session),
        len(ids),
        int((~arrays["active"]).sum()),
    )
