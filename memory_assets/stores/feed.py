"""The change feed of a table: what changed since it was last read, at a cost that follows the change.

Every commit sets the `updated_at` of the rows it changes, and an index on it finds them. Deletions show in the number of rows; only
then all ids are compared. docs/decisions says why LanceDB's row versions are not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Ids, Times
from memory_assets.stores import lance

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from lancedb.table import Table

    from memory_assets.stores.resident.snapshot import Snapshot


CLOCK_SLACK = timedelta(minutes=10)
"""How far the clocks of two writers may differ, and how long one commit may take after its time was read."""
UNKNOWN = -1
"""The time of a row that a reader lacks."""
_ATTEMPTS = 3
"""How often recent rows and their number are read until no commit came between."""
_MANY = 20_000
"""Rows from which it is cheaper to read all than to look each up."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table has been read."""

    version: int
    """Every commit up to this version of the table is included."""
    read_at: datetime
    """The reader's clock just before."""


class Known(Protocol):
    """What a reader of the feed holds already."""

    def __len__(self) -> int: ...

    def ids(self) -> Ids: ...

    def updated(self, ids: Ids) -> Times:
        """The `updated_at` with which it holds each row; `UNKNOWN` where it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """What a reader lacks."""

    position: Position
    rows: pa.Table
    """The columns asked for, of rows that are new or changed."""
    gone: Ids
    """Ids that it holds and the table no longer has."""

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows or len(self.gone))


def read_changes(table: "TableRows | Snapshot", since: Position | None, known: Known, columns: Sequence[str]) -> Changes:
    """What changed in a table since a position, where an earlier reading ended that gave `known`.

    None reads all; so does a version beyond that of the table, which was replaced then, and a time ahead of the clock, which was set
    back: commits since then have an earlier time. `columns` are read, `id` among them.
    """
    here = Position(table.version, datetime.now(UTC))
    if since is None or here.version < since.version or here.read_at < since.read_at - CLOCK_SLACK:
        rows = table.rows(columns)
        return Changes(here, rows, np.setdiff1d(known.ids(), rows["id"].to_numpy()))
    attempts = _ATTEMPTS
    while True:
        recent = table.updated_since(since.read_at - CLOCK_SLACK, ("id", "updated_at"))
        ids, times = recent["id"].to_numpy(), recent["updated_at"].cast(pa.int64()).fill_null(0).to_numpy()
        held = known.updated(ids)
        balanced = len(table) == len(known) + int((held == UNKNOWN).sum())
        attempts -= 1
        if balanced or not attempts or table.version == here.version:
            break
        here = Position(table.version, datetime.now(UTC))
    wanted, gone = ids[held != times], np.array([], np.int64)
    if not balanced:
        present, kept = table.ids(), known.ids()
        gone = np.setdiff1d(kept, present)
        wanted = np.union1d(np.setdiff1d(wanted, gone), np.setdiff1d(present, kept))
    return Changes(here, table.rows_of(wanted, columns), gone)


@dataclass(frozen=True, slots=True)
class TableRows:
    """A LanceDB table as the feed reads it, with its `_rowid` beside the columns if asked for."""

    table: "Table"
    row_ids: bool = False

    @property
    def version(self) -> int:
        return self.table.version

    def __len__(self) -> int:
        return self.table.count_rows()

    def ids(self) -> Ids:
        return self._read(("id",), "true", row_ids=False)["id"].to_numpy()

    def rows(self, columns: Sequence[str]) -> pa.Table:
        return self._read(columns, "true", row_ids=self.row_ids)

    def updated_since(self, moment: datetime, columns: Sequence[str]) -> pa.Table:
        return self._read(columns, f"updated_at >= {lance.timestamp(moment)}", row_ids=False)

    def rows_of(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        if len(ids) > _MANY:
            rows = self.rows(columns)
            return rows.filter(pa.array(np.isin(rows["id"].to_numpy(), ids)))
        return self._read(columns, lance.ids_in(ids.tolist()), row_ids=self.row_ids)

    def _read(self, columns: Sequence[str], where: str, *, row_ids: bool) -> pa.Table:
        return self.table.search().where(where).select(list(columns)).with_row_id(row_ids).to_arrow()


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of one table of the catalog, by its columns `id` and `updated_at`."""

    connection: "DuckDBPyConnection"
    table: str

    def __len__(self) -> int:
        return self._column(f"SELECT count(*) FROM {self.table}")[0].item()

    def ids(self) -> Ids:
        return self._column(f"SELECT id FROM {self.table}")

    def updated(self, ids: Ids) -> Times:
        """When each was updated last; `UNKNOWN` for those that the table lacks."""
        wanted = pa.table({"id": ids, "place": np.arange(len(ids))})
        query = f"""
            SELECT CASE WHEN t.id IS NULL THEN {UNKNOWN} ELSE coalesce(epoch_us(updated_at), 0) END
            FROM wanted w LEFT JOIN (SELECT id, updated_at FROM {self.table} SEMI JOIN wanted USING (id)) t USING (id)
            ORDER BY place
        """
        return self._column(query, wanted)

    def _column(self, query: str, wanted: pa.Table | None = None) -> Ids:
        if wanted is not None:
            self.connection.register("wanted", wanted)
        return self.connection.execute(query).to_arrow_table().column(0).to_numpy().astype(np.int64)
