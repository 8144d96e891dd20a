"""LanceDB tables that know their schema version: opened or created, migrated and indexed before anybody uses them.

Every write is one commit, so a table is always whole; several processes may open, create and migrate the same table at once.
The `id` column is the table's primary key: Lance then refuses two concurrent inserts of one key and retries the later one as an
update. Its field metadata carries the schema version and other table-wide facts, because Lance commits them atomically.
"""

import fcntl
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from memory_assets.errors import StoreError

if TYPE_CHECKING:
    from lancedb import Session
    from lancedb.db import DBConnection
    from lancedb.table import Table

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
VERSION_FACT = "memory_assets:schema_version"
_PATIENCE_SECONDS = 60.0
"""How long a commit is tried while other writers come first."""
_LONGEST_PAUSE_SECONDS = 0.25
_CREATION_SECONDS = 2.0
_uris: "WeakKeyDictionary[Table, str]" = WeakKeyDictionary()
"""Asking a table for its URI takes half a millisecond."""

Result = TypeVar("Result")
Migration = Callable[["Table"], None]
"""Brings a table from one schema version to the next; may run twice, or in two processes at once."""


def open_table(uri: str, name: str, schema: pa.Schema, migrations: Sequence[Migration], freshness: float = 0.0) -> "Table":
    """Open table `name` of the database at `uri`, creating and migrating it as needed.

    Args:
        uri: a folder or an object-storage URI.
        name: the table's name.
        schema: schema of version 1, with `id` as its primary key.
        migrations: one function per later version, in order.
        freshness: seconds within which commits of other processes are seen; 0 looks for them at every call, which costs
            each query several milliseconds. Commits through the table itself are seen at once.

    Raises:
        StoreError: the table cannot be read, or was written by a newer release.
    """
    try:
        if "://" not in uri:
            Path(uri).mkdir(parents=True, exist_ok=True, mode=0o700)
        database = _connected(uri, freshness)
        if name not in database.list_tables().tables:
            _create(database, name, schema)
        table = _opened(database, name)
        _migrate(table, uri, migrations)
    except (RuntimeError, OSError, ValueError) as error:
        raise StoreError(
            f"The table {name!r} in {uri} cannot be opened ({first_line(error)}); restore it from a backup, or move the "
            "folder away and run `memory run` to rebuild what comes from files."
        ) from error
    return table


def reopened(table: "Table", uri: str, freshness: float, cache_bytes: int) -> "Table":
    """Another handle on a table, whose caches of indexes and of metadata begin empty and keep to `cache_bytes` each."""
    from lancedb import Session

    return _connected(uri, freshness, Session(cache_bytes, cache_bytes)).open_table(table.name)


def _connected(uri: str, freshness: float, session: "Session | None" = None) -> "DBConnection":
    import lancedb

    return lancedb.connect(uri, read_consistency_interval=timedelta(seconds=freshness), session=session)


def _create(database: "DBConnection", name: str, schema: pa.Schema) -> None:
    try:
        database.create_table(name, schema=schema)
    except (RuntimeError, ValueError):
        if name not in database.list_tables().tables:
            raise


def _opened(database: "DBConnection", name: str) -> "Table":
    """The table; one that another process is just creating is listed a moment before it can be opened."""
    deadline = monotonic() + _CREATION_SECONDS
    while True:
        try:
            return database.open_table(name)
        except (RuntimeError, ValueError):
            if monotonic() > deadline:
                raise
        sleep(0.05)


def _migrate(table: "Table", uri: str, migrations: Sequence[Migration]) -> None:
    latest = len(migrations) + 1
    version = int(facts(table).get(VERSION_FACT, "1"))
    if version > latest:
        raise StoreError(
            f"The table {table.name!r} in {uri} has schema version {version} and this release knows {latest}; "
            "upgrade memory_assets."
        )
    for number in range(version, latest):
        migrations[number - 1](table)
        set_facts(table, {VERSION_FACT: str(number + 1)})


def facts(table: "Table") -> dict[str, str]:
    """The table-wide facts: field metadata of the `id` column."""
    metadata = table.schema.field("id").metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def set_facts(table: "Table", changes: Mapping[str, str | None]) -> None:
    """Change table-wide facts in one commit; None removes one.

    Raises:
        StoreError: the commit did not happen; nothing was changed.
    """
    change = {"path": "id", "metadata": dict(changes)}
    commit(table, lambda: table.update_field_metadata(change), f"The facts of {table.name!r} could not be set")


def ensure_indices(table: "Table", configs: Mapping[str, Any]) -> None:
    """Create the indices that are missing; `configs` maps column to index configuration.

    Raises:
        StoreError: an index cannot be built.
    """
    for column, config in configs.items():
        ensure(
            table,
            partial(_has_index, table, column),
            partial(table.create_index, column, config=config, replace=True),
            f"The index on {column!r} of {table.name!r} cannot be built",
        )


def _has_index(table: "Table", column: str) -> bool:
    return (column,) in {tuple(index.columns) for index in table.list_indices()}


def ensure(table: "Table", is_done: Callable[[], bool], work: Callable[[], object], failure: str) -> None:
    """Do `work`, which is one commit, unless it is done already; several processes may want it at once.

    Raises:
        StoreError: it is not done.
    """

    def attempt() -> None:
        if is_done():
            return
        try:
            work()
        except (RuntimeError, OSError, ValueError):
            table.checkout_latest()
            if not is_done():
                raise

    commit(table, attempt, failure)


