"""The memories of one table in memory for searches, in immutable segments that are merged as they grow (a log-structured merge tree).

Appends of this process are added as they are committed. Other changes come from the table's change feed.
"""

import logging
import math
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from memory_assets.errors import format_trace
from memory_assets.stores import lance
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets.stores.feed import Position, read_changes
from memory_assets.stores.resident.appends import Appends
from memory_assets.stores.resident.copies import Copies
from memory_assets.stores.resident.segment import ROW_ID, Segment
from memory_assets.stores.resident.snapshot import Snapshot
from memory_assets.stores.resident.words import Terms
from memory_assets.stores.search import DiskSearch
from memory_assets.stores.tables import StoredTable

if TYPE_CHECKING:
    from lancedb.table import Table


_log = logging.getLogger(__name__)
_MAX_INLINE_ROWS = 2_000
"""Most rows of segments that are merged at once; larger ones wait for `maintain`."""
_MERGE_SHARE = 0.1
"""Share of rows outside the largest segment or no longer current, from which all large segments are merged."""
_MOST_SEGMENTS = 8
"""Number of large segments from which all but the largest are merged."""
_MAX_CHANGED_ROWS = 20_000
"""Number of changed rows from which reloading everything is cheaper."""
_BATCH_ROWS = 16_384
"""Rows of a batch. Many small arrays would fragment the heap."""
_SAMPLE_ROWS = 1_000
"""Rows that are sampled to estimate the memory of all."""
_COMPARE_SECONDS = 30.0
"""Time after which the table is compared even if its version says that no other process has written."""


def _find_mergeable(snapshot: Snapshot) -> list[Segment]:
    large = list(filter(_is_large, snapshot.segments))
    if not large:
        return []
    largest = max(large, key=len)
    rows = sum(map(len, large))
    if rows - largest.count > _MERGE_SHARE * rows:
        return large
    return [each for each in large if each is not largest] if len(large) > _MOST_SEGMENTS else []


def _is_large(segment: Segment) -> bool:
    return len(segment) > _MAX_INLINE_ROWS // 2


class Allowance:
    """Limit of the memory for all resident tables of this process."""

    def __init__(self, nbytes: int, *, is_shared: bool = False) -> None:
        """Limit to `nbytes`; `is_shared` if several processes that forked from this one append."""
        self.nbytes = nbytes
        self.is_shared = is_shared
        self.run = secrets.token_hex(8)
        """Id of the service's run, whose processes trust each other's copies."""
        self._taken: WeakKeyDictionary[ResidentMemories, int] = WeakKeyDictionary()

    @property
    def taken(self) -> int:
        return sum(self._taken.values())

    def grant(self, asking: "ResidentMemories", nbytes: int) -> bool:
        """Return whether a table may use `nbytes` instead of its former share; first come, first served."""
        self._taken.pop(asking, None)
        if self.taken + nbytes > self.nbytes:
            return False
        self._taken[asking] = nbytes
        return True


