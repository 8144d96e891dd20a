"""The access log: which memories were recalled, and when. Appended to by recall, folded into the catalog by the decay cycle.

One file a UTC day of writing, `access/<date>.log`, one record a line: the time in microseconds, the ids, and a full stop that
says that the record is whole. A record is one `write` to a file opened for appending, so processes never mix; it begins with a
line break of its own, so that a torn record before it harms nothing but itself.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from memory_assets.stores.catalog import Catalog

_log = logging.getLogger(__name__)
_SEGMENT = re.compile(r"\d{4}-\d\d-\d\d\.log")
_RECORD = re.compile(rb"(\d{1,17})((?: \d{1,16})+) \.")
_KEPT_DAYS = 2
"""Days after which a segment that was folded in is deleted: long after the last writer that began it."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """What was read from the log."""

    rows: pa.Table
    """Columns `id` and `at` (UTC), one row a recalled memory."""
    offsets: dict[str, int]
    """Segment -> bytes read of it so far; what the next reading goes on from."""


class AccessLog:
    """One tenant's access log."""

    def __init__(self, folder: Path) -> None:
        """Name the tenant's folder; nothing is opened or created yet."""
        self.folder = folder / "access"

    def record(self, ids: Iterable[int], at: datetime) -> None:
        """Append one recall of some memories: one small write, whatever the log's size; left out where nothing can be written.

        Args:
            ids: the memories that were recalled; none writes nothing.
            at: when, aware.
        """
        listed = " ".join(str(int(number)) for number in ids)
        if not listed:
            return
        line = f"\n{int(at.timestamp() * 1e6)} {listed} .\n".encode("ascii")
        path = self.folder / f"{datetime.now(UTC):%Y-%m-%d}.log"
        try:
            self._append(path, line)
        except OSError as error:
            _log.warning("What was recalled is not noted: %s.", error)

    def _append(self, path: Path, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read_since(self, offsets: Mapping[str, int]) -> Accesses:
        """The records that were appended after `offsets`; a torn or foreign line is passed over.

        Args:
            offsets: what an earlier reading returned; empty reads everything.
        """
        ids: list[int] = []
        times: list[int] = []
        reached: dict[str, int] = {}
        for path in self._segments():
            start = offsets.get(path.name, 0)
            if start > path.stat().st_size:
                start = 0
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                if found := _RECORD.fullmatch(line):
                    numbers = [int(number) for number in found[2].split()]
                    ids += numbers
                    times += [int(found[1])] * len(numbers)
            reached[path.name] = start + len(whole)
        moments = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return Accesses(pa.table({"id": pa.array(ids, pa.int64()), "at": moments}), reached)

    def drop_before(self, now: datetime, offsets: Mapping[str, int]) -> None:
        """Delete old segments of which everything has been read, as `offsets` says."""
        oldest = f"{now.astimezone(UTC) - timedelta(days=_KEPT_DAYS):%Y-%m-%d}.log"
        for path in self._segments():
            if path.name < oldest and offsets.get(path.name) == path.stat().st_size:
                path.unlink(missing_ok=True)

    def _segments(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _SEGMENT.fullmatch(path.name))


def fold_accesses(catalog: "Catalog", log: AccessLog, now: datetime) -> int:
    """Add what was recalled since the last time to the catalog's `memory_access`, each record exactly once.

    Counts and offsets change in one transaction, so a kill at any point neither loses nor doubles a record.

    Returns:
        How many recalls were added.

    Raises:
        StoreError: the catalog cannot be read or written; the log stays as it was.
    """
    with catalog.read() as connection:
        known = dict(connection.execute('SELECT segment, "offset" FROM access_offsets').fetchall())
    accesses = log.read_since(known)
    if accesses.offsets != known:
        with catalog.write() as connection:
            if dict(connection.execute('SELECT segment, "offset" FROM access_offsets').fetchall()) != known:
                return 0
            connection.register("accesses", accesses.rows)
            connection.execute("""
                MERGE INTO memory_access m
                USING (SELECT id, max("at") AS last_at, count(*) AS accesses FROM accesses GROUP BY id) a ON m.id = a.id
                    WHEN MATCHED THEN UPDATE SET last_at = greatest(m.last_at, a.last_at), accesses = m.accesses + a.accesses
                    WHEN NOT MATCHED THEN INSERT (id, last_at, accesses) VALUES (a.id, a.last_at, a.accesses)
            """)
            connection.execute("DELETE FROM access_offsets")
            for segment, offset in accesses.offsets.items():
                connection.execute("INSERT INTO access_offsets VALUES (?, ?)", [segment, offset])
    log.drop_before(now, accesses.offsets)
    return accesses.rows.num_rows
