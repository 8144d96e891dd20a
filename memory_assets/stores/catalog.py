"""The DuckDB catalog: derived data, which a run can rebuild. Only the assets write it, each in one short transaction.

DuckDB lets either one process write a file or several processes read it. Therefore nobody keeps a file open while computing:
`Catalog.read` and `Catalog.write` open it, wait a bounded time for another process's lock, and close it again.
"""

import logging
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_assets.display import counted
from memory_assets.errors import DamagedError, StoreBusyError, StoreError, first_line
from memory_assets.stores.engine import Engine, InUseError, engine, name_of
from memory_assets.stores.files import stamp_files
from memory_assets.stores.migrations import create_tables, migrate_catalog, waiting_migrations
from memory_assets.stores.schema import UNDERIVED, table
from memory_assets.stores.schema_differences import catalog_differences, list_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.state import TenantState

_log = logging.getLogger(__name__)

_MAX_LOG_BYTES = 1 << 14
"""Size in bytes from which the write-ahead log is merged into the file. Every opening replays the log: at a million memories, 25 ms of
processor time plus 4 ms a kilobyte. Opening takes 17 ms, merging 220 ms.
"""
_MIN_FILE_TO_LOG = 1 << 12
"""The log is kept while the file is this many times larger. Merging into a smaller file pays off after a few openings."""
_LOCKED = re.compile(r"Could not set lock on file.*?Conflicting lock is held in (?P<holder>.+?\(PID \d+\))", re.DOTALL)

_TRUNCATED = "Could not read enough bytes"
"""Part of DuckDB's message if a file ends before a block that it needs."""
_HEADER_BYTES = 3 * 4096
"""Size of what precedes the first block of a file."""

INTERACTIVE_SECONDS = 1.0
"""How long an interactive command waits for another process's lock."""
_DAMAGE_CHECKS = 3
"""How often a file must look damaged in a row; another process may be creating it."""

Stamp = tuple[tuple[int, int, int], ...]

_WATCHED: dict[str, Stamp | None] = {}
"""Key of a watched catalog -> its stamp after this process's last write; None once another process has written."""


