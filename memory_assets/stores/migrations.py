"""Migrations of the catalog from earlier releases to this schema, in named steps that each run once.

Each step is one transaction, which also sets the number in `schema_version`.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.errors import UPGRADE, NewerStoreError, StoreError
from memory_assets.stores.schema import CATALOG_TABLES, is_lake, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class CatalogMigration:
    """A migration step of the catalog."""

    version: int
    """Schema version after it."""
    name: str
    adds: tuple[str, ...]
    """Tables, and columns as `table.column`, to add as the registry defines them; an existing table is replaced."""
    then: str = ""

    def run(self, connection: "DuckDBPyConnection") -> None:
        for added in self.adds:
            name, _, wanted = added.partition(".")
            if not wanted:
                ddl = table(name).ddl(keyed=not is_lake(connection))
                connection.execute(ddl.replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1))
            else:
                connection.execute(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {table(name).column(wanted).ddl()}")
        if self.then:
            connection.execute(self.then)


CATALOG_MIGRATIONS = (
    CatalogMigration(
        18,
        "from-0.1.0",
        (
            *("source_files.digest", "source_files.machine", "source_projects", "memory_entries.text_hash", "entry_keys"),
            *("graph_statements", "graph_changes"),
        ),
        """
        ALTER TABLE graph_position DROP COLUMN IF EXISTS stated_count;
        ALTER TABLE graph_position DROP COLUMN IF EXISTS stated_last;
        UPDATE source_files SET size = -1;
        UPDATE memory_entries e SET text_hash = i.text_hash FROM (
            SELECT key, trim(concat_ws(E'\n\n', nullif(description, ''), nullif(nullif(body, ''), description))) AS text,
                   md5(nullif(text, '')) AS text_hash FROM source_items
        ) i WHERE i.key = e.key;
        INSERT INTO entry_keys BY NAME SELECT key, content_hash, text_hash FROM memory_entries
        """,
    ),
)
"""Steps in order. New ones are appended; no step of a release is changed or removed while a store may still need it."""
_OLDEST = 10
"""Schema version of the first release; earlier ones were never released."""
_VERSION = CATALOG_MIGRATIONS[-1].version


def waiting_migrations(connection: "DuckDBPyConnection", catalog: object) -> "Sequence[CatalogMigration] | None":
    """Return the pending steps of a catalog; None for a catalog without any table of this project."""
    import duckdb

    try:
        (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone() or (0,)
    except duckdb.CatalogException:
        return None
    if version > _VERSION:
        raise NewerStoreError(f"{catalog} has schema version {version} and this program knows {_VERSION}; {UPGRADE}.")
    if version < _OLDEST:
        raise StoreError(f"{catalog} is older than the first release; move it away and run `memory run`, which rebuilds it.")
    return tuple(step for step in CATALOG_MIGRATIONS if step.version > version)


def migrate_catalog(connection: "DuckDBPyConnection", catalog: object) -> None:
    """Bring a catalog to the registered schema, one transaction a step. After a kill, the next write continues with the pending step."""
    waiting = waiting_migrations(connection, catalog)
    if waiting is None:
        create_catalog(connection)
    for step in waiting or ():
        with _transaction(connection, step.version):
            step.run(connection)


def create_catalog(connection: "DuckDBPyConnection") -> None:
    """Create the tables that are missing in a new catalog, and set the newest schema version."""
    with _transaction(connection, _VERSION):
        create_tables(connection)


def create_tables(connection: "DuckDBPyConnection") -> None:
    """Create the tables that are missing."""
    keyed = not is_lake(connection)
    made = [each.ddl(keyed=keyed).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1) for each in CATALOG_TABLES]
    connection.execute("; ".join(made))


@contextmanager
def _transaction(connection: "DuckDBPyConnection", version: int) -> "Iterator[None]":
    """Run the block in a transaction that ends with setting the schema version."""
    connection.begin()
    try:
        yield
        connection.execute("CREATE OR REPLACE TABLE schema_version AS SELECT ?::INTEGER AS version", [version])
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
