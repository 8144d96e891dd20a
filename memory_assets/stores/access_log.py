"""The access log: which memories were recalled, and when. Recall appends to it; the decay cycle folds it into the catalog.

There is one log a UTC day, `access/<date>.log`, with one record a line: the time in microseconds, the ids, the interface, and a full
stop that marks the record as complete. Each record is one append, so records of several processes never mix. A record begins with a
line break, so a torn record damages no other.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from memory_assets.errors import StoreError
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.files import mend_of
from memory_assets.stores.state import TenantState

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)
_FOLDER = "access/"
_SEGMENT = re.compile(r"\d{4}-\d\d-\d\d\.log")
_RECORD = re.compile(rb"(\d{1,17})((?: \d{1,16})+)(?: ([a-z]+))? \.")
_SEGMENT_DAYS = 30
"""Days after which a folded segment is deleted; until then it shows which interface recalled a memory."""
recalled_by: ContextVar[str] = ContextVar("recalled_by", default="cli")
"""The interface that recalls: cli, http, mcp or page."""


class Accesses(NamedTuple):
    """Records read from the log."""

    rows: pa.Table
    """Columns `id` and `at` (UTC), one row for each recall of a memory."""
    offsets: dict[str, int]
    """Segment -> bytes read so far, where the next read continues."""


class AccessLog:
    """One tenant's access log."""

    def __init__(self, state: TenantState) -> None:
        self._state = state

    def record(self, ids: Iterable[int], at: datetime) -> None:
        """Append a recall of some memories at a timezone-aware time; a failure only logs a warning."""
        listed = " ".join(str(int(number)) for number in ids)
        if not listed:
            return
        line = f"\n{int(at.timestamp() * 1e6)} {listed} {recalled_by.get()} .\n".encode("ascii")
        try:
            self._state.append(f"{_FOLDER}{datetime.now(UTC):%Y-%m-%d}.log", line)
        except OSError as error:
            _log.warning("The recall was not logged, as the disk does not take it (%s); %s.", error.strerror, mend_of(error))
        except StoreError as error:
            _log.warning("The recall was not logged: %s", error)

    def read_since(self, offsets: Mapping[str, int]) -> Accesses:
        """Return the records after the `offsets` of an earlier read; torn or foreign lines are skipped."""
        ids: list[int] = []
        times: list[int] = []
        reached: dict[str, int] = {}
        for segment, size in self._segments():
            start = offsets.get(segment, 0)
            if start > size:
                start = 0
            data = self._state.get(_FOLDER + segment, start) or b""
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                if found := _RECORD.fullmatch(line):
                    numbers = [int(number) for number in found[2].split()]
                    ids += numbers
                    times += [int(found[1])] * len(numbers)
            reached[segment] = start + len(whole)
        moments = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return Accesses(pa.table({"id": pa.array(ids, pa.int64()), "at": moments}), reached)

    def recalls_of(self, number: int) -> list[tuple[datetime, str]]:
        """Return when and through which interface a memory was recalled in the last weeks, newest first; '' in older records."""
        marked = f" {number} ".encode()
        logs = (self._state.get(_FOLDER + segment) or b"" for segment, _ in self._segments())
        found = (_RECORD.fullmatch(line) for log in logs for line in log.splitlines() if marked in line)
        recalls = [(datetime.fromtimestamp(int(each[1]) / 1e6, UTC), (each[3] or b"").decode()) for each in found if each]
        return sorted(recalls, reverse=True)

    def drop_before(self, now: datetime, offsets: Mapping[str, int]) -> None:
        """Delete old segments that `offsets` shows to be completely read."""
        oldest = f"{now.astimezone(UTC) - timedelta(days=_SEGMENT_DAYS):%Y-%m-%d}.log"
        old = [segment for segment, size in self._segments() if segment < oldest and offsets.get(segment) == size]
        self._state.remove(*(_FOLDER + segment for segment in old))

    def _segments(self) -> list[tuple[str, int]]:
        found = ((entry.name.removeprefix(_FOLDER), entry.size) for entry in self._state.list(_FOLDER))
        return [(name, size) for name, size in found if _SEGMENT.fullmatch(name)]


_OFFSETS = 'SELECT segment, "offset" FROM access_offsets'


def preview_accesses(connection: "DuckDBPyConnection", log: AccessLog) -> None:
    """Let `memory_access` include, for this connection alone, the recalls that are not folded in yet."""
    connection.register("accesses", log.read_since(dict(connection.execute(_OFFSETS).fetchall())).rows)
    connection.execute("""
        CREATE TEMP TABLE memory_access AS
        SELECT id, max(last_at) AS last_at, sum(accesses)::BIGINT AS accesses
        FROM (FROM memory_access UNION ALL BY NAME SELECT id, "at" AS last_at, 1 AS accesses FROM accesses) GROUP BY id
    """)


def fold_accesses(catalog: Catalog, log: AccessLog, now: datetime) -> int:
    """Add new recalls to `memory_access` in one transaction, each record exactly once; return their number."""
    known = dict(catalog.fetch(_OFFSETS))
    accesses = log.read_since(known)
    if accesses.offsets != known:
        with catalog.write() as connection:
            if dict(connection.execute(_OFFSETS).fetchall()) != known:
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
