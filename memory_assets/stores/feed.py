"""The change feed of a table: rows that changed since a reader's last version, at a cost proportional to the change.

Every commit sets the `updated_at` of the rows it changes, and an index on that column finds them. All rows are compared if that does not
explain every commit: a deletion, upkeep, or a writer whose clock was behind. The rows of one commit have the same time, except appends of
several processes that are committed together: these can hide a commit of such a writer. docs/decisions says why LanceDB's row versions are
not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Ids, Times

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.resident.snapshot import Snapshot
    from memory_assets.stores.search import DiskSearch


CLOCK_SLACK = timedelta(minutes=10)
"""Most that clocks may differ for changes to be found by the index, plus the time from reading the clock to the end of a commit."""
UNKNOWN = -1
"""`updated_at` of a row that a reader lacks."""
_ATTEMPTS = 3
"""How often recent rows and the number of rows are read until no commit comes between."""


def microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970."""
    return pa.scalar(moment, pa.timestamp("us", tz="UTC")).value


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a reader in the feed."""

    version: int
    """Every commit up to this version is included."""
    read_at: datetime
    """The reader's clock just before it read."""


class Known(Protocol):
    """The rows that a reader already holds."""

    def __len__(self) -> int: ...

    def ids(self) -> Ids: ...

    def updated(self, ids: Ids) -> Times:
        """Return the `updated_at` that the reader knows for each row; `UNKNOWN` for rows that it lacks."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows that changed since a reader's last version."""

    position: Position
    rows: pa.Table
    """The requested columns of new or changed rows."""
    gone: Ids
    """Ids that the reader holds and the table no longer has."""

    def __bool__(self) -> bool:
        return bool(self.rows.num_rows or len(self.gone))


def read_changes(table: "DiskSearch | Snapshot", since: Position | None, known: Known, columns: Sequence[str]) -> Changes:
    """Return the changes of a table since a position, at which the reader held `known`. `columns` are read, `id` among them.

    Reads everything if `since` is None, if its version is beyond the table's (the table was replaced), or if its time is ahead of the
    clock (the clock was set back, so later commits have an earlier time).
    """
    here = Position(table.version, datetime.now(UTC))
    if since is None or here.version < since.version or here.read_at < since.read_at - CLOCK_SLACK:
        rows = table.rows(columns)
        return Changes(here, rows, np.setdiff1d(known.ids(), rows["id"].to_numpy()))
    attempts = _ATTEMPTS
    while True:
        ids, times = _split(table.updated_since(since.read_at - CLOCK_SLACK))
        held = known.updated(ids)
        balanced = len(table) == len(known) + int((held == UNKNOWN).sum())
        attempts -= 1
        if balanced or not attempts or table.version == here.version:
            break
        here = Position(table.version, datetime.now(UTC))
    changed, gone = held != times, np.array([], np.int64)
    if not balanced or len(np.unique(times[changed])) < here.version - since.version:
        ids, times = _split(table.rows(("id", "updated_at")))
        changed, gone = known.updated(ids) != times, np.setdiff1d(known.ids(), ids)
    return Changes(here, table.rows_of(ids[changed], columns), gone)


def _split(rows: pa.Table) -> tuple[Ids, Times]:
    return rows["id"].to_numpy(), rows["updated_at"].cast(pa.int64()).fill_null(0).to_numpy()


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of a catalog table with columns `id` and `updated_at`."""

    connection: "DuckDBPyConnection"
    table: str

    def __len__(self) -> int:
        return self._column(f"SELECT count(*) FROM {self.table}")[0].item()

    def ids(self) -> Ids:
        return self._column(f"SELECT id FROM {self.table}")

    def updated(self, ids: Ids) -> Times:
        """Return when each row was last updated; `UNKNOWN` for rows that the table lacks."""
        wanted = pa.table({"id": ids, "place": np.arange(len(ids))})
        query = f"""
            SELECT CASE WHEN t.id IS NULL THEN {UNKNOWN} ELSE coalesce(epoch_us(updated_at), 0) END
            FROM wanted w LEFT JOIN (SELECT id, updated_at FROM {self.table} SEMI JOIN wanted USING (id)) t USING (id)
            ORDER BY place
        """
        self.connection.register("wanted", wanted)
        return self._column(query)

    def _column(self, query: str) -> Ids:
        return self.connection.execute(query).to_arrow_table().column(0).to_numpy().astype(np.int64)
