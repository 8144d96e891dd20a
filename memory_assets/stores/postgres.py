"""The states of all tenants in one PostgreSQL database, for services and runs on several machines.

Every value belongs to a store, by its random id; the tenant's row names that store. Deleting the row deletes all values, and later writes
fail: nothing of a deleted tenant comes back, and nothing reaches a new tenant of the same name.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from memory_assets.errors import SettingsError, StoreBusyError, StoreError, first_line
from memory_assets.stores.state import DeletedTenant, Entry, TenantState, TenantStates

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

    from memory_assets.stores.location import Location

_MOST_CONNECTIONS = 16
CLIENT_TIMEOUTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 10,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq, in seconds and milliseconds: a connection fails half a minute after PostgreSQL's host vanished, not after hours."""
SERVER_TIMEOUTS = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
    "idle_in_transaction_session_timeout": 0,
}
"""Parameters of PostgreSQL, in seconds: it ends a transaction, with its locks, 40 s after the host of its client vanished, not after
hours, and never while the client works."""
_RECONNECT_SECONDS = 1.0
"""Interval of attempts to connect while PostgreSQL is away; the pool's own pauses would double."""
_LATE_COMMITS = "1 hour"
"""Time after a tenant's deletion during which late commits to its store may arrive."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS memory_tenants (
    name text PRIMARY KEY, store text NOT NULL UNIQUE, commits bigint NOT NULL DEFAULT 0, vectors text
);
CREATE TABLE IF NOT EXISTS memory_deleted (
    store text PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now(), swept boolean NOT NULL DEFAULT false, vectors text
);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'memory_tenants'::regclass AND attname = 'vectors') THEN
        ALTER TABLE memory_tenants ADD COLUMN vectors text;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'memory_deleted'::regclass AND attname = 'vectors') THEN
        ALTER TABLE memory_deleted ADD COLUMN vectors text;
    END IF;
END $$;
CREATE TABLE IF NOT EXISTS memory_values (
    store text REFERENCES memory_tenants (store) ON DELETE CASCADE, name text, size bigint NOT NULL, content bytea NOT NULL,
    PRIMARY KEY (store, name)
);
CREATE TABLE IF NOT EXISTS memory_records (
    store text, name text, start bigint, content bytea NOT NULL, PRIMARY KEY (store, name, start),
    FOREIGN KEY (store, name) REFERENCES memory_values ON DELETE CASCADE
);
"""
_SCHEMA_LOCK = 6_271_301
"""Number of the advisory lock for creating the tables, which several processes may do at once."""
_NEW = "INSERT INTO memory_tenants (name, store, vectors) VALUES (%(tenant)s, %(number)s, %(place)s) ON CONFLICT DO NOTHING"
_STORE_ID = "coalesce(%(store)s, (SELECT store FROM memory_tenants WHERE name = %(tenant)s))"
_GET = f"""
    SELECT substr(v.content, %(start)s + 1) || coalesce((
        SELECT string_agg(r.content, '' ORDER BY r.start) FROM memory_records r
        WHERE r.store = v.store AND r.name = v.name AND r.start >= %(start)s
    ), '') FROM memory_values v WHERE v.store = {_STORE_ID} AND v.name = %(name)s
"""
_APPEND = """
    WITH log AS (
        INSERT INTO memory_values AS v VALUES (%(store)s, %(name)s, %(size)s, '')
        ON CONFLICT (store, name) DO UPDATE SET size = v.size + excluded.size RETURNING size - %(size)s AS start
    ) INSERT INTO memory_records SELECT %(store)s, %(name)s, start, %(content)s FROM log
"""
_REPLACE = """
    INSERT INTO memory_values VALUES (%(store)s, %(name)s, length(%(content)s::bytea), %(content)s)
    ON CONFLICT (store, name) DO UPDATE SET size = excluded.size, content = excluded.content
"""
_DROP_RECORDS = "DELETE FROM memory_records WHERE store = %(store)s AND name = %(name)s"
_REPLACE_EXPECTED = """
    UPDATE memory_values SET size = length(%(content)s::bytea), content = %(content)s
    WHERE store = %(store)s AND name = %(name)s AND content = %(expected)s
"""


