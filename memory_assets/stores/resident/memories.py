"""Keeps the memories of one table for searches, in immutable segments that are merged as they grow (a log-structured merge tree).

Appends of this process are handed over as they are committed. Other changes come from the table's change feed.
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
from memory_assets.stores import feed, lance
from memory_assets.stores.embedding_columns import meaning_column
from memory_assets.stores.feed import Position, read_changes
from memory_assets.stores.resident.appends import Appends
from memory_assets.stores.resident.copies import Copies
from memory_assets.stores.resident.segment import ROW_ID, Segment
from memory_assets.stores.resident.snapshot import Snapshot
from memory_assets.stores.resident.words import Terms
from memory_assets.stores.tables import StoredTable

if TYPE_CHECKING:
    from lancedb.table import Table


_log = logging.getLogger(__name__)
_INLINE = 2_000
"""Rows up to which segments are merged as they come; larger ones wait for `tend`."""
_OUTSIDE = 0.1
"""Share of the rows outside of the largest segment, or no longer current, from which all are merged."""
_MOST_SEGMENTS = 8
"""Large segments from which all but the largest are merged."""
_MOST_CHANGED = 20_000
"""Changed rows from which it is cheaper to read everything anew."""
_READ_AT_ONCE = 16_384
"""Rows that are copied at once. Many small pieces would fragment the heap."""
_SAMPLED = 1_000
"""Rows from which it is estimated what all take."""
_COMPARED_AGAIN_SECONDS = 30.0
"""After this time the table is compared even if its version says that nobody else has written."""


def _worth_merging(snapshot: Snapshot) -> list[Segment]:
    large = list(filter(_is_large, snapshot.segments))
    if not large:
        return []
    largest = max(large, key=len)
    rows = sum(map(len, large))
    if rows - largest.count > _OUTSIDE * rows:
        return large
    return [each for each in large if each is not largest] if len(large) > _MOST_SEGMENTS else []


def _is_large(segment: Segment) -> bool:
    return len(segment) > _INLINE // 2


class Allowance:
    """How many bytes the resident memories of this process may take, over all tables."""

    def __init__(self, nbytes: int, *, is_shared: bool = False) -> None:
        """`is_shared` says that several processes append, which forked from one that made this."""
        self.nbytes = nbytes
        self.is_shared = is_shared
        self.run = secrets.token_hex(8)
        """Names the run of the service, whose processes trust each other's copies."""
        self._taken: WeakKeyDictionary[ResidentMemories, int] = WeakKeyDictionary()

    @property
    def taken(self) -> int:
        return sum(self._taken.values())

    def grant(self, asking: "ResidentMemories", nbytes: int) -> bool:
        """Whether one table may take `nbytes` in place of what it had; first come, first served."""
        self._taken.pop(asking, None)
        if self.taken + nbytes > self.nbytes:
            return False
        self._taken[asking] = nbytes
        return True


