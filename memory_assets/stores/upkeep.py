"""Upkeep of a table's files: merge small files, index new rows, or rewrite all rows.

The vector index depends on the size of the table. Up to some twenty thousand rows, an exact scan is enough. Above that, IVF with 8-bit
scalar quantisation answers as fast and finds as much as HNSW, and is built ten times as fast (384 dimensions; docs/decisions). A
table that has grown fourfold gets new partitions.
"""

import logging
import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from memory_assets.compute import pc
from memory_assets.errors import StoreError
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.tables import StoredTable, reading

if TYPE_CHECKING:
    from lancedb.table import Table

_log = logging.getLogger(__name__)
_VERSION_LIFETIME = timedelta(minutes=10)
"""How long versions are kept for readers; every compaction reads all of them."""
_CLOCK_SECONDS = 30.0
"""How long removing older versions waits for this machine's clock to pass the time that another clock gave to one, or to a file."""
_PAUSE_SECONDS = 0.1
_STILL = "what was removed is still in its files"
_WORTH_MERGING = 50
"""Number of unmerged fragments from which compaction pays (LanceDB's own rule of thumb)."""
SMALLEST = 20_000
"""Number of rows below which every search scans all vectors."""
TRAINED_FACT = "memory_assets:vector_index_rows"
REWRITTEN_FACT = "memory_assets:rewritten"
"""Fact of a table: when an erasure, a mend or a restore last removed values."""
_DROPPED_FACT = "memory_assets:dropped"
"""Fact of a table in object storage: when a commit without other changes last preceded the removal of older versions."""
_REBUILD_FACTOR = 4
_MOST_SEGMENTS = 12
"""Most segments of a vector index. Each indexing of new rows adds one, which slows every search and keeps files from being merged."""
_READ_FOR_EACH = 100
"""Passing rows that a filtered search reads for each row wanted, so that it finds some nine of ten."""
_SAMPLE_RATE = 64
_ITERATIONS = 15
"""K-means rounds and samples per partition: a quarter of LanceDB's defaults, at no measurable loss."""