class Database:
    """A PostgreSQL database. Connections are opened on demand."""

    def __init__(self, uri: str, patience: float, setting: str = "MEMORY_STATE_URI", place: "Location | None" = None) -> None:
        """Refer to a database; `patience` is the timeout in seconds for a connection or a lock, `setting` holds the URI.

        If `place` holds memories, a database without this project's tables is refused: it was lost.
        """
        self._uri = uri
        self._patience = patience
        self._setting = setting
        self._place = place

    @contextmanager
    def connection(self) -> "Iterator[Connection[Any]]":
        """Open a connection that commits at the end of the block. StoreError, and nothing written, if the database fails."""
        try:
            import psycopg
            from psycopg_pool import PoolTimeout
        except ImportError as error:
            raise SettingsError(
                f"{self._setting} needs psycopg; install memory_assets with `pip install '.[cluster]'`."
            ) from error
        try:
            pool, patience = _pool(self._uri, self._place), max(self._patience, 1.0)
            deadline = monotonic() + patience
            with ExitStack() as opened:
                connection = None
                while connection is None:
                    try:
                        connection = opened.enter_context(pool.connection(_RECONNECT_SECONDS))
                    except PoolTimeout:
                        if monotonic() >= deadline:
                            raise PoolTimeout(f"no connection within {patience:g} s") from None
                yield connection
        except (psycopg.Error, PoolTimeout) as error:
            if isinstance(error, psycopg.errors.ForeignKeyViolation):
                raise
            raise StoreError(
                f"PostgreSQL failed ({first_line(error)}); check {self._setting} and PGPASSWORD, and run the command again."
            ) from error

    def execute(self, statement: str, *others: str, **given: object) -> list[tuple[Any, ...]]:
        """Execute statements in one transaction; return the rows of the first."""
        with self.connection() as connection:
            cursor = connection.execute(statement, given)  # pyright: ignore[reportArgumentType, reportCallIssue]
            rows = cursor.fetchall() if cursor.description else [()] * cursor.rowcount
            for each in others:
                connection.execute(each, given)  # pyright: ignore[reportArgumentType, reportCallIssue]
            return rows

    def close(self) -> None:
        """Close the connections of this process and end their threads, before it forks others. The next statement opens new ones."""
        if pool := _pools.pop((self._uri, os.getpid()), None):
            pool.close()

    @contextmanager
    def locked(self, name: str, what: str, patience: float) -> "Iterator[Connection[Any]]":
        """Hold a lock across machines, released if this process dies. StoreBusyError after `patience` seconds."""
        import psycopg

        with self.connection() as connection:
            try:
                given = {**SERVER_TIMEOUTS, "statement_timeout": 0, "lock_timeout": max(1, int(patience * 1_000))}
                connection.execute("; ".join(f"SET LOCAL {name} = {value}" for name, value in given.items()))  # pyright: ignore[reportArgumentType, reportCallIssue]
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
            except psycopg.errors.LockNotAvailable as error:
                raise StoreBusyError(
                    f"{what} has been locked for {patience:g} s by another process; wait for it to finish."
                ) from error
            yield connection


_pools: "dict[tuple[str, int], ConnectionPool[Connection[Any]]]" = {}
"""URI and process -> its connection pool; a forked process must not use its parent's."""


def _pool(uri: str, place: "Location | None") -> "ConnectionPool[Connection[Any]]":
    """Return the connection pool of this process. Of the threads that make it at once, one keeps its pool; the others close theirs."""
    import atexit

    import psycopg
    from psycopg_pool import ConnectionPool

    if found := _pools.get(key := (uri, os.getpid())):
        return found
    with psycopg.connect(uri, **CLIENT_TIMEOUTS) as connection:  # fails at once, where a pool tries again and again
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
        if place and connection.execute("SELECT to_regclass('memory_tenants')").fetchone() == (None,) and place.holds_memories():
            raise StoreError(
                f"The database of MEMORY_STATE_URI is empty, while {place.base} holds memories; restore the database, or set a new "
                "MEMORY_VECTORS_URI on all hosts."
            )
        connection.execute(_SCHEMA)
    pool: ConnectionPool[Connection[Any]] = ConnectionPool(
        uri,
        kwargs={**CLIENT_TIMEOUTS, "prepare_threshold": None},
        min_size=0,
        max_size=_MOST_CONNECTIONS,
        reconnect_timeout=_RECONNECT_SECONDS,
        max_idle=60.0,
        num_workers=1,
        check=ConnectionPool.check_connection,
        open=True,
    )
    if (kept := _pools.setdefault(key, pool)) is pool:
        atexit.register(pool.close)
    else:
        pool.close()
    return kept


