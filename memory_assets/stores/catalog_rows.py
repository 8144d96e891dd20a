"""A table of the catalog that holds rows of another store, as a reader of the change feed."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memory_assets.stores.feed import UNKNOWN

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Ids = npt.NDArray[np.int64]


class CatalogRows:
    """What one table of the catalog holds, by its columns `id` and `updated_at`."""

    def __init__(self, connection: "DuckDBPyConnection", table: str) -> None:
        """Name the table, and a connection to read it with."""
        self._connection = connection
        self._table = table

    def __len__(self) -> int:
        return self._column(f"SELECT count(*) FROM {self._table}")[0].item()

    def ids(self) -> "Ids":
        """Of all rows."""
        return self._column(f"SELECT id FROM {self._table}")

    def updated(self, ids: "Ids") -> "Ids":
        """When each was updated last, in microseconds since 1970; `UNKNOWN` for those that the table lacks."""
        wanted = pa.table({"id": ids, "place": np.arange(len(ids))})
        query = f"""
            SELECT CASE WHEN t.id IS NULL THEN {UNKNOWN} ELSE coalesce(epoch_us(updated_at), 0) END
            FROM wanted w LEFT JOIN (SELECT id, updated_at FROM {self._table} SEMI JOIN wanted USING (id)) t USING (id)
            ORDER BY place
        """
        return self._column(query, wanted)

    def _column(self, query: str, wanted: pa.Table | None = None) -> "Ids":
        if wanted is not None:
            self._connection.register("wanted", wanted)
        return self._connection.execute(query).to_arrow_table().column(0).to_numpy().astype(np.int64)