class Upkeep:
    """The upkeep of one table."""

    def __init__(self, stored: StoredTable, vector_column: Callable[[], str | None]) -> None:
        self.stored = stored
        self._vector_column = vector_column
        self._unmergeable_fragments = 0
        """Small fragments that the last merge could not merge, because they are in several segments of the vector index."""

    @reading
    def is_due(self) -> bool:
        """Return whether the table has enough small fragments or unindexed rows, or has outgrown its vector index."""
        if self._small_fragments() - self._unmergeable_fragments >= _WORTH_MERGING:
            return True
        table = self.stored.reading
        index = table.index_stats("indexed_text_idx")
        if index is not None and index.num_unindexed_rows > max(1_000, index.num_indexed_rows // 20):
            return True
        return needs_vector_index(table, self._vector_column(), table.count_rows())

    def optimize(self) -> bool:
        """Merge files and drop old versions if that pays; takes seconds in a large table. Returns whether it did.

        A merge that failed or was killed leaves files as large as the table, which LanceDB keeps for days; they are removed.
        """
        if not self.is_due():
            return False
        has_merged = False
        with self.stored.explaining_errors():
            self.stored.find_orphans(remove=True)
        try:
            has_merged = self._merge()
        finally:
            if not has_merged:
                with suppress(StoreError), self.stored.explaining_errors():
                    self.stored.find_orphans(remove=True)
        return has_merged

    def _merge(self) -> bool:
        table = self.stored.writing
        with self.stored.committing():
            try:
                table.optimize(cleanup_older_than=_VERSION_LIFETIME)
            except (RuntimeError, OSError) as error:
                if lance.is_conflict(error):
                    return False
                advice = lance.advice_for(error) or "run the command again"
                raise StoreError(f"The table in {self.stored.uri} cannot be compacted ({error}): {advice}.") from error
            rows, column = table.count_rows(), self._vector_column()
            if column and needs_vector_index(table, column, rows):
                build_vector_index(self.stored, column, rows)
        self._unmergeable_fragments = self._small_fragments()
        return True

    def after_commit(self) -> None:
        """Call `optimize` after a commit. A failure is only logged, because the commit succeeded."""
        try:
            self.optimize()
        except StoreError as error:
            _log.warning("upkeep put off: %s", error)

    def _small_fragments(self) -> int:
        return cast("dict[str, Any]", self.stored.reading.stats())["fragment_stats"]["num_small_fragments"]


def partitions(rows: int) -> int:
    """Return the number of partitions for a table: 250 for 100,000 rows and 800 for 1,000,000."""
    return max(1, round(0.8 * math.sqrt(rows)))


def probes(rows: int, passing: int, limit: int) -> int:
    """Return the number of partitions that a search for `limit` rows reads if so many of the rows pass its filter.

    It reads as many passing rows as without a filter, or `_READ_FOR_EACH` for each row wanted, if those are fewer.
    """
    least = max(20, partitions(rows) // 20)
    wanted = min(least * rows, _READ_FOR_EACH * limit * partitions(rows))
    return max(least, math.ceil(wanted / max(passing, 1)))


def needs_vector_index(table: "Table", column: str | None, rows: int) -> bool:
    """Return whether the vector column needs an index, or one with more partitions."""
    if column is None or rows < SMALLEST:
        return False
    index = next((index for index in table.list_indices() if index.columns == [column]), None)
    if index is None or (index.num_segments or 1) > _MOST_SEGMENTS:
        return True
    return rows >= _REBUILD_FACTOR * int(lance.facts_of(table.schema).get(TRAINED_FACT, "0"))


def build_vector_index(stored: StoredTable, column: str, rows: int) -> None:
    """Rebuild the index of a vector column. Until it is complete, searches use the old index, or none."""
    index = import_lancedb().index.IvfSq
    config = index(distance_type="cosine", num_partitions=partitions(rows), max_iterations=_ITERATIONS, sample_rate=_SAMPLE_RATE)
    try:
        stored.writing.create_index(column, config=config, replace=True)
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"The vector index of {stored.name!r} cannot be built ({error}); searches scan all vectors until the next "
            "`memory run` tries again."
        ) from error
    lance.set_facts(stored, {TRAINED_FACT: str(rows)})


def rewrite(stored: StoredTable, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace a table's rows (all columns) with `change(rows)`, rebuild its indices and drop all older versions.

    No file of the table then holds removed values: LanceDB never changes a file, so updated and deleted rows stay in the old ones. A row
    that another writer changes meanwhile is kept as changed and read again. Commits to a folder are blocked meanwhile. Readers of an
    older version must read again. This takes as long as copying the table. After a failure the table holds either the old rows or the
    new ones, and a repeated call completes it. In object storage, files of killed commits stay until LanceDB removes them after seven
    days, because they may belong to a running commit.
    """
    table, failure = stored.writing, f"The table {stored.name!r} in {stored.uri} cannot be rewritten"
    with stored.location.closed_to_writers():
        while not lance.commit(stored, lambda: _replace_rows(table, change), failure):
            pass
        note_removal(stored)
        lance.ensure_indices(stored, stored.definition.indices(), anew=True)
        drop_older_versions(stored)


def drop_older_versions(stored: StoredTable) -> None:
    """Remove all versions before the newest, with the files that only they use. A folder must be closed to writers.

    LanceDB keeps a version whose time, by its writer's clock, lies ahead of this machine's clock. In a folder its manifest is removed
    first. In object storage a small difference is waited for. For a larger one, StoreError: what older versions hold is still there, and
    a repeated call completes the removal.
    """
    is_folder = stored.location.is_folder
    options = {"cleanup_older_than": timedelta(0), "delete_unverified": is_folder}
    failure = f"The older versions of the table {stored.name!r} in {stored.uri} cannot be removed"
    deadline = monotonic() + _CLOCK_SECONDS
    if is_folder:
        with stored.explaining_errors():
            stored.location.drop_older_manifests(stored.name)
    else:
        _commit_after_files(stored, failure)
    table, newest = stored.writing, stored.newest_version
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # LanceDB warns of readers of older versions
            lance.commit(stored, lambda: table.optimize(**options), failure, _STILL)
        if is_folder:
            return
        with stored.explaining_errors():
            left = [each["timestamp"].timestamp() for each in table.list_versions() if each["version"] < newest]
        if not left:
            return
        ahead = max(left) - time()
        if monotonic() + ahead > deadline:
            if ahead <= 0:
                raise StoreError(f"{failure}: LanceDB keeps them, so {_STILL}; run the command again.")
            raise _clock_error(failure, ahead, "another writer")
        sleep(max(ahead, 0.0) + _PAUSE_SECONDS)


def _commit_after_files(stored: StoredTable, failure: str) -> None:
    """Make the newest version of a table in object storage later than all of its files, by the storage's clock.

    LanceDB keeps a file that is later than the newest version. If no older version is left, it never removes that file.
    """
    with stored.explaining_errors():
        newest = max(stored.writing.list_versions(), key=itemgetter("version"))
        written = stored.location.newest_file(stored.name)
    if written <= newest["timestamp"].timestamp():
        return
    behind = written - time()
    if behind > _CLOCK_SECONDS:
        raise _clock_error(failure, behind, "the object storage")
    sleep(max(behind, 0.0) + _PAUSE_SECONDS)
    lance.set_facts(stored, {_DROPPED_FACT: datetime.now(UTC).isoformat()})


def _clock_error(failure: str, seconds: float, other: str) -> StoreError:
    return StoreError(
        f"{failure}: this machine's clock is {math.ceil(seconds)} s behind that of {other}, so {_STILL}; set the clock and run the "
        "command again."
    )


def note_removal(stored: StoredTable) -> None:
    """Record that rows or values were removed from the table. The next backup then reuses no pack that may hold them."""
    lance.set_facts(stored, {REWRITTEN_FACT: datetime.now(UTC).isoformat()})


def _replace_rows(table: "Table", change: Callable[[pa.Table], pa.Table]) -> bool:
    """Write all rows to new files and delete those that `change` omits. Returns whether no other writer changed a row meanwhile."""
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