def _differ(one: str | None, other: str) -> bool:
    """Whether two places differ; one is None if none was recorded. A folder may have another path on each host."""
    return one is not None and one != other and "://" in one + other


def _check_place(database: Database, mine: str) -> None:
    """Raise SettingsError if the tables of all tenants are in another place than this host's."""
    found = database.execute(
        "SELECT name, vectors FROM memory_tenants WHERE vectors IS NOT NULL ORDER BY vectors <> %(mine)s, name LIMIT 1", mine=mine
    )
    if found and _differ(place := found[0][1], mine):
        raise SettingsError(f"The memories of tenants such as {found[0][0]!r} are in {place}; {_describe_mend(mine, place)}.")


def _describe_mend(mine: str, theirs: str) -> str:
    if "://" in theirs:
        return f"this host looks in {mine}: set MEMORY_VECTORS_URI={theirs} here"
    return f"this host looks in {mine}: unset MEMORY_VECTORS_URI here, or set it to {mine} on all hosts, with a new database"


class PostgresState(TenantState):
    """Values and logs of a tenant in a database."""

    def __init__(self, database: Database, tenant: str, place: str) -> None:
        """Refer to the values of a tenant; `place` is where this host keeps the tables of tenants."""
        self._database = database
        self.tenant = tenant
        self._place = place

    def _execute(self, *statements: str, **given: object) -> list[tuple[Any, ...]]:
        return self._database.execute(*statements, tenant=self.tenant, place=self._place, **{"store": self.store_id, **given})

    def _write(self, *statements: str, **given: object) -> int:
        from psycopg.errors import ForeignKeyViolation

        if self.store_id is None:
            self.claim()
        try:
            return len(self._execute(*statements, **given))
        except ForeignKeyViolation:
            raise self.deleted() from None

    def get(self, name: str, start: int = 0) -> bytes | None:
        rows = self._execute(_GET, name=name, start=start)
        return bytes(rows[0][0]) if rows else None

    def put(self, name: str, content: bytes | None, expected: bytes | EllipsisType | None = ...) -> bool:
        if content is None:
            condition = "" if expected is ... else " AND content = %(expected)s"
            statement = f"DELETE FROM memory_values WHERE store = {_STORE_ID} AND name = %(name)s{condition}"
            removed = len(self._execute(statement, name=name, expected=expected if isinstance(expected, bytes) else b""))
            return bool(removed) or not isinstance(expected, bytes)
        if expected is ...:
            return bool(self._write(_REPLACE, _DROP_RECORDS, name=name, content=content))
        if expected is None:
            insert = _REPLACE.partition("ON CONFLICT")[0] + "ON CONFLICT DO NOTHING"
            return bool(self._write(insert, name=name, content=content))
        return bool(self._write(_REPLACE_EXPECTED, name=name, content=content, expected=expected))

    def append(self, name: str, record: bytes) -> None:
        self._write(_APPEND, name=name, content=record, size=len(record))

    def list(self, prefix: str = "") -> list[Entry]:
        found = self._execute(
            f"SELECT name, size FROM memory_values WHERE store = {_STORE_ID} AND starts_with(name, %(prefix)s) ORDER BY name",
            prefix=prefix,
        )
        return [Entry(*row) for row in found]

    def where(self, name: str) -> str:
        return f"{name} of the tenant {self.tenant!r} in PostgreSQL"

    def read_id(self) -> str | None:
        """Return the current id. StoreError if the tables of the tenant are in another place than this host's."""
        rows = self._execute("SELECT store, vectors FROM memory_tenants WHERE name = %(tenant)s")
        if rows and _differ(place := rows[0][1], self._place):
            raise StoreError(f"The memories of the tenant {self.tenant!r} are in {place}; {_describe_mend(self._place, place)}.")
        return rows[0][0] if rows else None

    def _insert(self, number: str) -> bool:
        """Create the tenant with this id unless it exists; return whether. SettingsError if all tenants are in another place."""
        _check_place(self._database, self._place)
        return bool(self._execute(_NEW, number=number))

    def create_id(self, *, anew: bool = False) -> str:
        self._insert(secrets.token_hex(8))
        if anew:
            self._execute("UPDATE memory_tenants SET commits = commits + 1 WHERE name = %(tenant)s")
        self.store_id = self.read_id()
        if self.store_id is None:
            raise self.deleted()
        return self.store_id

    def count_commits(self) -> int | None:
        rows = self._execute("SELECT commits FROM memory_tenants WHERE name = %(tenant)s AND store = %(store)s")
        return rows[0][0] if rows else None

    def note_commit(self) -> int:
        rows = self._execute(
            "UPDATE memory_tenants SET commits = commits + 1, vectors = coalesce(vectors, %(place)s) "
            "WHERE name = %(tenant)s AND store = %(store)s RETURNING commits"
        )
        if not rows:
            raise self.deleted()
        return rows[0][0]

    @property
    def exists(self) -> bool:
        return self.read_id() is not None

    @contextmanager
    def creating(self) -> Iterator[None]:
        number = secrets.token_hex(8)
        if not self._insert(number):
            raise self.already_exists()
        self.store_id = number
        with ExitStack() as failed:
            failed.callback(self.delete)
            yield
            failed.pop_all()

    def delete(self) -> None:
        self._execute(
            """
            WITH gone AS (DELETE FROM memory_tenants WHERE name = %(tenant)s AND store = %(store)s RETURNING store, name, vectors)
            INSERT INTO memory_deleted (store, name, vectors) SELECT store, name, vectors FROM gone
            """
        )


