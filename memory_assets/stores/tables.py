"""LanceDB tables, opened on the first read and created on the first write.

A read creates nothing: a missing table reads as an empty one, and every read looks for it again. The first write creates the table
and builds its indices. Several processes may do that at once.
"""

import json
import logging
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, wraps
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import pyarrow as pa

from memory_assets.errors import UPGRADE, DamagedError, NewerStoreError, StoreError
from memory_assets.privacy import make_temporary_folder, name_temporary_folder
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.files import find_size_limit, replace_file
from memory_assets.stores.location import ADVICE, Location
from memory_assets.stores.locks import SHARED, Commits, locked
from memory_assets.stores.schema import VERSION, VERSION_FACT

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.table import Table

_INDEX_CACHE_BYTES = 16 << 20
"""At 100,000 memories, four times as much is no faster: the system caches the files."""
_METADATA_CACHE_BYTES = 8 << 20
_CHECK_CACHE_FACTOR = 16
_CHECK_CACHE_BYTES = 64 << 20
"""Limit of the memory for checking an index: a multiple of its files' size, plus a constant."""
_ORPHANS_PATIENCE_SECONDS = 1.0
_IN_MEMORY = "memory://"
_HINT = "latest_version_hint.json"
"""File in which Lance notes the newest version at every commit."""
_NOT_FOUND = "was not found"
"""Part of LanceDB's message if a table was never created."""
_RESTORE = "move the folder {} out of the data folder and run `memory restore` with a backup"
_log = logging.getLogger(__name__)

Given = ParamSpec("Given")
Result = TypeVar("Result")


