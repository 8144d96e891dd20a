"""Migrations: how a store of an earlier release gets the schema of this one, in small named steps that each run once.

The catalog runs and records each step in a transaction of its own. A LanceDB table shows by its schema which steps are done.
"""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.errors import StoreError
from memory_assets.stores.schema import CATALOG_TABLES, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class CatalogMigration:
    """One step of the catalog."""

    name: str
    adds: tuple[str, ...]
    """Tables, and columns as `table.column`, in the shape that the registry gives them; a table that is there is replaced."""
    then: str = ""
    """SQL."""

    def run(self, connection: "DuckDBPyConnection") -> None:
        for added in self.adds:
            name, _, wanted = added.partition(".")
            if not wanted:
                connection.execute(table(name).ddl().replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1))
            for column in table(name).columns:
                if column.name == wanted:
                    connection.execute(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {column.ddl()}")
        if self.then:
            connection.execute(self.then)


CATALOG_MIGRATIONS = (
    CatalogMigration("index-lines", ("source_hooks", "extracted_features.fault"), "UPDATE source_files SET size = -1"),
    CatalogMigration("log-of-builds", ("graph_builds", "graph_touched", "graph_position", "graph_memories.updated_at")),
    CatalogMigration("first-seen", ("memory_first_seen",)),
    CatalogMigration("analyzer-failures", ("analyzer_failures",)),
    CatalogMigration("lasting-scores", ("relevance_scores.lasting", "scored_memories", "scored_position")),
    CatalogMigration("keys-of-aliases", ("graph_aliases.key", "graph_aliases.division", "graph_position.names")),
    CatalogMigration("tana-graph", ("tana_workspaces", "tana_nodes", "tana_links", "tana_fields")),
    CatalogMigration("tana-activity", ("tana_activity",)),
    CatalogMigration(
        "stated-changes",
        ("graph_position.stated_version", "analyzer_news"),
    ),
    CatalogMigration("digests-of-files", ("source_files.digest", "source_projects"), "UPDATE source_files SET size = -1"),
    CatalogMigration(
        "relations-as-a-whole",
        (),
        "ALTER TABLE graph_position DROP COLUMN IF EXISTS stated_count; ALTER TABLE graph_position DROP COLUMN IF EXISTS stated_last",
    ),
)
"""In the order in which they run. A new one is appended; none is changed or removed as long as stores may wait for it."""
_VERSION = 1 + len(CATALOG_MIGRATIONS)
"""What earlier releases compare: they refuse a catalog of a greater version."""
_FIRST_NAMED = 11
"""The version from which a catalog records the names of its migrations."""


def waiting_migrations(connection: "DuckDBPyConnection", catalog: object) -> list[CatalogMigration] | None:
    """The steps that a catalog still has to go through; None for one without any table of this project."""
    import duckdb

    try:
        (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone() or (0,)
    except duckdb.CatalogException:
        return None
    if version < _FIRST_NAMED:
        return list(CATALOG_MIGRATIONS[version - 1 :])
    done = {name for (name,) in connection.execute("SELECT name FROM migrations").fetchall()}
    if version > _VERSION or done - {step.name for step in CATALOG_MIGRATIONS}:
        raise StoreError(f"{catalog} has schema version {version} and this release knows {_VERSION}; upgrade memory_assets.")
    return [step for step in CATALOG_MIGRATIONS if step.name not in done]


def migrate_catalog(connection: "DuckDBPyConnection", catalog: object) -> None:
    """Bring a catalog to the registered schema, a transaction a step. After a kill the next writing goes on with the step that waits."""
    waiting = waiting_migrations(connection, catalog)
    if waiting == []:
        return
    with _transaction(connection):
        if waiting is None:
            for each in CATALOG_TABLES:
                connection.execute(each.ddl())
        else:
            connection.execute(table("migrations").ddl().replace("TABLE", "TABLE IF NOT EXISTS", 1))
        _record(connection, [step for step in CATALOG_MIGRATIONS if step not in (waiting or ())])
    for step in waiting or ():
        with _transaction(connection):
            step.run(connection)
            _record(connection, [step])


def _record(connection: "DuckDBPyConnection", done: "Sequence[CatalogMigration]") -> None:
    if done:
        connection.executemany("INSERT OR IGNORE INTO migrations VALUES (?, now())", [[step.name] for step in done])
    connection.execute("CREATE OR REPLACE TABLE schema_version AS SELECT ?::INTEGER AS version", [_VERSION])


@contextmanager
def _transaction(connection: "DuckDBPyConnection") -> "Iterator[None]":
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@dataclass(frozen=True, slots=True)
class TableMigration:
    """One step of a LanceDB table."""

    name: str
    is_done: "Callable[[pa.Schema], bool]"
    column: str = ""
    """The column that the first writing adds; a step without one is done by `memory run`."""
    expression: str = ""
    """The SQL expression that makes the column."""