def commit(table: "Table", work: Callable[[], Result], failure: str) -> Result:
    """Do `work`, which is one commit; when other writers were faster too often for Lance's own retries, do it again.

    Args:
        table: what is written to; before another try it is brought to its newest version.
        work: fails without a trace, or is done.
        failure: what to say then, as the beginning of a sentence.

    Raises:
        StoreError: the commit did not happen; nothing was written.
    """
    deadline = monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with kept(table):
                return work()
        except (RuntimeError, OSError, ValueError) as error:
            if not is_conflict(error) or monotonic() > deadline:
                raise StoreError(f"{failure} ({first_line(error)}); nothing was written, run the command again.") from error
        sleep(random.uniform(0.0, _LONGEST_PAUSE_SECONDS))  # noqa: S311
        table.checkout_latest()


@contextmanager
def kept(table: "Table") -> Iterator[None]:
    """Let nobody delete a table meanwhile; Lance would write the rest of a commit into a new folder of the old name.

    A table in object storage is not guarded.

    Raises:
        StoreError: it has been deleted.
    """
    uri = _uris.get(table) or _uris.setdefault(table, cast("Any", table).uri)
    if "://" in uri:
        yield
        return
    with _locked(Path(uri), fcntl.LOCK_SH) as there:
        if not there:
            raise StoreError(f"The table {uri} has been deleted; nothing was written.")
        yield


@contextmanager
def sealed(database: Path) -> Iterator[None]:
    """Wait until no commit to the tables of a folder is under way, and let none begin as long as this lasts.

    Raises:
        StoreError: somebody else is deleting them.
    """
    with ExitStack() as locks:
        for table in sorted(database.glob("*.lance")):
            if not locks.enter_context(_locked(table, fcntl.LOCK_EX)):
                raise StoreError(f"The table {table} is being deleted already.")
        yield


@contextmanager
def _locked(folder: Path, kind: int) -> Iterator[bool]:
    """Hold a lock on a folder; False where it is not there, or no longer when the lock has been got."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(held, kind)
        yield folder.exists() and os.path.samestat(os.fstat(held), folder.stat())
    finally:
        os.close(held)


def is_conflict(error: BaseException) -> bool:
    """Whether a commit failed only because other writers were faster."""
    return any(words in str(error) for words in ("ommit conflict", "concurrent writers", "concurrent transaction"))


def append(table: "Table", rows: pa.Table) -> int:
    """Add `rows`, whose ids are new, in one commit.

    Returns:
        The table's version after the commit.

    Raises:
        StoreError: the commit did not happen; nothing was written.
    """
    try:
        return commit(table, lambda: table.add(aligned(rows, table.schema)).version, _not_written(table, rows))
    except StoreError:
        if not _was_committed(table, rows):
            raise
        return table.version


def _was_committed(table: "Table", rows: pa.Table) -> bool:
    """Whether rows with new ids are there, although something failed: what comes after a commit can fail too."""
    try:
        table.checkout_latest()
        return table.count_rows(f"id = {rows['id'][0].as_py()}") > 0
    except (RuntimeError, OSError, ValueError):
        return False


def insert(table: "Table", rows: pa.Table) -> int:
    """Insert the rows of `rows` whose ids the table lacks, in one commit; those that it has stay as they are.

    Returns:
        The table's version after the commit.

    Raises:
        StoreError: the commit did not happen; nothing was written.
    """
    builder = table.merge_insert("id").when_not_matched_insert_all()
    return commit(table, lambda: builder.execute(aligned(rows, table.schema)).version, _not_written(table, rows))


def upsert(table: "Table", rows: pa.Table) -> int:
    """Insert or replace `rows` by id in one commit; columns that the table has and `rows` lacks become null.

    Returns:
        The table's version after the commit.

    Raises:
        StoreError: the commit did not happen; nothing was written.
    """
    return _merge(table, aligned(rows, table.schema), insert=True)


def aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with exactly the columns of `schema`; those it lacks are null.

    Raises:
        StoreError: `schema` lacks one of them, because another process has changed the table meanwhile.
    """
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise StoreError(f"The table has no column {min(unknown)!r} any more; nothing was written, run the command again.")
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def update_columns(table: "Table", rows: pa.Table) -> int:
    """Set the given columns of the rows whose id is in `rows`, in one commit; other columns and rows stay as they are.

    Returns:
        The table's version after the commit.

    Raises:
        StoreError: the commit did not happen; nothing was written.
    """
    schema = pa.schema([table.schema.field(name) for name in rows.column_names])
    return _merge(table, rows.cast(schema), insert=False)


def _merge(table: "Table", rows: pa.Table, *, insert: bool) -> int:
    builder = table.merge_insert("id").when_matched_update_all()
    if insert:
        builder = builder.when_not_matched_insert_all()
    return commit(table, lambda: builder.execute(rows).version, _not_written(table, rows))


def _not_written(table: "Table", rows: pa.Table) -> str:
    return f"{rows.num_rows} row(s) of {table.name!r} could not be written"


def quoted(values: Sequence[str]) -> str:
    """SQL list of string literals for a Lance filter: `('a', 'it''s')`."""
    return "(" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + ")"


def first_line(error: BaseException) -> str:
    """What LanceDB says of an error, without the trace that it adds."""
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
