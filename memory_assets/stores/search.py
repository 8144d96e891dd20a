"""Searches of the `memories` table on disk. `resident.snapshot` answers the same searches from memory."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Floats, Ids
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.filters import Filters
from memory_assets.stores.schema import MEMORIES
from memory_assets.stores.tables import StoredTable
from memory_assets.stores.upkeep import SMALLEST, probes

UNMEASURED = -2.0
"""Value for the cosine of a memory without a vector; below every cosine."""
_MAX_LOOKUPS = 20_000
"""Number of rows from which reading all is cheaper than looking each up."""
_MAX_MEASURED, _MEASURED_SHARE = 10_000, 64
"""Most rows passing a filter, and of how many rows one, whose vectors are all compared: reading the whole index takes longer."""
_SPANS = (timedelta(hours=1), timedelta(days=1), timedelta(days=20), timedelta(days=400), None)
"""Time spans that are searched for the newest memories, one after another, until there are enough."""


class DiskSearch:
    """Searches that use the table's indices. Every result is a table of the requested columns and those that the method names."""

    def __init__(self, stored: StoredTable) -> None:
        self._stored = stored
        self._counts: dict[str | None, int] = {}
        self._counted_at = -math.inf

    def nearest(self, vector: Floats, column: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """Return `id`, `similarity` and `_rowid` of the memories with the nearest vectors in `column`, best first.

        A small table, or one of which few rows pass, is searched exactly, any other by the vector index.
        """
        where, rows = _condition(filters), self._count_rows(None)
        passing = rows if where is None else self._count_rows(where)
        query: Any = self._stored.reading.search(vector, vector_column_name=column)
        query = query.distance_type("cosine")
        if where is not None and passing <= min(_MAX_MEASURED, rows // _MEASURED_SHARE) and rows >= SMALLEST:
            few = self._scan(where, ["id"])  # so that only their vectors are read
            best = np.argsort(-self.cosines(few, column, vector), kind="stable")[:limit]
            query, where = query.bypass_vector_index(), lance.ids_in(few["id"].to_numpy()[best].tolist())
        else:
            query = query.nprobes(probes(rows, passing, limit)).refine_factor(1)  # otherwise LanceDB returns twice the distance
        found = _run_query(query, ["id", *columns, "_distance"], limit, where)
        similarity = pa.array(1.0 - found["_distance"].to_numpy())
        return found.drop_columns("_distance").append_column("similarity", similarity)

    def _count_rows(self, where: str | None) -> int:
        """Return about how many rows satisfy a condition: counted again after the table's freshness has passed."""
        if monotonic() - self._counted_at > self._stored.freshness:
            self._counts, self._counted_at = {}, monotonic()
        counts = self._counts
        if where not in counts:
            counts[where] = self._stored.reading.count_rows(where)
        return counts[where]

    def cosines(self, found: pa.Table, column: str, vector: Floats) -> Floats:
        """Return the cosines of found memories with another unit vector in `column`; `UNMEASURED` without a vector.

        Rows are read at their `_rowid`; a row that was moved since is looked up by id.
        """
        known = dict.fromkeys(found["id"].to_pylist(), UNMEASURED)
        if places := [number for number in found["_rowid"].to_pylist() if number >= 0]:
            known |= cosines(self._stored.reading.take_row_ids(places).select(["id", column]).to_arrow(), column, vector)
        if unread := [number for number, cosine in known.items() if cosine == UNMEASURED]:
            known |= cosines(self._scan(lance.ids_in(unread), ["id", column]), column, vector)
        return np.array([known[number] for number in found["id"].to_pylist()], np.float32)

    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """Return `id`, `score` and `_rowid` of the memories that match a text best by BM25, best first."""
        asked = import_lancedb().query.MatchQuery(text, "indexed_text")  # pyright: ignore[reportCallIssue]
        query = self._stored.reading.search(asked, query_type="fts")
        return _run_query(query, ["id", *columns, "_score"], limit, _condition(filters)).rename_columns({"_score": "score"})

    def take(self, ids: Sequence[int], row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:  # noqa: ARG002
        """Return the memories at the row ids that a search has just returned (-1 is unknown), in any order."""
        known = [number for number in row_ids if number >= 0]
        if not known:
            return MEMORIES.arrow(*columns).empty_table()
        return self._stored.reading.take_row_ids(known).select(list(columns)).to_arrow()

    def newest(self, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """Return the memories that were created last, newest first, then by descending id.

        Time spans of growing length are searched, so that no more of the index is read than needed.
        """
        ordering = import_lancedb().query.ColumnOrdering
        order = [ordering(column_name=name, ascending=False) for name in ("created_at", "id")]
        bounds = [datetime.now(UTC), filters.until, filters.after[0] if filters.after else None]
        end = min(bound for bound in bounds if bound)
        keys = pa.table({"id": []})
        for span in _SPANS:
            within = replace(filters, since=max(end - span, filters.since or end - span)) if span else filters
            query = lance.scan(self._stored.reading).where(within.sql()).select(["id", "created_at"])
            keys = lance.fetch(query.order_by(order).limit(limit))
            if keys.num_rows >= limit:
                break
        found = self._scan(lance.ids_in(keys["id"].to_pylist()), columns)
        return found.sort_by([("created_at", "descending"), ("id", "descending")])

    # The table's change feed

    @property
    def version(self) -> int:
        return self._stored.reading.version

    def __len__(self) -> int:
        return self._stored.reading.count_rows()

    def rows(self, columns: Sequence[str]) -> pa.Table:
        return self._scan("true", columns)

    def updated_since(self, moment: datetime) -> pa.Table:
        return self._scan(f"updated_at >= {lance.timestamp(moment)}", ("id", "updated_at"))

    def rows_of(self, ids: Ids, columns: Sequence[str]) -> pa.Table:
        if len(ids) > _MAX_LOOKUPS:
            rows = self.rows(columns)
            return rows.filter(pa.array(np.isin(rows["id"].to_numpy(), ids)))
        return self._scan(lance.ids_in(ids.tolist()), columns)

    def _scan(self, where: str, columns: Sequence[str]) -> pa.Table:
        return lance.fetch(lance.scan(self._stored.reading).where(where).select(list(columns)), row_ids=True)


def _condition(filters: Filters) -> str | None:
    """Return the filters' condition; None if they pass every row."""
    return None if filters == Filters(states=()) else filters.sql()


def _run_query(query: Any, columns: list[str], limit: int, where: str | None) -> pa.Table:
    """Run a query for the best rows of those that satisfy `where`."""
    if where is not None:
        query = query.where(where, prefilter=True)
    return query.select(columns).with_row_id(True).limit(limit).to_arrow()


def cosines(rows: pa.Table, column: str, vector: Floats) -> dict[int, float]:
    """Return id -> cosine with a unit vector, for rows that have a vector in `column`."""
    rows = rows.filter(rows[column].is_valid())
    vectors = rows[column].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, len(vector))
    return dict(zip(rows["id"].to_pylist(), (vectors @ vector).tolist(), strict=True))
