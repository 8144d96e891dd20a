"""The DuckDB catalog: what is derived. Only the assets write it, each in one short transaction; it can always be rebuilt.

DuckDB lets one process write a file, or several read it. So nobody keeps a connection while computing: `Catalog.read` and
`Catalog.write` open one, wait a bounded time for another process's lock, and close it again. Small changes stay in the file's
write-ahead log beside it until that has grown to 128 kB: merging it writes whole tables and indexes anew, and every opening reads
it again.
"""

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import DamagedError, StoreBusyError, StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE source_scans (
        source VARCHAR PRIMARY KEY, root VARCHAR, finished_at TIMESTAMPTZ, notes VARCHAR[]
    );
    CREATE TABLE source_files (
        source VARCHAR, path VARCHAR, size BIGINT, mtime_ns BIGINT, inode UBIGINT, PRIMARY KEY (source, path)
    );
    CREATE TABLE source_items (
        key VARCHAR PRIMARY KEY, source VARCHAR, path VARCHAR, kind VARCHAR, title VARCHAR, description VARCHAR, body VARCHAR,
        created_at TIMESTAMPTZ, tags VARCHAR[], links VARCHAR[], project VARCHAR, session VARCHAR, author VARCHAR,
        importance FLOAT, confidence FLOAT, remember BOOLEAN, metadata VARCHAR, item_hash VARCHAR
    );
    CREATE TABLE source_refusals (
        source VARCHAR, path VARCHAR, location VARCHAR, key VARCHAR, reason VARCHAR, mend VARCHAR
    );
    CREATE TABLE memory_entries (
        key VARCHAR PRIMARY KEY, source VARCHAR, kind VARCHAR, title VARCHAR, content VARCHAR, created_at TIMESTAMPTZ,
        tags VARCHAR[], links VARCHAR[], project VARCHAR, session VARCHAR, author VARCHAR, importance FLOAT, confidence FLOAT,
        metadata VARCHAR, content_hash VARCHAR, entry_hash VARCHAR
    );
    CREATE TABLE extracted_features (
        content_hash VARCHAR PRIMARY KEY, pipeline VARCHAR, entities STRUCT("text" VARCHAR, "type" VARCHAR)[],
        actions VARCHAR[], tags VARCHAR[]
    );
    CREATE TABLE graph_memories (
        id BIGINT PRIMARY KEY, revision VARCHAR, state VARCHAR, live BOOLEAN, kind VARCHAR, source VARCHAR, source_key VARCHAR,
        title VARCHAR, label VARCHAR, session VARCHAR, author VARCHAR, project VARCHAR, project_name VARCHAR,
        created_at TIMESTAMPTZ, superseded_by BIGINT, content_hash VARCHAR, retracts BOOLEAN, names VARCHAR[],
        links VARCHAR[], refs VARCHAR[], origins VARCHAR[]
    );
    CREATE TABLE graph_surfaces (
        memory_id BIGINT, "text" VARCHAR, type VARCHAR
    );
    CREATE TABLE graph_cues (
        memory_id BIGINT, relation VARCHAR, target_kind VARCHAR, target VARCHAR, other VARCHAR, outgoing BOOLEAN,
        confidence FLOAT, sentence VARCHAR
    );
    CREATE TABLE graph_aliases (
        "text" VARCHAR, type VARCHAR, entity_id BIGINT, PRIMARY KEY ("text", type)
    );
    CREATE TABLE graph_nodes (
        id BIGINT PRIMARY KEY, kind VARCHAR, label VARCHAR, revision VARCHAR, type VARCHAR
    );
    CREATE TABLE graph_mentions (
        memory_id BIGINT, entity_id BIGINT, PRIMARY KEY (memory_id, entity_id)
    );
    CREATE TABLE graph_edges (
        source_id BIGINT, target_id BIGINT, type VARCHAR, confidence FLOAT, similarity FLOAT, origin VARCHAR,
        evidence_id BIGINT DEFAULT 0, note VARCHAR, PRIMARY KEY (source_id, target_id, type, origin, evidence_id)
    );
    CREATE TABLE graph_builds (
        number BIGINT
    );
    CREATE TABLE memory_access (
        id BIGINT PRIMARY KEY, last_at TIMESTAMPTZ, accesses BIGINT
    );
    CREATE TABLE access_offsets (
        segment VARCHAR PRIMARY KEY, "offset" BIGINT
    );
    CREATE TABLE relevance_scores (
        id BIGINT, decay DOUBLE, access DOUBLE, density DOUBLE, importance DOUBLE, confidence DOUBLE,
        relevance DOUBLE, fresh_at TIMESTAMPTZ, accessed_at TIMESTAMPTZ, accesses BIGINT, edges BIGINT, fresh_because VARCHAR,
        computed_at TIMESTAMPTZ
    );
    CREATE TABLE creative_links (
        source_id BIGINT, target_id BIGINT, type VARCHAR, similarity FLOAT, week VARCHAR, found_at TIMESTAMPTZ,
        PRIMARY KEY (source_id, target_id)
    );
    CREATE TABLE clusters (
        id BIGINT PRIMARY KEY, label VARCHAR, summary VARCHAR, size INTEGER, cohesion FLOAT, first_seen TIMESTAMPTZ,
        updated_at TIMESTAMPTZ
    );
    CREATE TABLE cluster_members (
        memory_id BIGINT PRIMARY KEY, cluster_id BIGINT, closeness FLOAT
    );
    CREATE TABLE analyzed_memories (
        memory_id BIGINT PRIMARY KEY, content_hash VARCHAR, model VARCHAR
    );
    CREATE TABLE analyzer_links (
        memory_id BIGINT, source_id BIGINT, target_id BIGINT, type VARCHAR, confidence FLOAT, note VARCHAR
    );
    """,
    """
    CREATE TABLE source_hooks (
        source VARCHAR, path VARCHAR, target VARCHAR, hook VARCHAR
    );
    ALTER TABLE extracted_features ADD COLUMN fault VARCHAR;
    UPDATE source_files SET size = -1;
    """,
    """
    CREATE OR REPLACE TABLE graph_builds (
        lineage BIGINT, number BIGINT, logged_since BIGINT
    );
    CREATE TABLE graph_touched (
        build BIGINT, node BIGINT
    );
    CREATE TABLE graph_position (
        version BIGINT, read_at TIMESTAMPTZ, basis VARCHAR
    );
    ALTER TABLE graph_memories ADD COLUMN updated_at TIMESTAMPTZ;
    """,
    """
    CREATE TABLE memory_first_seen (
        id BIGINT PRIMARY KEY, seen_at TIMESTAMPTZ
    );
    """,
    """
    CREATE TABLE analyzer_failures (
        memory_id BIGINT PRIMARY KEY, content_hash VARCHAR, model VARCHAR, attempts INTEGER, failure VARCHAR,
        failed_at TIMESTAMPTZ
    );
    """,
    """
    ALTER TABLE relevance_scores ADD COLUMN lasting DOUBLE;
    CREATE TABLE scored_memories (
        id BIGINT, state VARCHAR, kind VARCHAR, source_key VARCHAR, created_at TIMESTAMPTZ, importance FLOAT, confidence FLOAT,
        protected BOOLEAN, updated_at TIMESTAMPTZ
    );
    CREATE TABLE scored_position (
        version BIGINT, read_at TIMESTAMPTZ, basis VARCHAR, lineage BIGINT, build BIGINT
    );
    """,
    """
    ALTER TABLE graph_aliases ADD COLUMN key VARCHAR;
    ALTER TABLE graph_aliases ADD COLUMN division VARCHAR;
    ALTER TABLE graph_position ADD COLUMN names VARCHAR;
    """,
    """
    CREATE TABLE tana_workspaces (
        id VARCHAR PRIMARY KEY, name VARCHAR, since TIMESTAMPTZ, read_at TIMESTAMPTZ
    );
    CREATE TABLE tana_nodes (
        id VARCHAR PRIMARY KEY, workspace VARCHAR, name VARCHAR, description VARCHAR, tags VARCHAR[], created TIMESTAMPTZ,
        modified TIMESTAMPTZ, children INTEGER, read_at TIMESTAMPTZ, skipped VARCHAR
    );
    CREATE TABLE tana_links (
        source VARCHAR, target VARCHAR, relation VARCHAR, label VARCHAR, place INTEGER
    );
    CREATE TABLE tana_fields (
        node VARCHAR, name VARCHAR, place INTEGER, value VARCHAR
    );
    """,
    """
    CREATE TABLE tana_activity (
        source_key VARCHAR PRIMARY KEY, active_at TIMESTAMPTZ, because VARCHAR
    );
    """,
    """
    ALTER TABLE graph_position ADD COLUMN stated_version BIGINT;
    ALTER TABLE graph_position ADD COLUMN stated_count BIGINT;
    ALTER TABLE graph_position ADD COLUMN stated_last BIGINT;
    CREATE TABLE analyzer_news (
        memory_id BIGINT, noted BIGINT
    );
    """,
)
"""One script per schema version, each run once and in one transaction."""

_NOT_DERIVED = ("memory_access", "access_offsets", "memory_first_seen", "creative_links")
"""What no run could find again. None of it holds a text."""
_NOT_FOR_ARROW = "join_filter_pushdown"
"""DuckDB 1.5 fails on a join whose Bloom filter it pushes into a registered Arrow table (`Pushdown Filter Type BLOOM_FILTER`)."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {"autoinstall_known_extensions": False}
_LARGEST_LOG = 1 << 14
"""Bytes from which the log is merged into the file. Whoever opens the catalog plays it again: at a million memories 25 ms of processor
time and 4 ms a kilobyte, where opening takes 17, and merging 220."""
_LOCKED = re.compile(r"Could not set lock on file.*?Conflicting lock is held in (?P<holder>.+?\(PID \d+\))", re.DOTALL)

