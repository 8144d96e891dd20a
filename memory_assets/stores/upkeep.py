"""Upkeep of a table's files: small ones merged into large ones, new rows taken into the indices, or all written anew.

The vector index follows the size of the table. An exact scan serves up to some twenty thousand rows. Above, IVF with 8-bit scalar
quantisation answers as fast as HNSW, finds as much, and is built ten times as fast (384 dimensions; docs/decisions). A table that has grown
fourfold gets new partitions.
"""

import logging
import math
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from memory_assets.errors import StoreError
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.locks import shared_lock
from memory_assets.stores.tables import StoredTable, reading

if TYPE_CHECKING:
    from lancedb.table import Table

_log = logging.getLogger(__name__)
_KEPT = timedelta(minutes=10)
"""How long versions are kept for readers; every compaction looks at all of them."""
_WORTH_MERGING = 50
"""Unmerged fragments after which compaction pays (LanceDB's own rule of thumb)."""
SMALLEST = 20_000
"""Rows below which every search scans all vectors."""
TRAINED_FACT = "memory_assets:vector_index_rows"
_GROWTH = 4
_MOST_SEGMENTS = 12
"""Each indexing of new rows adds a segment, which every search looks into, and which keeps their files from being merged."""
_SAMPLE_RATE = 64
_ITERATIONS = 15
"""K-means rounds and samples per partition: a quarter of LanceDB's defaults, at no measurable loss."""


class Upkeep:
    """The upkeep of one table."""

    def __init__(self, stored: StoredTable, vector_column: Callable[[], str | None]) -> None:
        self.stored = stored
        self._vector_column = vector_column
        self._left_small = 0
        """Small fragments that the last merge left: the vector index has them in several segments."""

    @reading
    def is_due(self) -> bool:
        """Whether the table has gathered enough small fragments or unindexed rows, or has outgrown its vector index."""
        if self._small_fragments() - self._left_small >= _WORTH_MERGING:
            return True
        table = self.stored.reading
        index = table.index_stats("indexed_text_idx")
        if index is not None and index.num_unindexed_rows > max(1_000, index.num_indexed_rows // 20):
            return True
        return needs_vector_index(table, self._vector_column(), table.count_rows())

    def optimize(self) -> bool:
        """Merge if that pays, and drop old versions; takes seconds in a large table. Returns whether anything was done."""
        if not self.is_due():
            return False
        table = self.stored.writing
        with shared_lock(table):
            try:
                table.optimize(cleanup_older_than=_KEPT)
            except (RuntimeError, OSError) as error:
                if lance.is_conflict(error):
                    return False
                advice = lance.mend(error) or "run the command again"
                raise StoreError(f"The table in {self.stored.uri} cannot be compacted ({error}): {advice}.") from error
            rows, column = table.count_rows(), self._vector_column()
            if column and needs_vector_index(table, column, rows):
                build_vector_index(table, column, rows)
        self._left_small = self._small_fragments()
        return True

    def after_commit(self) -> None:
        """Do the same behind a commit, which nobody must take for failed: where it cannot be done, the log says so."""
        try:
            self.optimize()
        except StoreError as error:
            _log.warning("upkeep put off: %s", error)

    def _small_fragments(self) -> int:
        return cast("dict[str, Any]", self.stored.reading.stats())["fragment_stats"]["num_small_fragments"]


def partitions(rows: int) -> int:
    """Partitions for a table of so many rows: 250 at 100,000 and 800 at 1,000,000."""
    return max(1, round(0.8 * math.sqrt(rows)))


def probes(rows: int) -> int:
    """Partitions that a search looks into."""
    return max(20, partitions(rows) // 20)


def needs_vector_index(table: "Table", column: str | None, rows: int) -> bool:
    """Whether the vector column needs an index, or one with more partitions."""
    if column is None or rows < SMALLEST:
        return False
    index = next((index for index in table.list_indices() if index.columns == [column]), None)
    if index is None or (index.num_segments or 1) > _MOST_SEGMENTS:
        return True
    return rows >= _GROWTH * int(lance.facts_of(table.schema).get(TRAINED_FACT, "0"))


def build_vector_index(table: "Table", column: str, rows: int) -> None:
    """Build the index of a vector column anew; searches use the old one, or none, until it is there."""
    index = import_lancedb().index.IvfSq
    config = index(distance_type="cosine", num_partitions=partitions(rows), max_iterations=_ITERATIONS, sample_rate=_SAMPLE_RATE)
    try:
        table.create_index(column, config=config, replace=True)
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"The vector index of {table.name!r} cannot be built ({error}); searches scan all vectors until the next "
            "`memory run` tries again."
        ) from error
    lance.set_facts(table, {TRAINED_FACT: str(rows)})


def rewrite(stored: StoredTable, change: Callable[[pa.Table], pa.Table]) -> None:
    """Put `change` of all rows, in all columns, in place of a table's rows, build its indices anew and drop every older version.

    So none of its files keeps what its rows no longer say: LanceDB never changes a file, so an updated or deleted row stays in the old one.
    A row that somebody changes meanwhile stays as they left it, and is read again. Nobody commits to a folder meanwhile. Readers of an
    older version have to read again. It takes as long as copying the table. After a failure either the old rows or the new ones are there;
    doing it again ends it. In object storage the files of commits that were killed stay until LanceDB removes them, after seven days:
    they may be those of a commit that is under way.
    """
    table, failure = stored.writing, f"The table {stored.definition.name!r} in {stored.uri} cannot be written anew"
    with stored.location.closed_to_writers():
        while not lance.commit(table, lambda: _replace_rows(table, change), failure):
            pass
        lance.ensure_indices(table, stored.definition.indices(), anew=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that others may be reading older versions: see above
            options = {"cleanup_older_than": timedelta(0), "delete_unverified": stored.location.is_folder}
            lance.commit(table, lambda: table.optimize(**options), failure)


def _replace_rows(table: "Table", change: Callable[[pa.Table], pa.Table]) -> bool:
    """Write every row into a new file, and delete those that `change` leaves out; whether nobody changed one meanwhile."""
    before = table.to_arrow()
    rows = lance.aligned(change(before), table.schema)
    gone = sorted(set(before["id"].to_pylist()) - set(rows["id"].to_pylist()))
    if not rows.num_rows:
        if gone:
            table.delete(lance.ids_in(gone))
        return True
    stamp = next(name for name in ("updated_at", "created_at") if name in rows.column_names)
    stamped = before[stamp].take(pc.call_function("index_in", [rows["id"]], pc.SetLookupOptions(before["id"])))
    unstamped = rows.set_column(rows.column_names.index(stamp), rows.schema.field(stamp), stamped)
    merge = table.merge_insert("id").when_matched_update_all(where=f"target.{stamp} = source.{stamp}")
    if gone:
        merge = merge.when_not_matched_by_source_delete(lance.ids_in(gone))
    is_whole = merge.execute(unstamped, on_bad_vectors="null").num_updated_rows == rows.num_rows
    changed = rows.filter(pc.call_function("not_equal", [rows[stamp], stamped]))
    if changed.num_rows:
        newer = table.merge_insert("id").when_matched_update_all(where=f"target.{stamp} < source.{stamp}")
        newer.execute(changed, on_bad_vectors="null")
    return is_whole