class ResidentMemories:
    """The rows of a `memories` table in memory. Thread-safe.

    Large segments are mapped from files that all processes of a service share; a small one with newer rows belongs to this process.
    """

    def __init__(self, stored: StoredTable, allowance: Allowance, folder: Path) -> None:
        """Load nothing yet; later load no more than `allowance` grants, with copies in `folder`."""
        self._stored = stored
        self._allowance = allowance
        location = stored.location
        store_id = location.state.look() if location.state else ""
        if not location.is_folder:  # a folder is missing only if the tenant was deleted
            with suppress(OSError):  # writing the copies reports it
                folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._copies = Copies(folder, f"{allowance.run} {store_id}")
        self._appends = Appends(folder / "appends", self._is_committed) if allowance.is_shared else None
        self._snapshot: Snapshot | None = None
        self._lock = threading.Lock()
        self._refreshed_at = self._compared_at = 0.0
        self._is_stale = False
        self._row_nbytes = 0.0
        self._terms = Terms(stored)

    @property
    def loaded(self) -> bool:
        return self._snapshot is not None

    def search(self, column: str | None = None) -> Snapshot | None:
        """Return the newest version in memory; None if none is loaded, or `column` is not its vector column."""
        if self._snapshot is not None and self._needs_refresh(self._snapshot):
            with self._lock:
                if self._snapshot is not None and self._needs_refresh(self._snapshot):
                    self._refresh(self._snapshot)
        snapshot = self._snapshot
        return snapshot if snapshot is not None and column in (None, snapshot.column) else None

    @property
    def table(self) -> "Table":
        return self._stored.reading

    # Keeping up with the table

    def maintain(self, column: str | None) -> None:
        """Use another process's copy, or copy the live column's table or its new rows. Slow: call it in the background."""
        snapshot = self._snapshot
        if snapshot is not None and (snapshot.column != column or not self._allowance.grant(self, snapshot.nbytes)):
            self._snapshot = None
        self._adopt(column)
        if not self._needs_copy:
            return
        try:
            with self._copies.writing() as draft:
                self._adopt(column)
                if self._snapshot is None:
                    self._load(column, draft)
                elif self._needs_copy:
                    self._merge(draft)
        except BlockingIOError:
            return  # another process is copying
        except OSError as error:
            _log.warning("the memories of %s cannot be copied: %s", self.table.name, error)
            if self._snapshot is None:
                self._load(column, None)

    def _adopt(self, column: str | None) -> None:
        """Use a copy that another process has published since the last look, and the commits after it."""
        snapshot = self._copies.read(self._terms) if self._copies.has_unseen else None
        if snapshot is None or snapshot.column != column or not self._allowance.grant(self, snapshot.nbytes):
            return
        with self._lock:
            self._snapshot = snapshot
            self._refresh(snapshot)

    @property
    def _needs_copy(self) -> bool:
        snapshot = self._snapshot
        return snapshot is None or bool(_find_mergeable(snapshot)) or any(map(_is_large, self._find_unsaved(snapshot)))

    def _find_unsaved(self, snapshot: Snapshot) -> list[Segment]:
        """Return segments without a file, because they are new or an erasure removed the file."""
        return [each for each in snapshot.segments if not self._copies.has(each)]

    def _save(self, segment: Segment, draft: Path) -> Segment:
        """Return the current rows of a segment, mapped from files."""
        if self._copies.has(segment):
            return segment
        return self._copies.save(segment if segment.current.all() else self._join([segment]), draft)

    def append(self, rows: pa.Table, commit: Callable[[pa.Table], int]) -> None:
        """Append rows with new ids by `commit`, which returns the table's version or 0; their last column is the searched one.

        Never fails after the commit. If another commit came before, the next search reads both.
        """
        committed, version = self._appends.commit(rows, commit) if self._appends else (rows, commit(rows))
        if committed is None:
            return
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None or version != snapshot.version + 1:
                self._is_stale = True
                return
            try:
                self._snapshot = self._apply_appends(snapshot, [committed])
            except Exception as error:  # noqa: BLE001  an error here must not look like a failed commit
                self._snapshot = None
                _log.warning("the memories of %s are reloaded: %s", self.table.name, format_trace(error))

    def _is_committed(self, ids: Collection[int]) -> bool:
        with self._stored.explaining_errors():
            self.table.checkout_latest()
            return self.table.count_rows(lance.ids_in(ids)) > 0

    def _apply_appends(self, snapshot: Snapshot, appends: Sequence[pa.Table]) -> Snapshot | None:
        """Return the snapshot with more appends; None if they use another vector column."""
        if any(each.column_names[-1] != snapshot.column for each in appends):
            return None
        rows = pa.concat_tables(appends)
        ids = rows["id"].to_numpy()
        rows = rows.filter(pa.array(np.all([each.places(ids) < 0 for each in snapshot.segments], axis=0)))
        snapshot = replace(snapshot, appends=snapshot.appends + len(appends))
        if not rows.num_rows:
            return snapshot
        rows = rows.append_column(ROW_ID, pa.nulls(rows.num_rows, ROW_ID.type))
        added = Segment.of(rows.to_batches(), rows.schema, snapshot.column, self._terms, snapshot.mean_length)
        return replace(snapshot, segments=self._add_segment(snapshot.segments, added))

    def invalidate(self) -> None:
        """Compare with the table before the next search, because this process changed it other than by appending."""
        self._is_stale = True

    def _load(self, column: str | None, draft: Path | None) -> None:
        """Read the whole table, into files below `draft` if it is given."""
        with self._lock:
            self._snapshot = None
            self._refreshed_at, self._is_stale = monotonic(), False
            here = Position(self.table.version, datetime.now(UTC))
            if column is None or not self._allowance.grant(self, self._estimate(column)):
                return
            segment = self._read(column, "true", None)
            self._row_nbytes = segment.nbytes / max(1, len(segment))
            if not self._allowance.grant(self, segment.nbytes):
                return
            snapshot = Snapshot(here, column, (self._copies.save(segment, draft) if draft else segment,), self._terms)
            if draft:
                self._copies.publish(snapshot)
            self._snapshot = snapshot

    def _estimate(self, column: str) -> int:
        """Estimate the bytes of the table from a sample; distinct terms grow with the square root of the rows (Heaps' law)."""
        count = self.table.count_rows()
        if not count:
            return 0
        offsets = np.unique(np.linspace(0, count - 1, _SAMPLE_ROWS, dtype=np.int64)).tolist()
        batches = self.table.take_offsets(offsets).select(self._columns(column)).to_batches()
        sample = Segment.of(batches, batches.schema, column, self._terms)
        times = count / len(offsets)
        estimate = times * sample.nbytes_of_rows + math.sqrt(times) * sample.words.vocabulary_nbytes
        return math.ceil(max(estimate, count * self._row_nbytes))

    def _refresh(self, known: Snapshot) -> None:
        self._refreshed_at, self._is_stale = monotonic(), False
        try:
            self._stored.look()
            version = self.table.version
            appends = self._appends.rows_of(range(known.version + 1, version + 1)) if self._appends else None
            if monotonic() - self._compared_at < _COMPARE_SECONDS and (appends or version == known.version):
                refreshed = self._apply_appends(known, appends) if appends else known
                self._snapshot = refreshed and replace(refreshed, position=replace(known.position, version=version), appends=0)
            elif version > known.position.version:
                self._compared_at = monotonic()
                self._snapshot = self._apply_changes(known)
        except Exception as error:  # noqa: BLE001  after any error, searches can use the table on disk
            self._snapshot = None
            _log.warning("the memories of %s are reloaded: %s", self.table.name, format_trace(error))

    def _needs_refresh(self, known: Snapshot) -> bool:
        is_old = monotonic() - self._refreshed_at > self._stored.freshness
        return self._is_stale or is_old or self._stored.newest_version != known.version

    def _apply_changes(self, known: Snapshot) -> Snapshot | None:
        """Return the snapshot with all commits until now; None if so much has changed that reloading is cheaper."""
        since = replace(known.position, version=known.version)
        changes = read_changes(DiskSearch(self._stored), since, known, ("id",))
        missing = changes.rows["id"].to_numpy()
        if len(missing) > _MAX_CHANGED_ROWS:
            return None
        segments = tuple(each.without(changes.gone) for each in known.segments)
        if len(missing):
            added = self._read(known.column, lance.ids_in(missing.tolist()), known.mean_length)
            segments = self._add_segment(segments, added)
        return Snapshot(changes.position, known.column, segments, self._terms)

    def _add_segment(self, segments: Sequence[Segment], added: Segment) -> tuple[Segment, ...]:
        """Return the segments with another one, small ones merged. Rows of `added` replace rows with the same id."""
        changed = [*(each.without(added.ids) for each in segments), added]
        while len(changed) > 1:
            last, before = len(changed[-1]), len(changed[-2])
            if 2 * last <= before or last + before > _MAX_INLINE_ROWS:
                break
            changed[-2:] = [self._join(changed[-2:])]
        return tuple(changed)

    @property
    def needs_maintenance(self) -> bool:
        return self._needs_copy or self._copies.has_unseen

    def _merge(self, draft: Path) -> None:
        """Copy new rows, and merge large segments if that pays, while searches and appends continue."""
        with self._lock:
            if self._snapshot is None:
                return
            self._refresh(self._snapshot)  # after the draft exists: a later erasure removes the draft, too
            snapshot = self._snapshot
        if snapshot is None:
            return
        merged = _find_mergeable(snapshot) or self._find_unsaved(snapshot)
        joined = self._save(self._join(merged), draft)
        with self._lock:
            present = self._snapshot
            if present is None:
                return
            now = {id(each.rows): each for each in present.segments}
            if not all(id(each.rows) in now for each in merged):
                return
            for each in merged:
                joined = joined.without(each.ids[each.current & ~now.pop(id(each.rows)).current])
            segments = sorted([joined, *now.values()], key=len, reverse=True)
            segments = tuple(self._save(each, draft) for each in segments)
            self._snapshot = replace(present, segments=segments)
            self._copies.publish(self._snapshot)

    def _join(self, segments: Sequence[Segment]) -> Segment:
        return Segment.joined(segments, self._terms, self._snapshot.mean_length if self._snapshot else None)

    def _read(self, column: str, where: str, mean_length: float | None) -> Segment:
        batches = lance.scan(self.table).where(where).select(self._columns(column)).with_row_id(True).to_batches(_BATCH_ROWS)
        return Segment.of(batches, batches.schema, column, self._terms, mean_length)

    def _columns(self, column: str) -> list[str]:
        schema = self.table.schema
        kept = column, meaning_column(column)
        others = [field.name for field in schema if pa.types.is_fixed_size_list(field.type) and field.name not in kept]
        return [name for name in schema.names if name not in others]