class PostgresStates(TenantStates):
    """The states of all tenants in one database."""

    def __init__(self, database: Database, place: str) -> None:
        """Refer to the states; `place` is the folder or the s3:// URI in which this host keeps the tables of all tenants."""
        self._database = database
        self._place = place.rstrip("/")

    def open(self, tenant: str) -> PostgresState:
        return PostgresState(self._database, tenant, self._place)

    def close(self) -> None:
        self._database.close()

    def names(self) -> Iterable[str]:
        """Return the names of tenants. SettingsError if the tables of each are in another place than this host's."""
        _check_place(self._database, self._place)
        return (name for (name,) in self._database.execute("SELECT name FROM memory_tenants"))

    def deleted(self) -> "list[DeletedTenant]":
        """Return the deleted tenants, without those whose tables are in another place than this host's: it cannot remove them."""
        found = self._database.execute("SELECT name, store, swept, vectors FROM memory_deleted ORDER BY at")
        return [
            DeletedTenant(name, store, f"the store {store} of the tenant {name!r}", swept)
            for name, store, swept, place in found
            if not _differ(place, self._place)
        ]

    def sweep(self, left: DeletedTenant) -> None:
        """Remove the remains of a deleted tenant; the record stays for an hour, so that the next sweep also removes late commits."""
        late = f"DELETE FROM memory_deleted WHERE store = %(store)s AND at < now() - interval '{_LATE_COMMITS}'"
        self._database.execute("UPDATE memory_deleted SET swept = true WHERE store = %(store)s", late, store=left.store_id)

    def stamps(self) -> dict[str, str] | None:
        found = self._database.execute("SELECT name, store, commits FROM memory_tenants")
        return {name: f"{store}.{commits}" for name, store, commits in found}

    def value_stamps(self, name: str, tenants: Iterable[str]) -> dict[str, str]:
        statement = """
            SELECT t.name, concat_ws('.', t.store, v.xmin) FROM memory_tenants t
            LEFT JOIN memory_values v ON v.store = t.store AND v.name = %(name)s WHERE t.name = ANY(%(tenants)s)
        """
        return dict(self._database.execute(statement, name=name, tenants=list(tenants)))
