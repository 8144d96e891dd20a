"""Searches of the `memories` table on disk. `resident.snapshot` answers the same ones from memory."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from memory_assets.stores import lance, vector_index
from memory_assets.stores.filters import Filters
from memory_assets.stores.schema import MEMORIES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from lancedb.query import LanceQueryBuilder, LanceVectorQueryBuilder

    from memory_assets.stores.tables import StoredTable

EVERYWHERE = (-math.inf, math.inf)
"""Bounds that pass every similarity."""
UNMEASURED = -2.0
"""Stands for the cosine of what has no vector; below every cosine."""
_FEWEST_MEASURED = 64
"""Candidates whose meanings are compared."""
_SPANS = (timedelta(hours=1), timedelta(days=1), timedelta(days=20), timedelta(days=400), None)
"""How far back the newest memories are looked for, until there are enough."""


class DiskSearch:
    """Answers by the table's indices. Every answer is a table of the columns asked for and those that the method names."""

    def __init__(self, stored: "StoredTable") -> None:
        self._stored = stored
        self._counted = -math.inf, 0
        """When the rows were last counted, and how many there were."""

    def nearest(
        self,
        vector: "npt.NDArray[np.float32]",
        column: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str],
        between: tuple[float, float] = EVERYWHERE,
    ) -> pa.Table:
        """`id`, `similarity` and `_rowid` of the memories whose vectors in `column` are nearest, best first.

        Only similarities within `between` count. A small table is searched exactly, a large one by the vector index.
        """
        if between != EVERYWHERE:
            return self._between(vector, column, limit, filters, columns, between)
        found = _bounded(self._near(vector, column), ["id", *columns, "_distance"], limit, filters)
        similarity = pa.array(1.0 - found["_distance"].to_numpy())
        return found.drop_columns("_distance").append_column("similarity", similarity)

    def _near(self, vector: "npt.NDArray[np.float32]", column: str) -> "LanceVectorQueryBuilder":
        query = cast("LanceVectorQueryBuilder", self._stored.reading.search(vector, vector_column_name=column))
        return query.distance_type("cosine").nprobes(vector_index.probes(self._rows()))

    def _rows(self) -> int:
        """About how many rows there are: counted anew when the table's freshness has passed."""
        if monotonic() - self._counted[0] > self._stored.freshness:
            self._counted = monotonic(), self._stored.reading.count_rows()
        return self._counted[1]

    def _between(
        self,
        vector: "npt.NDArray[np.float32]",
        column: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str],
        between: tuple[float, float],
    ) -> pa.Table:
        """`nearest` within bounds: the index is asked a little beyond them, and what it finds is measured again."""
        import numpy as np

        lowest, highest = between
        query = self._near(vector, column).distance_range(1.0 - highest - vector_index.BLUR, 1.0 - lowest + vector_index.BLUR)
        wanted = max(16, limit)
        while True:
            found = _bounded(query, ["id", *columns, column, "_distance"], wanted, filters)
            vectors = found[column].combine_chunks().flatten().to_numpy().reshape(-1, len(vector))
            similarity = vectors @ vector / np.linalg.norm(vectors, axis=1)
            inside = np.flatnonzero((lowest < similarity) & (similarity < highest))
            if len(inside) >= limit or found.num_rows < wanted:
                best = inside[np.argsort(-similarity[inside], kind="stable")][:limit]
                return (
                    found.drop_columns([column, "_distance"]).take(best).append_column("similarity", pa.array(similarity[best]))
                )
            wanted *= 8

    def alike(
        self,
        meaning: "npt.NDArray[np.float32]",
        columns: tuple[str, str],
        limit: int,
        filters: Filters,
        least: float,
        crowded: float,
    ) -> pa.Table:
        """`id`, `similarity` and `_rowid` of memories near to a unit vector, found by one column and measured by another, in any order.

        If so many lie at `crowded` or beyond that they hide the others, `limit` of those between `least` and `crowded` are added.
        Without a vector in the second column, the similarity is `UNMEASURED`.
        """
        searched, measured = columns
        wanted = max(_FEWEST_MEASURED, 4 * limit)
        found = self._measured(self.nearest(meaning, searched, wanted, filters, ()), measured, meaning)
        cosines = found["similarity"].to_numpy()
        hiding = cosines >= crowded
        if hiding.sum() <= wanted // 2 or (cosines > least).sum() - hiding.sum() >= limit:
            return found
        hidden = self._measured(self.nearest(meaning, searched, wanted, filters, (), (least, crowded)), measured, meaning)
        return pa.concat_tables(
            [found.filter(pa.array(hiding)), hidden.filter(pa.array(hidden["similarity"].to_numpy() < crowded))]
        )

    def _measured(self, found: pa.Table, column: str, meaning: "npt.NDArray[np.float32]") -> pa.Table:
        """What `nearest` found, measured by another column; a row that was moved since is looked up by its id."""
        known = dict.fromkeys(found["id"].to_pylist(), UNMEASURED)
        if places := [number for number in found["_rowid"].to_pylist() if number >= 0]:
            taken = self._stored.reading.take_row_ids(places).select(["id", column]).to_arrow()
            known |= cosines(taken, column, meaning)
        if unread := [number for number, cosine in known.items() if cosine == UNMEASURED]:
            known |= cosines(self._scan(lance.ids_in(unread), ["id", column]), column, meaning)
        similarity = pa.array([known[number] for number in found["id"].to_pylist()], pa.float32())
        return found.set_column(found.schema.get_field_index("similarity"), "similarity", similarity)

    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """`id`, `score` and `_rowid` of the memories that match a text best by BM25, best first."""
        from lancedb.query import MatchQuery

        asked = MatchQuery(text, "indexed_text")  # pyright: ignore[reportCallIssue]
        query = self._stored.reading.search(asked, query_type="fts")
        return _bounded(query, ["id", *columns, "_score"], limit, filters).rename_columns({"_score": "score"})

    def take(self, ids: Sequence[int], row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:  # noqa: ARG002
        """The memories at the row ids that a search has just given (-1 is unknown), in any order."""
        known = [number for number in row_ids if number >= 0]
        if not known:
            return MEMORIES.arrow(*columns).empty_table()
        return self._stored.reading.take_row_ids(known).select(list(columns)).to_arrow()

    def newest(self, limit: int, filters: Filters, columns: Sequence[str]) -> pa.Table:
        """The memories that were created last, newest first, then by falling id.

        Ever longer spans of time are searched, so that the index is read no further than needed.
        """
        from lancedb.query import ColumnOrdering

        order = [ColumnOrdering(column_name=name, ascending=False) for name in ("created_at", "id")]
        bounds = [datetime.now(UTC), filters.until, filters.after[0] if filters.after else None]
        end = min(bound for bound in bounds if bound)
        keys = pa.table({"id": []})
        for span in _SPANS:
            within = replace(filters, since=max(end - span, filters.since or end - span)) if span else filters
            query = self._stored.reading.search().where(within.sql()).select(["id", "created_at"])
            keys = query.with_row_id(True).order_by(order).limit(limit).to_arrow()
            if keys.num_rows >= limit:
                break
        found = self._scan(lance.ids_in(keys["id"].to_pylist()), columns)
        return found.sort_by([("created_at", "descending"), ("id", "descending")])

    def _scan(self, where: str, columns: Sequence[str]) -> pa.Table:
        return self._stored.reading.search().where(where).select(list(columns)).to_arrow()


def _bounded(query: "LanceQueryBuilder", columns: list[str], limit: int, filters: Filters) -> pa.Table:
    """Run a query for some columns of the best rows; filters that pass everything cost nothing."""
    if filters != Filters(states=()):
        query = query.where(filters.sql(), prefilter=True)
    return query.select(columns).with_row_id(True).limit(limit).to_arrow()


def cosines(rows: pa.Table, column: str, meaning: "npt.NDArray[np.float32]") -> dict[int, float]:
    """By id, of those rows that have a vector in `column`."""
    rows = rows.filter(rows[column].is_valid())
    vectors = rows[column].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, len(meaning))
    return dict(zip(rows["id"].to_pylist(), (vectors @ meaning).tolist(), strict=True))
