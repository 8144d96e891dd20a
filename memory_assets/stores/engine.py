"""This process's DuckDB: one instance, to which a file is attached while it is open. To start an instance takes twice as long."""

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "storage_compatibility_version": "v1.4.0",
}
"""New files get a format that DuckDB opens in a third of the time of its default one, which DuckDB 1.0 could read."""

NOT_FOR_ARROW = "join_filter_pushdown"
"""DuckDB 1.5 fails on a join whose Bloom filter it pushes into a registered Arrow table (`Pushdown Filter Type BLOOM_FILTER`)."""


class InUseError(Exception):
    """This process writes the file, or wants to write what it reads."""


@dataclass(slots=True)
class _Attached:
    """A file and the connections to it. They share one handle: the system ends a process's lock when any of its handles is closed."""

    instance: "DuckDBPyConnection"
    read_only: bool
    users: int = 0
    name: str = ""
    attaching: Lock = field(default_factory=Lock)


class Engine:
    """An instance of DuckDB for all threads of a process. It starts with the first file, and again after an error that ended it."""

    def __init__(self, scratch: Path) -> None:
        """Start nothing yet. DuckDB writes to `scratch` what does not fit into memory."""
        self._scratch = scratch
        self._instance: DuckDBPyConnection | None = None
        self._attached: dict[Path | None, _Attached] = {}
        self._numbers = count()
        self._lock = Lock()

    def open(self, opened: ExitStack, path: Path | None, read_only: bool) -> "DuckDBPyConnection":
        """A connection to the file at `path`, or to an empty database in memory. `opened` closes it.

        Raises:
            InUseError: this process has the file open otherwise, or the instance has just ended.
            duckdb.Error: the file cannot be opened.
        """
        import duckdb

        with self._lock:
            held = self._attached.get(path) or _Attached(self._running(), read_only)
            if held.users and not (held.read_only and read_only):
                raise InUseError
            if path:
                self._attached[path] = held
            held.read_only = read_only
            held.users += 1
        opened.callback(self._release, path, held)
        try:
            connection = held.instance.cursor()
            opened.callback(connection.close)
            with held.attaching:
                if not held.name:
                    name = f"catalog_{next(self._numbers)}"
                    file = str(path or ":memory:").replace("'", "''")
                    connection.execute(f"ATTACH '{file}' AS {name} {'(READ_ONLY)' if path and read_only else ''}")
                    held.name = name
            connection.execute(f"USE {held.name}")
        except duckdb.FatalException as error:
            self._end(held.instance)
            if "has been invalidated" in str(error):
                raise InUseError from error
            raise
        return connection

    def _release(self, path: Path | None, held: _Attached) -> None:
        import duckdb

        with held.attaching:
            with self._lock:
                held.users -= 1
                is_last = not held.users
            if is_last and held.name:
                try:
                    with held.instance.cursor() as connection:
                        connection.execute(f"DETACH {held.name}")
                except duckdb.Error:
                    self._end(held.instance)
                held.name = ""
        with self._lock:
            if not held.users and self._attached.get(path) is held:
                del self._attached[path]

    def _running(self) -> "DuckDBPyConnection":
        import duckdb

        if self._instance is None:
            self._instance = duckdb.connect(config=CONFIG | {"temp_directory": str(self._scratch)})
            self._instance.execute(
                "LOAD icu; SET GLOBAL TimeZone = 'UTC'; PRAGMA disable_checkpoint_on_shutdown; "
                f"SET disabled_optimizers = '{NOT_FOR_ARROW}'"
            )
        return self._instance

    def _end(self, instance: "DuckDBPyConnection") -> None:
        """Let the next file be attached to another instance."""
        with self._lock:
            if self._instance is instance:
                self._instance = None


_ENGINES: dict[int, Engine] = {}
"""By process: a forked one can neither use nor end its parent's."""


def engine(scratch: Path) -> Engine:
    """This process's DuckDB; `scratch` counts if it has none yet."""
    return _ENGINES.setdefault(os.getpid(), Engine(scratch))


def name_of(connection: "DuckDBPyConnection") -> str:
    """What SQL calls the database to which a connection leads."""
    (name,) = connection.execute("SELECT current_database()").fetchall()[0]
    return name
