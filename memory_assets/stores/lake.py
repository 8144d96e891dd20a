"""The catalog of a tenant in DuckLake: a schema of a PostgreSQL database, and files in object storage or a folder.

One process at a time writes, as with a file: a lock in PostgreSQL, which ends with the process that holds it. A catalog belongs to a store
by its random id, so none of a deleted tenant is ever part of another one.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from memory_assets.errors import SettingsError, StoreError, first_line
from memory_assets.stores.catalog import Catalog, Stamp
from memory_assets.stores.engine import CONFIG, NOT_FOR_ARROW
from memory_assets.stores.location import Location
from memory_assets.stores.migrations import migrate_catalog, waiting_migrations
from memory_assets.stores.postgres import Database
from memory_assets.stores.schema import UNDERIVED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.state import TenantState

_log = logging.getLogger(__name__)
PREFIX = "ducklake:postgres:"
"""Before what names the database."""
_EXTENSIONS = ("postgres_scanner", "httpfs", "ducklake")
_MERGED_EVERY = 64
"""Snapshots after which small files are merged, and what no reader needs is removed."""
_KEPT = "1 hour"
"""How long snapshots are kept for readers."""


class _Lake:
    """An instance of DuckDB with a catalog attached, for all threads of one process."""

    def __init__(self, attach: "Callable[[DuckDBPyConnection], None]") -> None:
        import duckdb

        self._instance = duckdb.connect(":memory:", config=CONFIG)
        for name in _EXTENSIONS:
            self._instance.execute(f"LOAD '{_extension(name)}'")
        self._instance.execute(f"LOAD icu; SET disabled_optimizers = '{NOT_FOR_ARROW}'")
        attach(self._instance)

    def cursor(self) -> "DuckDBPyConnection":
        cursor = self._instance.cursor()
        cursor.execute("SET TimeZone = 'UTC'; USE lake")
        return cursor


def _extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    for folder in package.submodule_search_locations or () if package else ():
        for found in Path(folder).glob("extensions/*/*.duckdb_extension"):
            return found
    raise SettingsError(
        "MEMORY_CATALOG_URI=ducklake:… needs DuckDB's extensions; install memory_assets with `pip install '.[cluster]'`."
    )


class LakeCatalog(Catalog):
    """A tenant's catalog in DuckLake."""

    def __init__(
        self,
        uri: str,
        data: str,
        options: Mapping[str, str],
        tenant: str,
        state: "TenantState",
        lock_timeout: float,
        store_id: str | None = None,
    ) -> None:
        """Name it: `uri` is `ducklake:postgres:` and a libpq string or URL, `data` the folder or s3:// URI of the tenants' files.

        `store_id` names that of a deleted tenant.
        """
        super().__init__("", lock_timeout)
        self._uri = uri
        self._data = data
        self._options = options
        self._tenant = tenant
        self._state = state
        self._deleted = store_id
        self._lakes: dict[int, _Lake] = {}
        """By process: a forked one can neither use nor end its parent's. The catalogs that `within` makes of this one share them."""
        self._opening = Lock()

    @cached_property
    def _database(self) -> Database:
        return Database(self._uri.removeprefix(PREFIX), self.lock_timeout)

    @property
    def where(self) -> str:
        return f"the catalog of the tenant {self._tenant!r} in DuckLake"

    @property
    def key(self) -> str:
        return f"{self._uri} {self._schema}"

    def within(self, lock_timeout: float) -> "LakeCatalog":
        other = LakeCatalog(self._uri, self._data, self._options, self._tenant, self._state, lock_timeout, self._deleted)
        other._lakes, other._opening = self._lakes, self._opening
        return other

    def is_in(self, folder: Path) -> bool:  # noqa: ARG002
        return False

    @property
    def _schema(self) -> str:
        return f"catalog_{self._store_id}"

    @property
    def _store_id(self) -> str | None:
        return self._deleted or self._state.look()

    @property
    def _files(self) -> Location:
        return Location(f"{self._data.rstrip('/')}/{self._tenant}/catalog-{self._store_id}", self._options)

    @property
    def exists(self) -> bool:
        if self._store_id is None:
            return False
        found = "SELECT 1 FROM information_schema.tables WHERE table_schema = %(name)s AND table_name = 'ducklake_snapshot'"
        return bool(self._database.execute(found, name=self._schema))

    @property
    def stamp(self) -> Stamp:
        if not self.exists:
            return ()
        ((snapshot,),) = self._database.execute(f'SELECT max(snapshot_id) FROM "{self._schema}".ducklake_snapshot')
        return ((snapshot, 0, 0),)

    @contextmanager
    def read(self) -> "Iterator[DuckDBPyConnection]":
        if not self.exists:
            with self._nothing() as connection:
                migrate_catalog(connection, self.where)
                yield connection
            return
        if self.waiting_migrations():
            with self.write():
                pass
        with self._cursor() as connection:
            connection.begin()  # one snapshot for all that is read
            yield connection
            connection.rollback()

    @contextmanager
    def write(self) -> "Iterator[DuckDBPyConnection]":
        self._state.claim()
        with self._database.locked(self._schema, self.where, self.lock_timeout) as database:
            self._state.claim()
            self._note_others()
            with self._cursor() as connection:
                migrate_catalog(connection, self.where)
                connection.begin()
                yield connection
                connection.commit()
                self._merge(connection)
            self._note_own()
            database.execute("SELECT 1")

    def _merge(self, connection: "DuckDBPyConnection") -> None:
        """Merge small files, and remove what no reader needs any more, now and then."""
        ((snapshot, *_),) = connection.execute("FROM lake.current_snapshot()").fetchall()
        if snapshot % _MERGED_EVERY:
            return
        import duckdb

        try:
            connection.execute(f"CALL ducklake_expire_snapshots('lake', older_than => now() - INTERVAL '{_KEPT}')")
            connection.execute("CALL ducklake_merge_adjacent_files('lake')")
            connection.execute(f"CALL ducklake_cleanup_old_files('lake', older_than => now() - INTERVAL '{_KEPT}')")
        except duckdb.Error as error:
            _log.warning("small files of %s are not merged: %s", self.where, first_line(error))

    def waiting_migrations(self) -> list[str]:
        if not self.exists:
            return []
        with self._cursor() as connection:
            return [step.name for step in waiting_migrations(connection, self.where) or ()]

    def find_damage(self) -> str:
        if not self.exists:
            return ""
        try:
            with self._cursor() as connection:
                names = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
                for (name,) in connection.execute(names).fetchall():
                    connection.execute(f'SELECT max(hash(t)) FROM "{name}" t').fetchall()
        except StoreError as error:
            return first_line(error)
        return ""

    def begin_again(self) -> None:
        with self._database.locked(self._schema, self.where, self.lock_timeout):
            with self._cursor() as connection:
                kept = {name: connection.execute(f"FROM {name}").to_arrow_table() for name in UNDERIVED}
            self.reset()
            with self._cursor() as connection:
                migrate_catalog(connection, self.where)
                connection.begin()
                for name, rows in kept.items():
                    connection.register("kept", rows)
                    connection.execute(f"INSERT INTO {name} BY NAME FROM kept")
                connection.commit()

    def set_aside(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lakes.pop(os.getpid(), None)
        self._database.execute(f'DROP SCHEMA IF EXISTS "{self._schema}" CASCADE')
        self._files.remove()

    def remove(self) -> None:
        if self._store_id is not None:
            with self._database.locked(self._schema, self.where, self.lock_timeout):
                self.reset()

    @contextmanager
    def _cursor(self) -> "Iterator[DuckDBPyConnection]":
        """A connection to the catalog; attached again if PostgreSQL was started again."""
        import duckdb

        try:
            cursor = self._lake().cursor()
            try:
                cursor.execute("FROM lake.current_snapshot()").fetchall()
            except duckdb.Error:
                cursor.close()
                self._lakes.pop(os.getpid(), None)
                cursor = self._lake().cursor()
        except duckdb.Error as error:
            raise self._unusable(error) from error
        try:
            yield cursor
        except (duckdb.IOException, duckdb.HTTPException, duckdb.TransactionException) as error:
            raise self._unusable(error) from error
        finally:
            with suppress(duckdb.Error):
                cursor.close()

    def _lake(self) -> _Lake:
        with self._opening:
            if os.getpid() not in self._lakes:
                self._lakes[os.getpid()] = _Lake(self._attach)
            return self._lakes[os.getpid()]

    def _attach(self, connection: "DuckDBPyConnection") -> None:
        files = self._files
        if files.is_folder:
            files.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            connection.execute(_secret(self._options))
        given = {"DATA_PATH": f"{files.base}/", "METADATA_SCHEMA": self._schema}
        options = ", ".join(f"{name} {_quoted(value)}" for name, value in given.items())
        connection.execute(f"ATTACH {_quoted(self._uri)} AS lake ({options})")

    def _unusable(self, error: Exception) -> StoreError:
        what = first_line(error)
        for name in ("aws_access_key_id", "aws_secret_access_key"):
            what = what.replace(self._options.get(name) or "\0", "***")
        return StoreError(
            f"The catalog of the tenant {self._tenant!r} cannot be used ({what}); see to PostgreSQL and the object storage."
        )

    @contextmanager
    def _nothing(self) -> "Iterator[DuckDBPyConnection]":
        import duckdb

        with duckdb.connect(":memory:", config=CONFIG) as connection:
            connection.execute(f"LOAD icu; SET TimeZone = 'UTC'; SET disabled_optimizers = '{NOT_FOR_ARROW}'")
            yield connection


def _secret(options: Mapping[str, str]) -> str:
    scheme, _, host = options.get("aws_endpoint", "").rpartition("://")
    given: dict[str, Any] = {
        "KEY_ID": options.get("aws_access_key_id"),
        "SECRET": options.get("aws_secret_access_key"),
        "REGION": options.get("aws_region"),
        "ENDPOINT": host,
        "URL_STYLE": "path" if host else None,
    }
    parts = [f"{name} {_quoted(value)}" for name, value in given.items() if value]
    if scheme == "http":
        parts.append("USE_SSL false")
    if not options.get("aws_access_key_id"):
        parts.append("PROVIDER credential_chain")
    return f"CREATE SECRET storage (TYPE s3, {', '.join(parts)})"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