Stamp = tuple[tuple[int, int, int], ...]


class Catalog:
    """One tenant's catalog at a path; connections live only inside `read` and `write`."""

    def __init__(self, uri: str, lock_timeout: float) -> None:
        """Name the catalog's file and how many seconds to wait for its lock."""
        self.path = Path(uri)
        self.lock_timeout = lock_timeout
        self._found = False
        """Whether its folder was ever there; one that is gone since then belonged to a tenant that was deleted."""
        self._left: Stamp | None = None
        self._disturbed = False

    @property
    def log_path(self) -> Path:
        """DuckDB's write-ahead log, which belongs to the file and goes with it."""
        return self.path.with_name(f"{self.path.name}.wal")

    @property
    def exists(self) -> bool:
        """Whether anything has been derived yet."""
        return self.path.exists()

    @property
    def stamp(self) -> Stamp:
        """Another one after every change; empty where there is no catalog."""
        stats = [file.stat() for file in (self.path, self.log_path) if file.exists()]
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)

    def watch(self) -> None:
        """Begin to notice what others write to the catalog, which is made if there is none."""
        if not self.exists:
            with self.write():
                pass
        self._left, self._disturbed = self.stamp, False

    @property
    def is_undisturbed(self) -> bool:
        """Whether nobody else has written since `watch`."""
        return not self._disturbed and self._left == self.stamp

    @contextmanager
    def read(self) -> Iterator["DuckDBPyConnection"]:
        """A connection to read from; nothing is written, so a catalog that does not exist reads as an empty one in memory.

        One of an earlier release is copied into memory and migrated there; the next writing does so with the file.

        Raises:
            StoreBusyError: another process holds the lock longer than the timeout.
            StoreError: the file cannot be read.
        """
        self._found |= self.path.parent.is_dir()
        connection = self._connect(self._in_file, read_only=True) if self.exists else self._connect(self._in_memory)
        if self._version(connection) < len(MIGRATIONS):
            connection.close()
            connection = self._connect(self._in_memory)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def write(self) -> Iterator["DuckDBPyConnection"]:
        """A connection inside one transaction: committed at the end of the block, rolled back on any error.

        Raises:
            StoreBusyError: another process holds the lock longer than the timeout.
            StoreError: the file cannot be opened, or its folder was deleted since somebody looked.
        """
        if self._found and not self.path.parent.is_dir():
            raise StoreError(f"{self.path.parent} has been deleted; nothing was written.")
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._found = True
        connection = self._connect(self._in_file, read_only=False)
        self._disturbed |= self._left not in (None, self.stamp)
        try:
            connection.begin()
            self._migrate(connection)
            yield connection
            connection.commit()
            if self.log_path.exists() and self.log_path.stat().st_size > _LARGEST_LOG:
                connection.execute("CHECKPOINT")
            self._left = self.stamp
        finally:
            connection.close()

    def begin_again(self) -> None:
        """Put a new file in place of this one, with what no run could find again; the next run builds the rest.

        DuckDB leaves what was deleted in its file, and what was written last in its log, until something else is written there.

        Raises:
            StoreBusyError: another process holds the lock longer than the timeout.
            StoreError: the file cannot be opened.
        """
        fresh = Catalog(str(self.path.with_name(f".{self.path.name}.new")), self.lock_timeout)
        fresh.path.unlink(missing_ok=True)
        with self.write() as connection:
            kept = {name: connection.execute(f"FROM {name}").to_arrow_table() for name in _NOT_DERIVED}
            with fresh.write() as new:
                for name, rows in kept.items():
                    new.register("kept", rows)
                    new.execute(f"INSERT INTO {name} BY NAME FROM kept")
            with closing(self._connect(fresh._in_file, read_only=False)) as new:
                new.execute("CHECKPOINT")
            self.log_path.unlink(missing_ok=True)
            fresh.path.replace(self.path)

    def set_aside(self) -> None:
        """Give a damaged catalog another name, so that the next run derives everything anew."""
        if self.exists:
            self.path.rename(self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}"))

    def _in_file(self, read_only: bool) -> "DuckDBPyConnection":
        import duckdb

        if not self.exists:
            self.log_path.unlink(missing_ok=True)
        connection = duckdb.connect(self.path, read_only=read_only, config=_CONFIG)
        if not read_only:
            connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        return connection

    def _in_memory(self) -> "DuckDBPyConnection":
        """A copy of what is there, with the newest schema."""
        import duckdb

        connection = duckdb.connect(":memory:", config=_CONFIG)
        if self.exists:
            path = str(self.path).replace("'", "''")
            connection.execute(f"ATTACH '{path}' AS earlier (READ_ONLY); COPY FROM DATABASE earlier TO memory; DETACH earlier")
        self._migrate(connection)
        return connection

    def _connect(self, connect: "Callable[..., DuckDBPyConnection]", **how: bool) -> "DuckDBPyConnection":
        import duckdb

        deadline = time.monotonic() + self.lock_timeout
        pause = 0.01
        while True:
            try:
                connection = connect(**how)
            except duckdb.Error as error:
                locked = _LOCKED.search(str(error))
                if not locked:
                    raise DamagedError(
                        f"The catalog {self.path} cannot be opened ({str(error).splitlines()[0]}); it is derived, so move it "
                        "away and run `memory run` to rebuild it."
                    ) from error
                if time.monotonic() + pause > deadline:
                    raise StoreBusyError(
                        f"The catalog {self.path} has been locked for {self.lock_timeout:g} s by {locked['holder']}; wait for "
                        "it to finish or stop that process."
                    ) from error
            else:
                connection.execute(f"LOAD icu; SET TimeZone = 'UTC'; SET disabled_optimizers = '{_NOT_FOR_ARROW}'")
                return connection
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, 0.5)

    def _migrate(self, connection: "DuckDBPyConnection") -> None:
        version = self._version(connection)
        if version == len(MIGRATIONS):
            return
        for script in MIGRATIONS[version:]:
            connection.execute(script)
        connection.execute("CREATE OR REPLACE TABLE schema_version AS SELECT ?::INTEGER AS version", [len(MIGRATIONS)])

    def _version(self, connection: "DuckDBPyConnection") -> int:
        import duckdb

        try:
            (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone() or (0,)
        except duckdb.CatalogException:
            return 0
        if version > len(MIGRATIONS):
            raise StoreError(
                f"The catalog {self.path} has schema version {version} and this release knows {len(MIGRATIONS)}; "
                "upgrade memory_assets."
            )
        return version


def copy_in(connection: "DuckDBPyConnection", given: "Mapping[str, pa.Table]") -> None:
    """Make temporary tables of what is given, and let DuckDB pass over what a join with their few rows does not concern.

    From then on nothing that is registered may be joined (`_NOT_FOR_ARROW`).
    """
    for name, rows in given.items():
        connection.register("given", rows)
        connection.execute(f"CREATE TEMP TABLE {name} AS FROM given")
        connection.unregister("given")
    connection.execute("SET disabled_optimizers = ''")