class ResidentMemories:
    """The rows of a `memories` table in memory. Any thread may ask for the newest version.

    Large segments are mapped from files, which all processes of a service share; a small one of what came since is this process's own.
    """

    def __init__(self, stored: StoredTable, allowance: Allowance, folder: Path) -> None:
        """Keep nothing yet; later no more than `allowance` grants, with copies in `folder`."""
        self._stored = stored
        self._allowance = allowance
        location = stored.location
        store_id = location.state.look() if location.state else ""
        if not location.is_folder:  # else it is gone if the tenant was deleted
            with suppress(OSError):  # the copies will say so
                folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._copies = Copies(folder, f"{allowance.run} {store_id}")
        self._appends = Appends(folder / "appends", self._is_committed) if allowance.is_shared else None
        self._snapshot: Snapshot | None = None
        self._writing = threading.Lock()
        self._looked_at = self._compared_at = 0.0
        self._stale = False
        self._row_nbytes = 0.0
        self._terms = Terms(stored)

    @property
    def loaded(self) -> bool:
        return self._snapshot is not None

    def search(self, column: str | None = None) -> Snapshot | None:
        """The newest version in memory; None while it is not loaded, or `column` is not its vector column."""
        if self._snapshot is not None and self._is_due(self._snapshot):
            with self._writing:
                if self._snapshot is not None and self._is_due(self._snapshot):
                    self._look(self._snapshot)
        snapshot = self._snapshot
        return snapshot if snapshot is not None and column in (None, snapshot.column) else None

    @property
    def table(self) -> "Table":
        return self._stored.reading

    # Keeping up with the table

    def tend(self, column: str | None) -> None:
        """Use what another process copied, or copy the live vector column's table or what was added. Slow: call it in the background."""
        snapshot = self._snapshot
        if snapshot is not None and (snapshot.column != column or not self._allowance.grant(self, snapshot.nbytes)):
            self._snapshot = None
        self._adopt(column)
        if not self._must_copy:
            return
        try:
            with self._copies.writing() as draft:
                self._adopt(column)
                if self._snapshot is None:
                    self._load(column, draft)
                elif self._must_copy:
                    self._merge(draft)
        except BlockingIOError:
            return  # another process does
        except OSError as error:
            _log.warning("the memories of %s cannot be copied: %s", self.table.name, error)
            if self._snapshot is None:
                self._load(column, None)

    def _adopt(self, column: str | None) -> None:
        """Use the copy of another process, if there is one that was not seen yet, and what was committed since."""
        snapshot = self._copies.read(self._terms) if self._copies.has_unseen else None
        if snapshot is None or snapshot.column != column or not self._allowance.grant(self, snapshot.nbytes):
            return
        with self._writing:
            self._snapshot = snapshot
            self._look(snapshot)

    @property
    def _must_copy(self) -> bool:
        snapshot = self._snapshot
        return snapshot is None or bool(_worth_merging(snapshot)) or any(map(_is_large, self._own(snapshot)))

    def _own(self, snapshot: Snapshot) -> list[Segment]:
        """What is in no file: new, or an erasure removed the file."""
        return [each for each in snapshot.segments if not self._copies.has(each)]

    def _saved(self, segment: Segment, draft: Path) -> Segment:
        """The current rows of a segment from files."""
        if self._copies.has(segment):
            return segment
        return self._copies.save(segment if segment.current.all() else self._joined([segment]), draft)

    def append(self, rows: pa.Table, commit: Callable[[pa.Table], int]) -> None:
        """Append rows with new ids, whose last column is the searched one, by `commit`, which returns the table's version or 0.

        Never fails after the commit. If another commit came before, the next search reads both.
        """
        committed, version = self._appends.commit(rows, commit) if self._appends else (rows, commit(rows))
        if committed is None:
            return
        with self._writing:
            snapshot = self._snapshot
            if snapshot is None or version != snapshot.version + 1:
                self._stale = True
                return
            try:
                self._snapshot = self._grown(snapshot, [committed])
            except Exception as error:  # noqa: BLE001  whatever is wrong here must not look like a store that failed
                self._snapshot = None
                _log.warning("the memories of %s are loaded anew: %s", self.table.name, format_trace(error))

    def _is_committed(self, ids: Collection[int]) -> bool:
        with self._stored.explained():
            self.table.checkout_latest()
            return self.table.count_rows(lance.ids_in(ids)) > 0

    def _grown(self, snapshot: Snapshot, appends: Sequence[pa.Table]) -> Snapshot | None:
        """The snapshot after the next appends; None if they are of another column."""
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
        return replace(snapshot, segments=self._with(snapshot.segments, added))

    def changed(self) -> None:
        """Compare with the table before the next answer: this process changed it, and not by appending."""
        self._stale = True

    def _load(self, column: str | None, draft: Path | None) -> None:
        """Read the whole table, into files below `draft` if there can be any."""
        with self._writing:
            self._snapshot = None
            self._looked_at, self._stale = monotonic(), False
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
        """Bytes of memory that the whole table would take, by an even sample of its rows, or at least what it took before.

        The number of distinct terms grows with the square root of the number of rows (Heaps' law).
        """
        count = self.table.count_rows()
        if not count:
            return 0
        offsets = np.unique(np.linspace(0, count - 1, _SAMPLED, dtype=np.int64)).tolist()
        batches = self.table.take_offsets(offsets).select(self._columns(column)).to_batches()
        sample = Segment.of(batches, batches.schema, column, self._terms)
        times = count / len(offsets)
        estimate = times * sample.nbytes_of_rows + math.sqrt(times) * sample.words.vocabulary_nbytes
        return math.ceil(max(estimate, count * self._row_nbytes))

    def _look(self, known: Snapshot) -> None:
        self._looked_at, self._stale = monotonic(), False
        try:
            self._stored.look()
            version = self.table.version
            appends = self._appends.rows_of(range(known.version + 1, version + 1)) if self._appends else None
            if monotonic() - self._compared_at < _COMPARED_AGAIN_SECONDS and (appends or version == known.version):
                grown = self._grown(known, appends) if appends else known
                self._snapshot = grown and replace(grown, position=replace(known.position, version=version), appends=0)
            elif version > known.position.version:
                self._compared_at = monotonic()
                self._snapshot = self._compared(known)
        except Exception as error:  # noqa: BLE001  whatever is wrong here, the table on disk can be asked
            self._snapshot = None
            _log.warning("the memories of %s are loaded anew: %s", self.table.name, format_trace(error))

    def _is_due(self, known: Snapshot) -> bool:
        is_old = monotonic() - self._looked_at > self._stored.freshness
        return self._stale or is_old or self._stored.newest_version != known.version

    def _compared(self, known: Snapshot) -> Snapshot | None:
        """The snapshot after the commits until now; None if so much has changed that loading anew is cheaper."""
        changes = read_changes(feed.TableRows(self.table), known.position, known, ("id",))
        missing = changes.rows["id"].to_numpy()
        if len(missing) > _MOST_CHANGED:
            return None
        segments = tuple(each.without(changes.gone) for each in known.segments)
        if len(missing):
            added = self._read(known.column, lance.ids_in(missing.tolist()), known.mean_length)
            segments = self._with(segments, added)
        return Snapshot(changes.position, known.column, segments, self._terms)

    def _with(self, segments: Sequence[Segment], added: Segment) -> tuple[Segment, ...]:
        """The segments with another one; small ones are merged. If both have a row, the new one counts."""
        changed = [*(each.without(added.ids) for each in segments), added]
        while len(changed) > 1:
            last, before = len(changed[-1]), len(changed[-2])
            if 2 * last <= before or last + before > _INLINE:
                break
            changed[-2:] = [self._joined(changed[-2:])]
        return tuple(changed)

    @property
    def needs_tending(self) -> bool:
        return self._must_copy or self._copies.has_unseen

    def _merge(self, draft: Path) -> None:
        """Copy what was added, with large segments merged if that pays, while answers and appends go on."""
        with self._writing:
            if self._snapshot is None:
                return
            self._look(self._snapshot)  # after the draft was made: what is erased later removes the draft, too
            snapshot = self._snapshot
        if snapshot is None:
            return
        merged = _worth_merging(snapshot) or self._own(snapshot)
        joined = self._saved(self._joined(merged), draft)
        with self._writing:
            present = self._snapshot
            if present is None:
                return
            now = {id(each.rows): each for each in present.segments}
            if not all(id(each.rows) in now for each in merged):
                return
            for each in merged:
                joined = joined.without(each.ids[each.current & ~now.pop(id(each.rows)).current])
            segments = sorted([joined, *now.values()], key=len, reverse=True)
            segments = tuple(self._saved(each, draft) for each in segments)
            self._snapshot = replace(present, segments=segments)
            self._copies.publish(self._snapshot)

    def _joined(self, segments: Sequence[Segment]) -> Segment:
        return Segment.joined(segments, self._terms, self._snapshot.mean_length if self._snapshot else None)

    def _read(self, column: str, where: str, mean_length: float | None) -> Segment:
        batches = self.table.search().where(where).select(self._columns(column)).with_row_id(True).to_batches(_READ_AT_ONCE)
        return Segment.of(batches, batches.schema, column, self._terms, mean_length)

    def _columns(self, column: str) -> list[str]:
        schema = self.table.schema
        kept = column, meaning_column(column)
        others = [field.name for field in schema if pa.types.is_fixed_size_list(field.type) and field.name not in kept]
        return [name for name in schema.names if name not in others]
