"""A tenant's catalog in DuckLake: a schema of a PostgreSQL database, and files in object storage or a folder.

As with a file, one process at a time writes: it holds a lock in PostgreSQL, which ends with the process. A catalog belongs to a store by
its random id, so data of a deleted tenant never becomes part of another catalog. A new catalog is made as a draft, and replaces the old
one when its schema gets the next number.
"""

import itertools
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from memory_assets.errors import DamagedError, SettingsError, StoreError, first_line
from memory_assets.stores.catalog import Catalog, Stamp, put_kept, read_kept
from memory_assets.stores.engine import CONFIG, NOT_FOR_ARROW
from memory_assets.stores.location import Location
from memory_assets.stores.migrations import create_catalog, create_tables, migrate_catalog, waiting_migrations
from memory_assets.stores.postgres import CLIENT_TIMEOUTS, SERVER_TIMEOUTS, Database
from memory_assets.stores.schema import UNDERIVED

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from memory_assets.stores.state import TenantState

_log = logging.getLogger(__name__)
PREFIX = "ducklake:postgres:"
_EXTENSIONS = ("postgres_scanner", "httpfs", "ducklake")
LAKE = "lake"
"""Prefix of the names under which DuckDB attaches catalogs."""
_MOST_ATTACHED = 16
"""Most catalogs that a process keeps attached; each has connections to PostgreSQL."""
_OPTIONS = " ".join(f"-c {name}={value}" for name, value in {**SERVER_TIMEOUTS, "enable_seqscan": "off", "jit": "off"}.items())
"""Options of PostgreSQL. Its planner must use indices: a thousand tenants have a hundred thousand rows in its own tables."""
_DRAFT = "_draft"
"""Suffix of a schema that is being made."""
_AFTER_SUFFIXES = "`"
"""Sorts behind the underscore with which suffixes begin."""
_SNAPSHOTS_PER_MERGE = 64
"""Number of snapshots after which small files are merged and expired files removed."""
_SNAPSHOT_LIFETIME = "1 hour"


@dataclass(eq=False)
class _Attached:
    """A catalog that is attached, or is being attached."""

    name: str
    opening: Lock = field(default_factory=Lock)
    is_open: bool = False
    is_migrated: bool = False
    users: int = 0


class _Lakes:
    """The catalogs attached by this process, in one DuckDB instance, because loading the extensions takes longer than attaching."""

    def __init__(self, secret: str) -> None:
        """Load DuckDB. `secret` is the SQL that opens the object storage; empty if the files are in a folder."""
        import duckdb

        self._duckdb = duckdb.connect(":memory:", config=CONFIG)
        for name in _EXTENSIONS:
            self._duckdb.execute(f"LOAD '{_extension(name)}'")
        self._duckdb.execute(f"LOAD icu; SET disabled_optimizers = '{NOT_FOR_ARROW}'; {secret}")
        self._attached: OrderedDict[str, _Attached] = OrderedDict()
        """Schema -> catalog, the most recently used last."""
        self._numbers = itertools.count()
        self._changing = Lock()

    @contextmanager
    def attached(self, schema: str, uri: str, options: str) -> "Iterator[_Attached]":
        """Keep a catalog attached during the block; `options` are those of ATTACH."""
        with self._changing:
            lake = self._attached.setdefault(schema, _Attached(f"{LAKE}{next(self._numbers)}"))
            lake.users += 1
            self._attached.move_to_end(schema)
            idle = [name for name, each in self._attached.items() if not each.users]
            for name in idle[: max(0, len(self._attached) - _MOST_ATTACHED)]:
                self._detach(name, self._attached[name])
        try:
            with lake.opening:
                if not lake.is_open:
                    self._duckdb.cursor().execute(f"ATTACH {_quoted(PREFIX + uri)} AS {lake.name} ({options})")
                    lake.is_open = True
            yield lake
        finally:
            with self._changing:
                lake.users -= 1

    def begin(self, lake: _Attached) -> "DuckDBPyConnection":
        """Open a connection to a catalog, in a transaction that sees its newest snapshot."""
        cursor = self._duckdb.cursor()
        cursor.execute(f"SET TimeZone = 'UTC'; BEGIN; USE {lake.name}")
        cursor.execute("FROM current_snapshot()").fetchall()
        return cursor

    def detach(self, schema: str, lake: _Attached | None = None) -> None:
        """Detach a catalog that is removed, or whose PostgreSQL restarted. If `lake` is given, any other attachment is kept."""
        with self._changing:
            present = self._attached.get(schema)
            if present and present is (lake or present):
                self._detach(schema, present)

    def _detach(self, schema: str, lake: _Attached) -> None:
        import duckdb

        del self._attached[schema]
        with suppress(duckdb.Error):
            self._duckdb.cursor().execute(f"DETACH {lake.name}")


_loading = Lock()
"""Held while DuckDB is loaded: catalogs that two instances of a process attach under one name fail."""


