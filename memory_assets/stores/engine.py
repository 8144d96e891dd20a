"""One DuckDB instance per process; files are attached while they are open. An instance for each file would take twice as long to open."""

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from math import inf
from pathlib import Path
from threading import Lock, get_ident
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "storage_compatibility_version": "v1.4.0",
}
"""A file format that DuckDB opens in a third of the time of its default; DuckDB 1.0 could read only the default."""

_MIN_FILE_FOR_THREADS = 64 << 20
"""Size from which a file's queries are faster in several threads; below, threads cost a third more processor time and save none."""

NOT_FOR_ARROW = "join_filter_pushdown"
"""DuckDB 1.5 fails on a join whose Bloom filter it pushes into a registered Arrow table (`Pushdown Filter Type BLOOM_FILTER`)."""
_WRITER_FIRST_SECONDS, _READERS_FIRST_SECONDS = 0.1, 0.4
"""For so long new readers let a waiting writer go first, and then it lets them: a long read stops no other. Searches wait 0.25 s."""


class InUseError(Exception):
    """This process writes the file, or waits to write it, or reads it and now needs to write it."""


@dataclass(slots=True)
class _Attached:
    """A file and its connections. They share one handle: closing any handle of a file ends the process's lock on it."""

    instance: "DuckDBPyConnection"
    read_only: bool
    threads: list[int] = field(default_factory=list)
    name: str = ""
    attaching: Lock = field(default_factory=Lock)


class Engine:
    """A DuckDB instance for all threads of a process. It starts with the first file, and again after a fatal error."""

    def __init__(self, scratch: Path) -> None:
        """Start nothing yet. DuckDB spills to `scratch`."""
        self._scratch = scratch
        self._instance: DuckDBPyConnection | None = None
        self._attached: dict[Path | None, _Attached] = {}
        self._writer_came: dict[Path | None, float] = {}
        self._numbers = count()
        self._lock = Lock()
        self._empty: _Attached | None = None

    def open(self, opened: ExitStack, path: Path | None, read_only: bool) -> "DuckDBPyConnection":
        """Open the file at `path`, or an empty database in memory. `opened` closes the connection.

        InUseError: this process has the file open in another mode, or waits to, or the instance has just failed.
        """
        import duckdb

        with self._lock:
            held, thread = self._attached.get(path) or _Attached(self._ensure_instance(), read_only), get_ident()
            since_writer = monotonic() - self._writer_came.get(path, -inf)
            if held.threads and not (held.read_only and read_only):
                if not read_only and since_writer > _WRITER_FIRST_SECONDS + _READERS_FIRST_SECONDS:
                    self._writer_came[path] = monotonic()
                raise InUseError
            if read_only and since_writer < _WRITER_FIRST_SECONDS and thread not in held.threads:
                raise InUseError
            if not read_only:
                self._writer_came.pop(path, None)
            if path:
                self._attached[path] = held
            held.read_only = read_only
            held.threads.append(thread)
        opened.callback(self._release, path, held, thread)
        try:
            connection = held.instance.cursor()
            opened.callback(connection.close)
            with held.attaching:
                if not held.name:
                    name = f"catalog_{next(self._numbers)}"
                    file = str(path or ":memory:").replace("'", "''")
                    connection.execute(f"ATTACH '{file}' AS {name} {'(READ_ONLY)' if path and read_only else ''}")
                    held.name = name
                    if path and path.stat().st_size >= _MIN_FILE_FOR_THREADS:
                        connection.execute("RESET GLOBAL threads")
            connection.execute(f"USE {held.name}")
        except duckdb.FatalException as error:
            self._drop_instance(held.instance)
            if "has been invalidated" in str(error):
                raise InUseError from error
            raise
        return connection

    def open_empty(self, opened: ExitStack, create: "Callable[[DuckDBPyConnection], None]") -> "DuckDBPyConnection":
        """Open the database in memory that stands for missing files; `create` makes its tables once. Nobody writes into it."""
        with self._lock:
            instance = self._ensure_instance()
            connection = instance.cursor()
            opened.callback(connection.close)
            if not self._empty or self._empty.instance is not instance:
                name = f"empty_{next(self._numbers)}"
                connection.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
                create(connection)
                self._empty = _Attached(instance, read_only=True, name=name)
            connection.execute(f"USE {self._empty.name}")
        return connection

    def _release(self, path: Path | None, held: _Attached, thread: int) -> None:
        import duckdb

        with held.attaching:
            with self._lock:
                held.threads.remove(thread)
                is_last = not held.threads
            if is_last and held.name:
                try:
                    with held.instance.cursor() as connection:
                        connection.execute(f"DETACH {held.name}")
                except duckdb.Error:
                    self._drop_instance(held.instance)
                held.name = ""
        with self._lock:
            if not held.threads and self._attached.get(path) is held:
                del self._attached[path]

    def _ensure_instance(self) -> "DuckDBPyConnection":
        import duckdb

        if self._instance is None:
            self._instance = duckdb.connect(config=CONFIG | {"temp_directory": str(self._scratch), "threads": 1})
            self._instance.execute(
                "LOAD icu; SET GLOBAL TimeZone = 'UTC'; PRAGMA disable_checkpoint_on_shutdown; "
                f"SET disabled_optimizers = '{NOT_FOR_ARROW}'"
            )
        return self._instance

    def _drop_instance(self, instance: "DuckDBPyConnection") -> None:
        with self._lock:
            if self._instance is instance:
                self._instance = None


_ENGINES: dict[int, Engine] = {}
"""Process id -> its instance; a forked process can neither use nor close its parent's."""


def engine(scratch: Path) -> Engine:
    """Return this process's instance; `scratch` is used if it is created now."""
    return _ENGINES.setdefault(os.getpid(), Engine(scratch))


def name_of(connection: "DuckDBPyConnection") -> str:
    """Return the SQL name of a connection's database."""
    return connection.execute("SELECT current_database()").fetchall()[0][0]