class Catalog:
    """One tenant's catalog at a path. Connections exist only inside `read` and `write`."""

    is_shared = False
    """Whether other machines may use it."""

    def __init__(self, uri: str, lock_timeout: float, state: "TenantState | None" = None) -> None:
        """Refer to a catalog; `state` knows the id of the store that it belongs to."""
        self.path = Path(uri)
        self._scratch = self.path.parent.parent / "tmp"
        self.lock_timeout = lock_timeout
        self._state = state

    @property
    def log_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.wal")

    @property
    def damaged_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged")

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def where(self) -> str:
        return f"The catalog {self.path}"

    @property
    def key(self) -> str:
        return str(self.path)

    @property
    def interactive(self) -> "Catalog":
        """This catalog with a lock timeout of at most `INTERACTIVE_SECONDS`, for a person who waits for the answer."""
        return self.within(INTERACTIVE_SECONDS)

    def within(self, seconds: float) -> "Catalog":
        """Return this catalog with a lock timeout of at most `seconds`."""
        other = copy(self)
        other.lock_timeout = min(self.lock_timeout, seconds)
        return other

    def is_in(self, folder: Path) -> bool:
        return self.path.parent == folder

    @property
    def stamp(self) -> Stamp:
        """A value that differs after every change; empty if there is no catalog."""
        return stamp_files(self.path, self.log_path)

    def watch(self) -> None:
        """Start to track writes of other processes. Creates the catalog if there is none."""
        if not self.exists:
            with self.write():
                pass
        _WATCHED[self.key] = self.stamp

    @property
    def is_undisturbed(self) -> bool:
        return _WATCHED.get(self.key) == self.stamp

    @contextmanager
    def _tracking_writes(self) -> Iterator[None]:
        if _WATCHED.get(self.key, self.stamp) != self.stamp:
            _WATCHED[self.key] = None
        yield
        if _WATCHED.get(self.key):
            _WATCHED[self.key] = self.stamp

    @contextmanager
    def read(self) -> Iterator["DuckDBPyConnection"]:
        """Open a connection for reading. Creates nothing.

        A missing catalog reads as an empty one, and so does a damaged catalog, which is set aside. A catalog of an earlier release is
        copied into memory and migrated there; the next write migrates the file. DamagedError: the catalog turned out to be damaged during
        the block and was set aside. StoreBusyError: another process has locked it for longer than the timeout.
        """
        if self._state:
            with suppress(DamagedError):
                self._state.look()
        with ExitStack() as opened, self._handling_damage(opened):
            connection = None
            try:
                connection = self._connect(opened) if self.exists else None
            except _DamageError as damage:
                _log.warning("%s", self._set_aside(damage))
            if connection is None or waiting_migrations(connection, self.where) != ():
                opened.close()
                connection = self._open_copy(opened) if self.exists else self._engine.open_empty(opened, create_tables)
            yield connection

    def fetch(self, query: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """Return the rows of one query, over a connection of `read`."""
        with self.read() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def write(self) -> Iterator["DuckDBPyConnection"]:
        """Open a connection in one transaction, committed at the end of the block and rolled back on any error.

        A deletion of the tenant waits for the commit, not for the block. DeletedError: the tenant was deleted or recreated since this
        object first saw it; nothing was committed. DamagedError: the catalog was set aside, and nothing was written, because rows that
        were read before are gone. StoreBusyError as for `read`.
        """
        if self._state:
            self._state.claim()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as opened, self._handling_damage(opened):
            try:
                connection = self._connect(opened, read_only=False)
            except _DamageError as damage:
                raise DamagedError(self._set_aside(damage)) from damage
            with self._tracking_writes():
                migrate_catalog(connection, self.where)
                connection.begin()
                yield connection
                with self._held():  # not before: it blocks `put`
                    connection.commit()
                    largest = min(_MAX_LOG_BYTES, self.path.stat().st_size // _MIN_FILE_TO_LOG)
                    if self.log_path.exists() and self.log_path.stat().st_size > largest:
                        connection.execute("CHECKPOINT")

    def _held(self) -> AbstractContextManager[None]:
        """Keep the tenant from being deleted during the block. DeletedError as for `write`."""
        return self._state.held() if self._state else nullcontext()

    def waiting_migrations(self) -> list[str]:
        """Return the names of the migrations that the next write runs; none for a damaged catalog, which is set aside instead."""
        with suppress(_DamageError):
            if self.exists:
                with self._cursor() as connection:
                    return [step.name for step in waiting_migrations(connection, self.where) or ()]
        return []

    @contextmanager
    def _cursor(self) -> "Iterator[DuckDBPyConnection]":
        with ExitStack() as opened:
            yield self._connect(opened)

    def find_damage(self) -> str:
        """Return what is damaged, in a few words; empty if every row can be read. Changes nothing.

        StoreError: the file cannot be read for another reason.
        """
        import duckdb

        if not self.exists:
            return ""
        try:
            with self._cursor() as connection:
                for name in list_tables(connection):
                    connection.execute(f'SELECT max(hash(t)) FROM "{name}" t').fetchall()
        except (_DamageError, DamagedError, duckdb.Error) as error:
            self._raise_unusable(error)
            return first_line(error.__cause__ or error)
        return ""

    def recreate(self) -> None:
        """Replace the file with a new one that holds only the `UNDERIVED` tables; the next run rebuilds the rest.

        DuckDB keeps deleted rows in its file and its log until it overwrites them.
        """
        fresh = Catalog(str(self.path.with_name(f".{self.path.name}.new")), self.lock_timeout)
        fresh.path.unlink(missing_ok=True)
        with self.write() as connection, self._held():
            with fresh.write() as new:
                put_kept(new, read_kept(connection))
            with ExitStack() as opened:
                fresh._connect(opened, read_only=False).execute("CHECKPOINT")
            self.log_path.unlink(missing_ok=True)
            fresh.path.replace(self.path)

    def reset(self) -> None:
        for path in (self.path, self.log_path):
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the catalog, and its folder if that is empty then."""
        self.reset()
        with suppress(OSError):
            self.path.parent.rmdir()

    def set_aside(self) -> None:
        """Rename a damaged catalog, so that the next run rebuilds it."""
        for path in (self.path, self.log_path):
            with suppress(FileNotFoundError):
                path.rename(str(path).replace(str(self.path), str(self.damaged_path)))

    def _set_aside(self, damage: "_DamageError") -> str:
        """Set the file aside, unless another process did so already; return a sentence that says so."""
        with suppress(FileNotFoundError):
            if self.path.stat().st_ino == damage.inode:
                self.set_aside()
        return f"{self.where} is damaged ({damage}) and was set aside as {self.damaged_path.name}; `memory run` rebuilds it."

    @contextmanager
    def _handling_damage(self, opened: ExitStack) -> Iterator[None]:
        """If the block fails because the file is damaged, close `opened` and set the file aside; if it lacks a table, raise StoreError."""
        import duckdb

        inode = self._inode
        try:
            yield
        except duckdb.Error as error:
            opened.close()
            self._raise_unusable(error)
            if self.exists and isinstance(error, duckdb.CatalogException | duckdb.BinderException):
                self._raise_incomplete(error)
            of_file = duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException
            is_short = _TRUNCATED in str(error) and str(self.path) in str(error)
            if not isinstance(error, of_file) or not (is_short or self.find_damage()):
                raise
            raise DamagedError(self._set_aside(_DamageError(first_line(error), inode))) from error

    def _raise_incomplete(self, error: Exception) -> None:
        """Raise StoreError if the file has not the registered tables and columns; otherwise the error's query is wrong."""
        with self._cursor() as connection:
            lacking = catalog_differences(connection)
        if lacking:
            raise StoreError(
                f"{self.where} is incomplete ({lacking[0].rstrip('.')}); run `memory doctor --mend`, then `memory run`."
            ) from error

    @property
    def _inode(self) -> int:
        with suppress(FileNotFoundError):
            return self.path.stat().st_ino
        return 0

    @property
    def _engine(self) -> Engine:
        return engine(self._scratch)

    def _open_copy(self, opened: ExitStack) -> "DuckDBPyConnection":
        """Copy this catalog into memory, with the newest schema."""
        connection = self._engine.open(opened, None, read_only=False)
        with ExitStack() as copying:
            connection.execute(f"COPY FROM DATABASE {name_of(self._connect(copying))} TO {name_of(connection)}")
        migrate_catalog(connection, self.where)
        return connection

    def _connect(self, opened: ExitStack, read_only: bool = True) -> "DuckDBPyConnection":
        """Open the file as soon as no other process has it locked; `opened` closes it."""
        import duckdb

        deadline = time.monotonic() + self.lock_timeout
        pause, checks = 0.01, 0
        while True:
            inode = self._inode
            try:
                return self._attach_file(opened, read_only)
            except (_DamageError, InUseError, duckdb.Error) as error:
                locked = _LOCKED.search(str(error))
                if not locked and not isinstance(error, InUseError):
                    self._raise_unusable(error)
                    checks += 1
                    if checks == _DAMAGE_CHECKS:
                        raise _DamageError(first_line(error), inode) from error
                elif time.monotonic() + pause > deadline:
                    holder, advice = "this process", "try again"
                    if locked:
                        holder, advice = locked["holder"], "wait for it to finish or stop that process"
                    raise StoreBusyError(
                        f"{self.where} has been locked for {self.lock_timeout:g} s by {holder}; {advice}."
                    ) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, 0.5 if locked else 0.05)

    def _attach_file(self, opened: ExitStack, read_only: bool) -> "DuckDBPyConnection":
        if not self.exists:
            self.log_path.unlink(missing_ok=True)
        inode, has_log = self._inode, self.log_path.exists()
        with ExitStack() as attached:
            connection = self._engine.open(attached, self.path, read_only)
            sizes = "SELECT used_blocks, block_size FROM pragma_database_size() WHERE database_name = current_database()"
            used, size = connection.execute(sizes).fetchone() or (0, 1)
            present, rest = divmod(self.path.stat().st_size - _HEADER_BYTES, size)
            # Compare the used blocks, not all: DuckDB truncates free ones. While there is a log, it counts blocks not written yet.
            if inode and (rest or (used > present and not has_log)):
                raise _DamageError("its end is missing", inode)
            opened.callback(attached.pop_all().close)
            return connection

    def _raise_unusable(self, error: Exception) -> None:
        """Raise StoreError if the error's cause is no damage to the file."""
        from memory_assets.stores.lance import advice_for

        advice = advice_for(error) or ("upgrade memory_assets" if "version number" in str(error) else "")
        if advice:
            raise StoreError(f"{self.where} cannot be used ({first_line(error)}); {advice}.") from error


class _DamageError(Exception):
    def __init__(self, what: str, inode: int) -> None:
        super().__init__(what)
        self.inode = inode


def count_known_memories(catalog: Catalog) -> str:
    """Return in words how many memories the newest graph is made of; empty if none."""
    if not catalog.exists:
        return ""
    with catalog.read() as connection:
        counts = "SELECT count(*), count(*) FILTER (source_key = '') FROM graph_memories"
        known, direct = connection.execute(counts).fetchone() or (0, 0)
    return f"{counted(known)}, of which {direct:,} came from no file" if known else ""


def read_kept(connection: "DuckDBPyConnection", *names: str) -> "dict[str, pa.Table]":
    """Read the tables that no run can rebuild, or those of `names`."""
    return {name: connection.execute(f"FROM {name}").to_arrow_table() for name in names or UNDERIVED}


def put_kept(connection: "DuckDBPyConnection", kept: "Mapping[str, pa.Table]") -> None:
    """Put rows that `read_kept` returned, one for each key; they replace rows with the same key."""
    for name, rows in kept.items():
        connection.register("kept", rows)
        connection.execute(table(name).delete("FROM kept"))
        key = ", ".join(table(name).key)
        connection.execute(
            f"INSERT INTO {name} BY NAME SELECT DISTINCT ON ({key}) * FROM kept"
        )  # unlike MERGE, inlined by DuckLake


def copy_in(connection: "DuckDBPyConnection", given: "Mapping[str, pa.Table]") -> None:
    """Create a temporary table for each of `given`; joins with them are fast."""
    for name, _rows in given.items():  # noqa: PERF102 - DuckDB reads the variable, in half the time of a registered table
        connection.execute(f"CREATE TEMP TABLE {name} AS FROM _rows")