@cache
def _lakes(secret: str, _process: int) -> _Lakes:
    """Return the instance of this process; a forked process must not use its parent's connections."""
    return _Lakes(secret)


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

    is_shared = True

    def __init__(
        self,
        uri: str,
        data: str,
        options: Mapping[str, str],
        tenant: str,
        state: "TenantState",
        lock_timeout: float,
        scratch: Path,
        store_id: str | None = None,
    ) -> None:
        """Refer to a catalog: `uri` is `ducklake:postgres:` and a libpq string or URL, `data` the folder or s3:// URI for all tenants.

        DuckDB spills to `scratch` for an empty catalog in memory. `store_id` selects the catalog of a deleted tenant.
        """
        super().__init__("", lock_timeout)
        self._uri = uri
        self._data = data
        self._options = options
        self._tenant = tenant
        self._state = state
        self._scratch = scratch
        self._deleted = store_id

    @property
    def _database(self) -> Database:
        return Database(self._uri.removeprefix(PREFIX), self.lock_timeout, "MEMORY_CATALOG_URI")

    @property
    def where(self) -> str:
        return f"The catalog of the tenant {self._tenant!r} in DuckLake"

    @property
    def key(self) -> str:
        return f"{self._uri} {self._schema}"

    @property
    def _schema(self) -> str:
        """The first schema of the catalog, whose name is part of the names of all."""
        return f"catalog_{self._store_id}"

    def _find_schemas(self) -> list[str]:
        """Return the catalog's schema, last, and those that a kill left: an unfinished one, and earlier ones."""
        found = self._database.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname BETWEEN %(name)s::name AND %(last)s::name",
            name=self._schema,
            last=f"{self._schema}{_AFTER_SUFFIXES}",
        )
        return sorted((name for (name,) in found), key=lambda name: (not name.endswith(_DRAFT), len(name), name))

    def _find_schema(self) -> str | None:
        """Return the catalog's schema; None if there is no catalog."""
        found = [name for name in (self._find_schemas() if self._store_id else ()) if not name.endswith(_DRAFT)]
        return found[-1] if found else None

    @property
    def _store_id(self) -> str | None:
        return self._deleted or self._state.look()

    def _files(self, schema: str) -> Location:
        folder = schema.removesuffix(_DRAFT).replace("_", "-")
        return Location(f"{self._data.rstrip('/')}/{self._tenant}/{folder}", self._options)

    @property
    def exists(self) -> bool:
        return self._find_schema() is not None

    @property
    def stamp(self) -> Stamp:
        schema = self._find_schema()
        if schema is None:
            return ()
        ((snapshot, identity),) = self._database.execute(
            f'SELECT max(snapshot_id), to_regnamespace(%(schema)s)::oid FROM "{schema}".ducklake_snapshot', schema=schema
        )
        return ((snapshot, identity, 0),)

    @contextmanager
    def read(self) -> "Iterator[DuckDBPyConnection]":
        schema = self._find_schema()
        if schema is None:
            with ExitStack() as opened:
                yield self._engine.open_empty(opened, create_tables)
            return
        with self._transaction(schema) as (lake, connection):
            lake.is_migrated = lake.is_migrated or waiting_migrations(connection, self.where) == ()
            if lake.is_migrated:
                yield connection  # all reads see one snapshot
                return
        with self.write():
            pass
        with self._transaction(self._find_schema() or schema) as (_, connection):
            yield connection

    @contextmanager
    def write(self) -> "Iterator[DuckDBPyConnection]":
        self._state.claim()
        with self._database.locked(self._schema, self.where, self.lock_timeout) as database:
            self._state.claim()
            if not self.exists:
                self._create({})
            with self._tracking_writes(), self._cursor() as connection:
                migrate_catalog(connection, self.where)
                connection.begin()
                yield connection
                connection.commit()
                self._merge_files(connection)
            database.execute("SELECT 1")

    def _create(self, kept: "Mapping[str, pa.Table]") -> None:
        """Create a catalog that holds `kept`, and then remove the one that it replaces. A kill leaves either."""
        found, present = self._find_schemas(), self._find_schema()
        number = 1 + int(present.removeprefix(self._schema).lstrip("_") or 0) if present else 0
        schema = f"{self._schema}_{number}" if number else self._schema
        draft = f"{schema}{_DRAFT}"
        if draft in found:
            self._remove_schema(found.pop(found.index(draft)))
        try:
            # With inlining on, DuckLake would add a PostgreSQL table of inlined rows for each table.
            with self._transaction(draft, "DATA_INLINING_ROW_LIMIT 0") as (_, connection):
                create_tables(connection)
                connection.commit()
            self._lakes.detach(draft)
            with self._transaction(draft) as (_, connection):
                connection.commit()
                create_catalog(connection)  # looks no missing name up, for which DuckDB would search catalogs that are removed
                connection.begin()
                put_kept(connection, kept)
                connection.commit()
        finally:
            self._lakes.detach(draft)
        self._database.execute(f'ALTER SCHEMA "{draft}" RENAME TO "{schema}"')
        for name in found:
            self._remove_schema(name)

    def _merge_files(self, connection: "DuckDBPyConnection") -> None:
        """Merge small files and remove expired ones, every `_SNAPSHOTS_PER_MERGE` snapshots."""
        ((snapshot, name),) = connection.execute("SELECT id, current_database() FROM current_snapshot()").fetchall()
        if snapshot % _SNAPSHOTS_PER_MERGE:
            return
        import duckdb

        try:
            connection.execute(f"CALL ducklake_expire_snapshots('{name}', older_than => now() - INTERVAL '{_SNAPSHOT_LIFETIME}')")
            connection.execute(f"CALL ducklake_merge_adjacent_files('{name}')")
            connection.execute(
                f"CALL ducklake_cleanup_old_files('{name}', older_than => now() - INTERVAL '{_SNAPSHOT_LIFETIME}')"
            )
        except duckdb.Error as error:
            _log.warning("%s keeps small files: %s", self.where, first_line(error))

    def recreate(self) -> None:
        import duckdb

        with self._database.locked(self._schema, self.where, self.lock_timeout):
            kept: dict[str, pa.Table] = {}
            with suppress(duckdb.Error, DamagedError), self._cursor() as connection:
                waiting_migrations(connection, self.where)  # NewerStoreError
            for name in UNDERIVED:
                with suppress(duckdb.Error, DamagedError), self._cursor() as connection:  # a damaged table is lost already
                    kept |= read_kept(connection, name)
            self._create(kept)

    def set_aside(self) -> None:
        self.recreate()

    def reset(self) -> None:
        for schema in self._find_schemas():
            self._remove_schema(schema)

    def _remove_schema(self, schema: str) -> None:
        self._files(schema).remove()  # the object storage may be away: then nothing is removed
        self._lakes.detach(schema)
        self._database.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    def remove(self) -> None:
        if self._store_id is not None:
            with self._database.locked(self._schema, self.where, self.lock_timeout):
                self.reset()

    @contextmanager
    def _cursor(self) -> "Iterator[DuckDBPyConnection]":
        with self._transaction(self._find_schema() or self._schema) as (_, connection):
            connection.commit()
            yield connection

    @contextmanager
    def _transaction(
        self, schema: str, options: str = "CREATE_IF_NOT_EXISTS false"
    ) -> "Iterator[tuple[_Attached, DuckDBPyConnection]]":
        """Open a connection in a transaction that ends with the block. StoreError if the catalog is replaced during the block."""
        import duckdb

        is_draft = schema.endswith(_DRAFT)
        with ExitStack() as stack:
            try:
                try:
                    lake, cursor = self._open(stack, schema, options)
                except duckdb.Error:
                    schema = schema if is_draft else self._find_schema() or schema
                    lake, cursor = self._open(stack, schema, options)
            except duckdb.Error as error:
                raise self._explain_error(error) from error
            try:
                yield lake, cursor
            except duckdb.Error as error:
                is_outage = isinstance(error, duckdb.IOException | duckdb.HTTPException | duckdb.TransactionException)
                is_damage = not is_draft and _is_damage(error) and self._files(schema).has_bucket
                if is_outage and not is_damage:
                    raise self._explain_error(error) from error
                if not is_draft and self._find_schema() != schema:
                    raise StoreError(f"{self.where} was replaced meanwhile; run the command again.") from error
                if is_damage:
                    advice = "run `memory doctor --mend`, then `memory run`, which derives it anew."
                    raise DamagedError(f"{self.where} is damaged ({first_line(error)}); {advice}") from error
                raise
            finally:
                with suppress(duckdb.Error):
                    cursor.close()

    def _open(self, stack: ExitStack, schema: str, options: str) -> "tuple[_Attached, DuckDBPyConnection]":
        import duckdb
        from psycopg.conninfo import make_conninfo

        uri = make_conninfo(self._uri.removeprefix(PREFIX), options=_OPTIONS, **CLIENT_TIMEOUTS)
        lake = stack.enter_context(self._lakes.attached(schema, uri, f"{self._attach_options(schema)}, {options}"))
        try:
            return lake, self._lakes.begin(lake)
        except duckdb.Error:
            self._lakes.detach(schema, lake)
            raise

    @property
    def _lakes(self) -> _Lakes:
        with _loading:
            return _lakes("" if self._files(self._schema).is_folder else _secret(self._options), os.getpid())

    def _attach_options(self, schema: str) -> str:
        """Return the options of ATTACH. They restrict DuckDB to one PostgreSQL schema; there is one for each tenant."""
        files, name = self._files(schema), _quoted(schema)
        if files.is_folder:
            files.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        files_at = _quoted(f"{files.base}/")
        return f"DATA_PATH {files_at}, METADATA_SCHEMA {name}, METADATA_PARAMETERS MAP {{'SCHEMA': {name}}}"

    def _explain_error(self, error: Exception) -> StoreError:
        what = first_line(error)
        for name in ("aws_access_key_id", "aws_secret_access_key"):
            what = what.replace(self._options.get(name) or "\0", "***")
        return StoreError(f"{self.where} cannot be used ({what}); check PostgreSQL and the object storage.")


def _is_damage(error: Exception) -> bool:
    """Return whether a file of the catalog is missing or damaged."""
    said = str(error)
    return getattr(error, "status_code", None) == 404 or "No such file" in said or "No magic bytes" in said


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
