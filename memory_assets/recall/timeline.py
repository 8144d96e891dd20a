"""What recall keeps in memory of every row: when, in which session, by whom, how important. One small array a column.

Searching LanceDB for a memory's neighbours in its session, or for its time, would cost a query each; these arrays answer in
microseconds. They are read once, and after a commit only what changed since is read.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memory_assets.models import State

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

_COLUMNS = ("id", "created_at", "updated_at", "importance", "session", "author", "state")
_CLOCK_SLACK = timedelta(minutes=10)
"""How far the clocks of two writers may differ, and how long one commit may take after its time was read."""


@dataclass(frozen=True)
class Timeline:
    """The rows of one version of the `memories` table, sorted by id."""

    version: int
    ids: "npt.NDArray[np.int64]"
    row_ids: "npt.NDArray[np.int64]"
    """Where LanceDB kept the rows when they were read; a row that was moved since is no longer there."""
    created: "npt.NDArray[np.int64]"
    """Microseconds since 1970, UTC."""
    importance: "npt.NDArray[np.float32]"
    active: "npt.NDArray[np.bool_]"
    session: "npt.NDArray[np.int32]"
    """Code of the session; -1 for none."""
    author: "npt.NDArray[np.int32]"
    """Code of the author; -1 for none."""
    sessions: tuple[str, ...]
    authors: tuple[str, ...]
    updated_until: datetime
    """The newest `updated_at` among the rows."""

    def rows(self, ids: "npt.NDArray[np.int64]") -> "npt.NDArray[np.intp]":
        """Row of each id; -1 where it is unknown."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.intp)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, places, -1)

    @cached_property
    def all_active(self) -> bool:
        """Whether every memory is active, so that no search needs to look at the state of each."""
        return bool(self.active.all())

    @cached_property
    def _session_order(self) -> "tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]":
        """Rows ordered by session, time and id; and the place of each row in that order."""
        order = np.lexsort((self.ids, self.created, self.session))
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        return order, place

    def neighbour(self, rows: "npt.NDArray[np.intp]", step: int) -> "npt.NDArray[np.intp]":
        """The row that lies `step` places later in the same session; -1 where there is none or the row itself is -1."""
        if not len(self.ids):
            return np.full(len(rows), -1, np.intp)
        order, place = self._session_order
        wanted = place[rows] + step
        found = order[np.clip(wanted, 0, len(order) - 1)]
        valid = (rows >= 0) & (wanted >= 0) & (wanted < len(order)) & (self.session[found] == self.session[rows])
        return np.where(valid & (self.session[rows] >= 0), found, -1)


def read_timeline(store: "MemoryStore", known: Timeline | None) -> Timeline:
    """The timeline of the store's present version; from `known`, only what changed since is read.

    Raises:
        StoreError: the store cannot be read.
    """
    version = store.version
    if known is not None:
        if known.version == version:
            return known
        since = known.updated_until - _CLOCK_SLACK
        changed = store.scan(_COLUMNS, f"updated_at >= timestamp '{since.strftime('%Y-%m-%d %H:%M:%S.%f')}+00:00'", row_ids=True)
        merged = _merged(known, changed, version)
        if len(merged.ids) == len(store):
            return merged
    return _merged(None, store.scan(_COLUMNS, row_ids=True), version)


def _merged(known: Timeline | None, rows: pa.Table, version: int) -> Timeline:
    rows = rows.sort_by("id")
    ids = rows["id"].to_numpy()
    columns = {
        "row_ids": rows["_rowid"].cast(pa.int64()).to_numpy(),
        "created": rows["created_at"].cast(pa.int64()).to_numpy(),
        "importance": rows["importance"].to_numpy(),
        "active": rows["state"].to_numpy() == State.ACTIVE.value,
    }
    codes: dict[str, tuple[str, ...]] = {}
    for name, names in (("session", known.sessions if known else ()), ("author", known.authors if known else ())):
        columns[name], codes[name] = _encoded(rows[name], names)
    micros = int(rows["updated_at"].cast(pa.int64()).to_numpy().max(initial=0))
    newest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    if known is not None:
        kept = ~np.isin(known.ids, ids)
        order = np.argsort(np.concatenate([known.ids[kept], ids]), kind="stable")
        columns = {name: np.concatenate([getattr(known, name)[kept], values])[order] for name, values in columns.items()}
        ids = np.concatenate([known.ids[kept], ids])[order]
        newest = max(newest, known.updated_until)
    return Timeline(
        version=version,
        ids=ids,
        row_ids=columns["row_ids"],
        created=columns["created"],
        importance=columns["importance"],
        active=columns["active"],
        session=columns["session"],
        author=columns["author"],
        sessions=codes["session"],
        authors=codes["author"],
        updated_until=newest,
    )


def _encoded(values: pa.ChunkedArray, names: tuple[str, ...]) -> "tuple[npt.NDArray[np.int32], tuple[str, ...]]":
    """Codes of the values, continuing the codes of `names`; -1 for an empty value."""
    encoded = values.combine_chunks().dictionary_encode()
    code_of = {name: code for code, name in enumerate(names)}
    local = [-1 if not name else code_of.setdefault(name, len(code_of)) for name in encoded.dictionary.to_pylist()]
    if not local:
        return np.full(len(values), -1, np.int32), names
    return np.array(local, np.int32)[encoded.indices.to_numpy()], tuple(code_of)
