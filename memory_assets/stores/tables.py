"""LanceDB tables that are opened when they are first read and made when they are first written.

Reading creates nothing: a table that does not exist reads as an empty one, and is looked for again with every reading. The first
writing makes it and builds its indices. Several processes may do that at once.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, wraps
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import pyarrow as pa

from memory_assets.errors import DamagedError, StoreError, first_line
from memory_assets.privacy import make_temporary_folder, name_temporary_folder
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.files import replace_file
from memory_assets.stores.location import Location
from memory_assets.stores.locks import Commits, guard
from memory_assets.stores.schema import VERSION, VERSION_FACT

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.table import Table

_CREATION_SECONDS = 2.0
_INDEX_CACHE_BYTES = 16 << 20
"""At 100,000 memories four times as much answers no sooner: the system caches the files."""
_METADATA_CACHE_BYTES = 8 << 20
_CHECK_CACHE_FACTOR = 16
_CHECK_CACHE_BYTES = 64 << 20
"""Memory that checking an index takes: at most so many times its files, and some room."""
_IN_MEMORY = "memory://"
_HINT = "latest_version_hint.json"
"""In which Lance notes the newest version at every commit."""
_NOT_FOUND = "was not found"
"""Part of what LanceDB says of a table that was never made."""
_log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")


@cache
def session(table: str) -> "Session":  # noqa: ARG001 - told apart by it
    """LanceDB's cache of the files it has read, one for all tables of that name in this process."""
    return import_lancedb().Session(_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Name, schema and indices of a table."""

    name: str
    schema: pa.Schema
    """With `id` as its primary key."""
    indices: Callable[[], Mapping[str, Any]] = dict
    """Makes the index configuration by column."""


class StoredTable:
    """One table of one database. Any thread may use it."""

    def __init__(
        self, place: str | Location, definition: TableDefinition, freshness: float = 0.0, data_dir: Path | None = None
    ) -> None:
        """Name a table in a database, at a location or its URI; nothing is opened yet.

        Commits of other processes are seen within `freshness` seconds; 0 looks at every call, which costs each query several
        milliseconds. Temporary files go to `data_dir`, or where the system puts them.
        """
        self.location = place if isinstance(place, Location) else Location(place)
        self.definition = definition
        self.freshness = freshness
        self._data_dir = data_dir
        if data_dir:
            name_temporary_folder(data_dir)
        self._table: Table | None = None
        self._stand_in: Table | None = None
        self._prepared = False
        self._opening = RLock()
        self._newest: tuple[Path, Path] | None = None
        """Where the manifest of the newest version that was seen is, and that of the next one will be."""
        self._version = 0
        self._commits = Commits(self.location.state) if self.location.state and not self.location.is_folder else None
        self._looked_at = -math.inf

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def exists(self) -> bool:
        """Whether it was ever made; looks, and makes nothing. A folder without a commit, as a kill or a full disk leaves it, is none."""
        if self._table is not None:
            return True
        if not self.location.is_folder:
            with self._opening:
                self._table = self._table or self._opened()
            return self._table is not None
        return self._folder.is_dir() and not self._is_unmade

    @property
    def reading(self) -> "Table":
        """The table as it is; an empty one in its stead as long as it does not exist."""
        if self._table is None:
            with self._opening, self.explained("opened"):
                if self._table is None:
                    self._table = self._opened()
        elif self.freshness and self.location.is_folder:
            self._follow(self._table)
        elif self._commits and monotonic() - self._looked_at >= self.freshness:
            with self.explained():
                self.look()
        return self._empty() if self._table is None else self._table

    @property
    def newest_version(self) -> int:
        """The version of the newest commit: in a folder at once, whoever made it, in object storage within the freshness."""
        table = self.reading
        with self.explained():
            return self._version if self._newest else table.version

    def look(self) -> None:
        """See every commit that was made until now, whoever made it."""
        if self._table is not None:
            self._looked_at = monotonic()
            if self._commits:
                self._commits.follow(self._table)
            else:
                self._table.checkout_latest()

    def _follow(self, table: "Table") -> None:
        """Bring the table to its newest commit. Two looks at its folder take microseconds; asking LanceDB takes half a millisecond.

        Old versions are dropped first, so a next one that was dropped took this one along. A file system's clock is too coarse to tell
        two commits apart.
        """
        if self._newest is None or not self._newest[0].exists() or self._newest[1].exists():
            with suppress(OSError, RuntimeError):  # a reading of what is lost will say so
                table.checkout_latest()
                self._version = table.version
                self._newest = self.location.manifests(self.definition.name, self._version)

    @property
    def writing(self) -> "Table":
        """The table, made and indexed where that has not been done."""
        if not self._prepared:
            with self._opening, self.explained("made"):
                table = self._opened() if self._table is None else self._table
                if table is None:
                    table = self._created()
                if self._data_dir:
                    make_temporary_folder(self._data_dir)
                if self.location.state:
                    self.location.state.claim()
                guard(table, self._commits)
                lance.ensure_indices(table, self.definition.indices())
                self._table, self._prepared = table, True
        assert self._table is not None
        return self._table

    def forget_files(self) -> None:
        """Go on with the table in a folder opened anew: LanceDB's cache is given back once no other table uses it."""
        if self.location.is_folder and self._table is not None:
            session.cache_clear()
            with self._opening, self.explained("opened"):
                self._table, self._newest = self._opened() or self._table, None

    def rebuild_indices(self) -> None:
        """Build all indices anew, whatever is left of them; a vector index waits for the next upkeep."""
        with self._opening, self.explained("indexed"):
            table = self.reading if self.exists else self.writing
            if self._data_dir:
                make_temporary_folder(self._data_dir)
            configs = self.definition.indices()
            for index in table.list_indices():
                if index.columns[0] not in configs:
                    table.drop_index(index.name)
            lance.ensure_indices(table, configs, anew=True)

    def lost_indices(self) -> list[str]:
        """Names of the indices whose files are gone or damaged; each is read whole.

        `prewarm_index` also fails for an index that outgrows the session's cache, so what fails is read again with a larger one.
        """
        if not self.exists:
            return []
        lost = [index for index in self.reading.list_indices() if not _is_whole(self.reading, index.name)]
        room = import_lancedb().Session(
            _CHECK_CACHE_FACTOR * sum(index.size_bytes or 0 for index in lost) + _CHECK_CACHE_BYTES, _METADATA_CACHE_BYTES
        )
        table = self._connected(room).open_table(self.definition.name)
        return [index.name for index in lost if not _is_whole(table, index.name)]

    def lost_versions(self) -> tuple[int, int] | None:
        """The newest version that is there and the newest that was, if manifests are gone; else None."""
        hint = self._folder / "_versions" / _HINT
        if not self.location.is_folder or not hint.is_file():
            return None
        table = self._connected().open_table(self.definition.name)
        newest = json.loads(hint.read_bytes())["version"]
        table.checkout_latest()
        return (table.version, newest) if table.version < newest else None

    def accept_lost_versions(self) -> None:
        """Go on with the newest version that is there; what was committed after it stays lost."""
        if lost := self.lost_versions():
            if self.location.state is not None:
                self.location.state.create_id(anew=True)
            replace_file(self._folder / "_versions" / _HINT, json.dumps({"version": lost[0]}))

    @property
    def _folder(self) -> Path:
        return self.location.path / f"{self.definition.name}.lance"

    def _empty(self) -> "Table":
        with self._opening:
            if self._stand_in is None:
                empty = import_lancedb().connect(_IN_MEMORY)
                self._stand_in = empty.create_table(self.definition.name, schema=self.definition.schema)
            return cast("Table", self._stand_in)

    def _connected(self, using: "Session | None" = None) -> "DBConnection":
        """A connection whose tables look themselves for newer commits, unless the tenant's state counts these."""
        freshness = None if self._commits else timedelta(seconds=self.freshness)
        return self.location.connect(freshness, using or session(self.definition.name))

    def _opened(self) -> "Table | None":
        """The table, if it exists."""
        if not self.location.is_folder:
            return self._opened_elsewhere() if self.location.exists else None
        deadline, committed = monotonic() + _CREATION_SECONDS, False
        while self.exists:
            try:
                if lost := self.lost_versions():
                    raise DamagedError(
                        f"The last commits to the table {self.definition.name!r} in {self.uri} are lost: it ends at version "
                        f"{lost[0]} of {lost[1]}; restore it from a backup, or run `memory doctor --mend` to go on without them."
                    )
                return self._checked(self._connected().open_table(self.definition.name))
            except (RuntimeError, ValueError):
                if committed or monotonic() > deadline:
                    raise
                committed = True
            sleep(0.05)
        return None

    def _opened_elsewhere(self) -> "Table | None":
        assert self._commits
        seen = self._commits.state.count_commits()
        try:
            table = self._checked(self.location.open(self.definition.name, session(self.definition.name)))
        except ValueError as error:
            if _NOT_FOUND not in str(error):
                raise
            return None
        self._commits.seen, self._looked_at = seen, monotonic()
        return table

    def _checked(self, table: "Table") -> "Table":
        """The table, if this release knows its schema."""
        version = lance.facts_of(table.schema).get(VERSION_FACT, VERSION)
        if version != VERSION:
            raise StoreError(
                f"The table {table.name!r} in {self.uri} has schema version {version} and this release knows {VERSION}; "
                "upgrade memory_assets."
            )
        return table

    @property
    def _is_unmade(self) -> bool:
        """Whether the folder holds no commit: a process is making it, or was killed before the first."""
        committed = ("_versions/*.manifest", f"_versions/{_HINT}", "data/*")
        return self.location.is_folder and not any(any(self._folder.glob(pattern)) for pattern in committed)

    def _created(self) -> "Table":
        with self.location.creating():
            try:
                return self._connected().create_table(self.definition.name, schema=self.definition.schema)
            except (RuntimeError, ValueError):
                if (table := self._opened()) is None:
                    raise
                return table

    @contextmanager
    def explained(self, what: str = "read") -> Iterator[None]:
        """Turn what LanceDB raises where the table cannot be read, opened, made or indexed into one sentence."""
        was_there = self._table is not None or self.location.exists
        try:
            yield
        except Exception as error:
            if not lance.is_lances(error) and (what == "read" or not isinstance(error, ValueError)):
                raise
            where = f"The table {self.definition.name!r} in {self.uri}"
            if was_there and self.location.is_gone:
                raise StoreError(f"{where} cannot be {what}: the tenant was deleted meanwhile.") from error
            mend = lance.mend(error)
            if mend is None and self._is_unmade and self._folder.is_dir():
                raise StoreError(f"{where} cannot be {what} yet: another process is making it; run the command again.") from error
            advice = mend or (
                "run the command again, and if that does not help, restore it from a backup"
                if what == "read"
                else "restore it from a backup, or move the folder away and run `memory run` to rebuild what comes from files"
            )
            raise StoreError(f"{where} cannot be {what} ({first_line(error)}); {advice}.") from error


def _is_whole(table: "Table", index: str) -> bool:
    """Whether every file of an index can be read."""
    try:
        cast("Any", table).prewarm_index(index)
    except Exception as error:
        if not lance.is_lances(error):
            raise
        return False
    return True


def reading(read: "Callable[Concatenate[Any, Given], Result]") -> "Callable[Concatenate[Any, Given], Result]":
    """A method of what has a table as `stored`: what LanceDB raises becomes one sentence; a lost index is built anew, and read again."""

    @wraps(read)
    def attempted(self: Any, *given: "Given.args", **named: "Given.kwargs") -> Result:
        with self.stored.explained():
            try:
                return read(self, *given, **named)
            except (RuntimeError, OSError) as error:
                if not lance.is_lances(error) or self.stored.location.is_gone or not self.stored.lost_indices():
                    raise
                self.stored.rebuild_indices()
                _log.warning(
                    "The indices of the %s in %s were lost and are built anew.", self.stored.definition.name, self.stored.uri
                )
                return read(self, *given, **named)

    return attempted


class TableStore:
    """A store of one table. Reading creates nothing: a store that does not exist is empty. The first writing makes it."""

    def __init__(
        self, place: str | Location, definition: TableDefinition, freshness: float = 0.0, data_dir: Path | None = None
    ) -> None:
        """Name the store as `StoredTable` does; nothing is opened yet."""
        self.stored = StoredTable(place, definition, freshness, data_dir)

    def prepare(self) -> None:
        """Make the store now, or bring it up to date, instead of with the first writing."""
        _ = self.stored.writing

    @property
    @reading
    def version(self) -> int:
        """LanceDB's version of the table: it grows with every commit, whoever made it."""
        return self.stored.reading.version

    @reading
    def __len__(self) -> int:
        return self.stored.reading.count_rows()

    @reading
    def newest(self, column: str) -> int:
        """The newest time in a column, in microseconds since 1970; 0 in an empty table. Compacting leaves it as it is."""
        times = self.stored.reading.search().select([column]).to_arrow()[column]
        return int(times.cast(pa.int64()).to_numpy().max(initial=0))