@cache
def session(table: str) -> "Session":  # noqa: ARG001 - told apart by it
    """Return LanceDB's cache of files it has read, one for all tables with that name in this process."""
    return import_lancedb().Session(_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Name, schema and indices of a table."""

    name: str
    schema: pa.Schema
    """Its primary key is `id`."""
    indices: Callable[[], Mapping[str, Any]] = dict
    """Returns column -> index configuration."""


class StoredTable:
    """A table of a database. Thread-safe."""

    def __init__(
        self, place: str | Location, definition: TableDefinition, freshness: float = 0.0, data_dir: Path | None = None
    ) -> None:
        """Refer to a table by its definition and its location or URI; opens nothing.

        Commits of other processes become visible within `freshness` seconds; 0 checks at every call, which costs each query several
        milliseconds. Temporary files go to `data_dir`, or else to the system's temporary folder.
        """
        self.location = place if isinstance(place, Location) else Location(place)
        self.definition = definition
        self.freshness = freshness
        self._data_dir = data_dir
        if data_dir:
            name_temporary_folder(data_dir)
        self._table: Table | None = None
        self._empty_table: Table | None = None
        self._is_prepared = False
        self._lock = RLock()
        self._manifests: tuple[Path, Path] | None = None
        """Paths of the manifests of the newest version that was seen and of the next version."""
        self._version = 0
        self._commits = Commits(self.location.state) if self.location.state and not self.location.is_folder else None
        self._looked_at = -math.inf
        self.known_rows: Callable[[], str] = str
        """Returns in words which rows the tenant's catalog knows; empty if none. If there is no table, they are lost."""

    @property
    def uri(self) -> str:
        return self.location.uri

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def exists(self) -> bool:
        """Whether the table has been created. A folder without a commit, left by a kill or a full disk, is no table."""
        if self._table is not None:
            return True
        if not self.location.is_folder:
            with self._lock, self.explaining_errors("opened"):
                self._table = self._table or self._open()
            return self._table is not None
        return self._folder.is_dir() and not self._has_no_commit

    @property
    def reading(self) -> "Table":
        """The table for reading; an empty table while it does not exist."""
        if self._table is None:
            with self._lock, self.explaining_errors("opened"):
                if self._table is None:
                    self._table = self._open()
        elif self.freshness and self.location.is_folder:
            self._follow(self._table)
        elif self._commits and monotonic() - self._looked_at >= self.freshness:
            with self.explaining_errors():
                self.look()
        if self._table is not None:
            return self._table
        with self._lock:
            if self._empty_table is None:
                empty = import_lancedb().connect(_IN_MEMORY)
                self._empty_table = cast("Table", empty.create_table(self.name, schema=self.definition.schema))
            return self._empty_table

    @property
    def newest_version(self) -> int:
        """The version of the newest commit of any process: in a folder at once, in object storage within the freshness."""
        table = self.reading
        with self.explaining_errors():
            return self._version if self._manifests else table.version

    def look(self) -> None:
        """Make all commits of all processes until now visible."""
        if self._table is not None:
            self._looked_at = monotonic()
            if self._commits:
                self._commits.follow(self._table)
            else:
                self._table.checkout_latest()

    def _follow(self, table: "Table") -> None:
        """Check out the newest commit. Checking two files takes microseconds; asking LanceDB takes half a millisecond.

        Old versions are dropped first: if the next manifest was dropped, so was the current one. A file system's clock is too coarse to
        tell two commits apart.
        """
        if self._manifests is None or not self._manifests[0].exists() or self._manifests[1].exists():
            with suppress(OSError, RuntimeError):  # if files are lost, the read reports it
                table.checkout_latest()
                self._version = table.version
                self._manifests = self.location.manifests(self.definition.name, self._version)

    @property
    def writing(self) -> "Table":
        """The table for writing, created and indexed if necessary."""
        if not self._is_prepared:
            with self._lock, self.explaining_errors("made"):
                table = self._open() if self._table is None else self._table
                if table is None:
                    self.raise_if_lost()
                    table = self._create()
                if self._data_dir:
                    make_temporary_folder(self._data_dir)
                if self.location.state:
                    self.location.state.claim()
                self._table, self._is_prepared = table, True
                with ExitStack() as failed:
                    failed.callback(setattr, self, "_is_prepared", False)
                    lance.ensure_indices(self, self.definition.indices())
                    failed.pop_all()
        assert self._table is not None
        return self._table

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Keep the table from being deleted during the block; otherwise Lance would finish a commit in a new folder of the old name.

        In object storage, the tenant is checked before and after the commit. StoreError if the table, or its tenant, was deleted, or if
        the size of files is limited.
        """
        if not self.location.is_folder:
            if self._commits:
                self._commits.announce()
            yield
            if self._commits:
                self._commits.note()
            return
        with locked(self._folder, SHARED) as there:
            if not there:
                raise StoreError(f"The table {self._folder} has been deleted; nothing was written.")
            self.raise_if_limited()
            yield

    def raise_if_limited(self) -> None:
        """Raise StoreError if the size of files is limited, so that LanceDB could lose the end of one."""
        if self.location.is_folder and (fault := find_size_limit()):
            raise StoreError(fault)

    def raise_if_deleted(self) -> None:
        if self._commits and not self._commits.state.is_current:
            raise self._commits.state.deleted()

    def forget_files(self) -> None:
        """Reopen the table if it is in a folder, to free LanceDB's cache once no other table uses it."""
        if self.location.is_folder and self._table is not None:
            session.cache_clear()
            with self._lock, self.explaining_errors("opened"):
                self._table, self._manifests = self._open() or self._table, None

    def rebuild_indices(self) -> None:
        """Rebuild all indices from scratch; a vector index waits for the next upkeep."""
        with self._lock, self.explaining_errors("indexed"):
            table = self.reading if self.exists else self.writing
            if self._data_dir:
                make_temporary_folder(self._data_dir)
            configs = self.definition.indices()
            for index in table.list_indices():
                if index.columns[0] not in configs:
                    table.drop_index(index.name)
            lance.ensure_indices(self, configs, anew=True)

    def lost_indices(self) -> list[str]:
        """Return the names of indices whose files are missing or damaged; reads every index completely.

        `prewarm_index` also fails for an index that outgrows the session's cache, so every failed index is read again with a larger cache.
        """
        if not self.exists:
            return []
        lost = [index for index in self.reading.list_indices() if not _is_readable(self.reading, index.name)]
        room = import_lancedb().Session(
            _CHECK_CACHE_FACTOR * sum(index.size_bytes or 0 for index in lost) + _CHECK_CACHE_BYTES, _METADATA_CACHE_BYTES
        )
        table = self._connect(room).open_table(self.definition.name)
        return [index.name for index in lost if not _is_readable(table, index.name)]

    def find_orphans(self, *, remove: bool = False) -> list[Path]:
        """Return the files in a folder that failed or killed commits left, and remove them if asked.

        None while commits run, or if commits are lost, whose files they may be. Writers wait only if there are some, and not while all
        versions are read.
        """
        newest = self.location.version(self.name) if self.location.is_folder else 0
        found = self.location.find_orphans(self.name) if newest else []
        if not found:
            return []
        with suppress(BlockingIOError), locked(self._folder, patience_seconds=_ORPHANS_PATIENCE_SECONDS) as there:
            orphans = self.location.find_orphans(self.name, found, newest) if there and not self.lost_versions() else []
            for path in orphans if remove else ():
                with suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return orphans
        return []

    def lost_versions(self) -> tuple[int, int] | None:
        """Return the newest existing version and the newest committed version if manifests are missing, else None."""
        hint = self._folder / "_versions" / _HINT
        if not self.location.is_folder or not hint.is_file():
            return None
        table = self._connect().open_table(self.definition.name)
        try:
            newest = json.loads(hint.read_bytes())["version"]
        except ValueError:  # a full disk took only a part of it, and Lance does without
            return None
        table.checkout_latest()
        return (table.version, newest) if table.version < newest else None

    def find_loss(self) -> str:
        """Return a sentence that says what of the table is lost, and the mend; empty if nothing."""
        where, accept = f"table {self.definition.name!r} in {self.uri}", "or `memory doctor --mend` to go on without them"
        if not self.exists:
            known = self.known_rows()
            return known and f"The {where} is lost, with {known}; run `memory restore` with a backup, {accept}."
        if not (lost := self.lost_versions()):
            return ""
        what = f"The last commits to the {where} are lost: it ends at version {lost[0]} of {lost[1]}"
        return f"{what}; {_RESTORE.format(self.uri)}, {accept}."

    def raise_if_lost(self) -> None:
        if loss := self.find_loss():
            raise DamagedError(loss)

    def accept_loss(self) -> None:
        """Accept the newest existing version as the table, or an empty table if there is none; what is lost stays lost."""
        if not self.find_loss():
            return
        if self.location.state is not None:
            self.location.state.create_id(anew=True)
        if lost := self.lost_versions():
            replace_file(self._folder / "_versions" / _HINT, json.dumps({"version": lost[0]}))
        else:
            self._create()

    @property
    def _folder(self) -> Path:
        return self.location.path / f"{self.definition.name}.lance"

    def _connect(self, using: "Session | None" = None) -> "DBConnection":
        """Connect. Tables check for newer commits themselves, unless the tenant's state counts commits."""
        freshness = None if self._commits else timedelta(seconds=self.freshness)
        return self.location.connect(freshness, using or session(self.definition.name))

    def _open(self) -> "Table | None":
        if not self.location.is_folder:
            return self._open_in_object_storage() if self.location.exists else None
        has_retried = False
        while self.exists:
            try:
                self.raise_if_lost()
                return self._check_schema(self._connect().open_table(self.definition.name))
            except (RuntimeError, ValueError):
                if has_retried:
                    raise
                has_retried = True
            sleep(0.05)
        return None

    def _open_in_object_storage(self) -> "Table | None":
        assert self._commits
        seen = self._commits.state.count_commits()
        try:
            table = self._check_schema(self.location.open(self.definition.name, session(self.definition.name)))
        except ValueError as error:
            if _NOT_FOUND not in str(error):
                raise
            return None
        self._commits.see(seen)
        self._looked_at = monotonic()
        return table

    def _check_schema(self, table: "Table") -> "Table":
        """Return the table, or raise NewerStoreError if this release does not know its schema version."""
        version = lance.facts_of(table.schema).get(VERSION_FACT, VERSION)
        if version != VERSION:
            raise NewerStoreError(
                f"The table {table.name!r} in {self.uri} has schema version {version} and this program knows {VERSION}; "
                f"{UPGRADE}."
            )
        return table

    @property
    def _has_no_commit(self) -> bool:
        """Whether the folder holds no commit: another process is creating the table, or was killed while doing so."""
        commits = ("_versions/*.manifest", f"_versions/{_HINT}", "data/*")
        return self.location.is_folder and not any(any(self._folder.glob(pattern)) for pattern in commits)

    def _create(self) -> "Table":
        self.raise_if_limited()
        with self.location.creating():
            try:
                return self._connect().create_table(self.definition.name, schema=self.definition.schema)
            except (RuntimeError, ValueError):
                if (table := self._open()) is None:
                    raise
                return table

    @contextmanager
    def explaining_errors(self, what: str = "read") -> Iterator[None]:
        """Turn LanceDB's errors into a StoreError of one sentence; `what` says which action on the table failed."""
        was_there = self._table is not None or self.location.exists
        try:
            yield
        except Exception as error:
            if not lance.is_lancedb_error(error) and (what == "read" or not isinstance(error, ValueError)):
                raise
            where = f"The table {self.definition.name!r} in {self.uri}"
            if was_there and self.location.is_gone:
                raise StoreError(f"{where} cannot be {what}: the tenant was deleted meanwhile.") from error
            advice = lance.advice_for(error)
            if advice is None and self._has_no_commit and self._folder.is_dir():
                raise StoreError(f"{where} cannot be {what} yet: another process is making it; run the command again.") from error
            if not self.location.is_folder:
                advice = advice or ADVICE
            advice = advice or (
                f"run the command again; if that does not help, {_RESTORE.format(self.uri)}, "
                "or `memory doctor --mend` and `memory run` to rebuild what comes from files"
            )
            raise StoreError(f"{where} cannot be {what} ({lance.reason_of(error)}); {advice}.") from error


def _is_readable(table: "Table", index: str) -> bool:
    try:
        cast("Any", table).prewarm_index(index)
    except Exception as error:
        if not lance.is_lancedb_error(error):
            raise
        return False
    return True


def reading(read: "Callable[Concatenate[Any, Given], Result]") -> "Callable[Concatenate[Any, Given], Result]":
    """Decorate a method that reads `self.stored`: turn LanceDB's errors into a StoreError; rebuild a lost index and retry once."""

    @wraps(read)
    def attempted(self: Any, *given: "Given.args", **named: "Given.kwargs") -> Result:
        with self.stored.explaining_errors():
            try:
                return read(self, *given, **named)
            except (RuntimeError, OSError) as error:
                if not lance.is_lancedb_error(error) or self.stored.location.is_gone or not self.stored.lost_indices():
                    raise
                self.stored.rebuild_indices()
                _log.warning(
                    "The indices of the %s in %s were lost and are rebuilt.", self.stored.definition.name, self.stored.uri
                )
                return read(self, *given, **named)

    return attempted


class TableStore:
    """A store of one table. A missing store reads as empty; the first write creates it."""

    def __init__(self, stored: StoredTable) -> None:
        self.stored = stored

    def prepare(self) -> None:
        _ = self.stored.writing

    @property
    @reading
    def version(self) -> int:
        """LanceDB's version of the table, which grows with every commit of any process."""
        return self.stored.reading.version

    @reading
    def __len__(self) -> int:
        return self.stored.reading.count_rows()

    @reading
    def newest(self, column: str) -> int:
        """Return the newest time in a column, in microseconds since 1970; 0 in an empty table. Compaction does not change it."""
        times = lance.fetch(lance.scan(self.stored.reading).select([column]))[column]
        return int(times.cast(pa.int64()).to_numpy().max(initial=0))
