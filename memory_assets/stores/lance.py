"""Atomic commits to LanceDB tables, retried on conflicts with other writers.

Every write is one commit, so a StoreError means that nothing was written. Facts about a whole table are metadata of its `id`
column, because Lance commits metadata atomically.
"""

import errno
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from memory_assets.errors import MENDS, DeletedError, MemoryAssetsError, StoreError, UnansweredError, first_line
from memory_assets.stores.deferred import import_lancedb

if TYPE_CHECKING:
    from lancedb._lancedb import MergeResult
    from lancedb.table import Table

    from memory_assets.stores.tables import StoredTable

_RETRY_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 0.25
_MAX_ROWS_READ_WHOLE = 2_000
"""Most rows that `change` reads and replaces whole; for more it is cheaper to read the whole table."""
_KEYS = "the keys are refused, so check MEMORY_STORAGE_*"
_REFUSED = {
    "NoSuchBucket": "the bucket is missing, so check MEMORY_VECTORS_URI",
    "PermissionDenied (permanent)": _KEYS,
    "ACCESS_DENIED": _KEYS,
    "HTTP code 403": _KEYS,
}
"""Part of an answer of the object storage that no retry changes -> what a person can do."""
_ADVICE = {
    "Read-only file system": "its folder can only be read, so write where it is mounted for writing",
    "No space left on device": "the disk is full, so make room on it",
    "Disk quota exceeded": "the disk quota is used up, so make room",
    "Permission denied": "`memory doctor` says how you get access to it",
    "File too large": MENDS[errno.EFBIG],
    "Too many open files": MENDS[errno.EMFILE],
    "Cannot allocate memory": "close other programs, or raise `ulimit -v`",
    "Out of Memory Error": "close other programs, or raise `ulimit -v`",
    "bad allocation": "close other programs, or raise `ulimit -v`",
    "can't start new thread": "close other programs, or raise `ulimit -v` or `ulimit -u`",
    "RequestTimeTooSkewed": "this machine's clock is wrong, so set it",
    **_REFUSED,
    "/_indices/": "an index is lost, so run `memory doctor --mend` first",
}
"""Part of an error message -> what a person can do."""

_UNCHANGED = "nothing was written"

Result = TypeVar("Result")


def facts_of(schema: pa.Schema) -> dict[str, str]:
    """Return the table-wide facts: field metadata of the `id` column."""
    metadata = schema.field("id").metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def set_facts(stored: "StoredTable", changes: Mapping[str, str | None], column: str = "id") -> None:
    """Change table-wide facts, or the facts of another column, in one commit; None removes a fact."""
    change = {"path": column, "metadata": dict(changes)}
    commit(stored, lambda: stored.writing.update_field_metadata(change), f"The facts of {stored.name!r} could not be set")


def ensure_indices(stored: "StoredTable", configs: Mapping[str, Any], *, anew: bool = False) -> None:
    """Create missing indices, or rebuild all if `anew`; `configs` maps column to index configuration."""

    def present() -> set[tuple[str, ...]]:
        return {tuple(index.columns) for index in stored.writing.list_indices()} if configs and not anew else set()

    there = present()
    for column in (each for each in configs if (each,) not in there):
        ensure(
            stored,
            lambda column=column: (column,) in present(),
            partial(stored.writing.create_index, column, config=configs[column], replace=True),
            f"The index on {column!r} of {stored.name!r} cannot be built",
            "earlier changes of rows are kept",
        )


def ensure(
    stored: "StoredTable", is_done: Callable[[], bool], work: Callable[[], object], failure: str, outcome: str = _UNCHANGED
) -> None:
    """Run `work`, which makes one commit, unless `is_done`. Several processes may call this at once."""

    def attempt() -> None:
        if is_done():
            return
        try:
            work()
        except (RuntimeError, OSError, ValueError):
            stored.writing.checkout_latest()
            if not is_done():
                raise

    commit(stored, attempt, failure, outcome)


def commit(stored: "StoredTable", work: Callable[[], Result], failure: str, outcome: str = _UNCHANGED) -> Result:
    """Run `work`, which makes one commit, and retry it on conflicts that outlast Lance's own retries.

    `work` either succeeds or changes nothing. The table is brought to its newest version before each attempt. The StoreError's sentence
    begins with `failure`; `outcome` says what the table holds then.
    """
    table, deadline = stored.writing, monotonic() + _RETRY_SECONDS
    renew: Callable[[], object] = stored.look
    while True:
        try:
            with stored.committing():
                renew()
                return work()
        except (RuntimeError, OSError, ValueError) as error:
            stored.raise_if_deleted()
            if not is_conflict(error) or monotonic() > deadline:
                advice = advice_for(error) or "run the command again"
                raise StoreError(f"{failure} ({reason_of(error)}); {outcome}: {advice}.") from error
        renew = table.checkout_latest
        sleep(random.uniform(0.0, _LONGEST_PAUSE_SECONDS))  # noqa: S311


def advice_for(error: BaseException) -> str | None:
    """Return what a person can do about a failure, or its cause, that is not in the table's rows; None for all others."""
    chain = f"{error}\n{error.__cause__}"
    return next((advice for said, advice in _ADVICE.items() if said in chain), None)


def reason_of(error: BaseException) -> str:
    """Return an error's first line, or a sentence in place of the chain that LanceDB makes of an error of the object storage."""
    if "(temporary)" in str(error):
        return "the object storage fails at the moment"
    return "the object storage refuses it" if any(sign in str(error) for sign in _REFUSED) else first_line(error)


def is_lancedb_error(error: BaseException) -> bool:
    """Return whether LanceDB raised this error, including a panic of its Rust code, whose class cannot be imported."""
    if isinstance(error, MemoryAssetsError):
        return False
    return isinstance(error, RuntimeError | OSError) or type(error).__name__ == "RustPanic" or "Lance" in str(error)


def is_conflict(error: BaseException) -> bool:
    """Return whether a commit failed only because of concurrent writers."""
    return any(words in str(error) for words in ("ommit conflict", "concurrent writers", "concurrent transaction"))


def scan(table: "Table") -> Any:
    """Return a query without a search. `table.search()` reads the schema, to look for a vector column."""
    return import_lancedb().query.LanceEmptyQueryBuilder(table)


def fetch(query: Any, *, row_ids: bool = False) -> pa.Table:
    """Run a query without a search. LanceDB reads the table's schema, to look for blobs, unless row ids are asked for."""
    rows = query.with_row_id(True).to_batches().read_all()
    return rows if row_ids else rows.drop_columns("_rowid")


def append(stored: "StoredTable", rows: pa.Table) -> int:
    """Add `rows`, whose ids are new, in one commit. Returns the new version; 0 if it is unknown."""
    table = stored.writing
    try:
        return commit(stored, lambda: table.add(aligned(rows, table.schema)).version, _not_written(table, rows))
    except (DeletedError, UnansweredError):
        raise
    except StoreError:
        with suppress(RuntimeError, OSError, ValueError):
            table.checkout_latest()
            if table.count_rows(f"id = {rows['id'][0].as_py()}"):  # the commit succeeded, and a later step failed
                return 0
        raise


def insert(stored: "StoredTable", rows: pa.Table) -> None:
    """Insert the rows whose ids the table lacks, in one commit; existing rows are kept."""
    table = stored.writing
    builder = table.merge_insert("id").when_not_matched_insert_all()
    commit(stored, lambda: builder.execute(aligned(rows, table.schema)), _not_written(table, rows))


def upsert(stored: "StoredTable", rows: pa.Table, where: str | None = None) -> "MergeResult":
    """Insert or replace `rows` by id in one commit; columns that `rows` lacks become null.

    An existing row is replaced only if it satisfies `where` when the commit is made; its columns are named `target.<column>`.
    """
    table = stored.writing
    builder = table.merge_insert("id").when_matched_update_all(where=where).when_not_matched_insert_all()
    return commit(stored, lambda: builder.execute(aligned(rows, table.schema)), _not_written(table, rows))


def aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return `rows` with exactly the columns of `schema`; missing ones are null."""
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise StoreError(f"The table has no column {min(unknown)!r} any more; nothing was written, run the command again.")
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def change(stored: "StoredTable", rows: pa.Table, where: Callable[[str], str]) -> int:
    """Set columns of the rows whose id is in `rows`, if `where` holds, in one commit. Returns how many rows were changed.

    A few rows are read whole, by the index on `id`, and replaced; rows that another writer changes meanwhile are checked once more.
    To set single columns LanceDB reads the whole table, and its indices lose the whole fragment that holds a row. `rows` has `id`, the
    columns to set, and an `updated_at` that no other writer uses; `where` returns the condition, given the prefix of its column names.
    """
    table = stored.writing
    failure = _not_written(table, rows)
    if rows.num_rows > _MAX_ROWS_READ_WHOLE:
        return commit(stored, lambda: _change_columns(table, rows, where), failure)
    to_do = f"{ids_in(rows['id'].to_pylist())} AND {where('')} AND NOT {unchanged(rows['updated_at'].to_pylist(), '')}"

    def change_whole() -> tuple[int, int]:
        whole = fetch(scan(table).where(to_do))
        return whole.num_rows, _replace_rows(table, whole, rows) if whole.num_rows else 0

    changed = 0
    while True:
        found, done = commit(stored, change_whole, failure)
        changed += done
        if done == found:
            return changed


def _change_columns(table: "Table", rows: pa.Table, where: Callable[[str], str]) -> int:
    schema = pa.schema([field for field in table.schema if field.name in rows.column_names])
    # LanceDB 0.40 panics on a condition on some columns of rows that its index on `id` holds.
    builder = table.merge_insert("id").when_matched_update_all(where=where("target.")).use_index(False)
    return builder.execute(aligned(rows, schema)).num_updated_rows


def _replace_rows(table: "Table", whole: pa.Table, rows: pa.Table) -> int:
    """Set the columns of `rows` in rows that were read whole, unless one was changed since. Returns how many rows were changed."""
    builder = table.merge_insert("id").when_matched_update_all(where=unchanged(whole["updated_at"].to_pylist()))
    changed = aligned(with_columns(whole, rows), table.schema)
    return builder.execute(changed, on_bad_vectors="null").num_updated_rows  # a column that is being filled has no vector yet


def with_columns(whole: pa.Table, rows: pa.Table) -> pa.Table:
    """Return `whole` with the columns of `rows` in place of its own, matched by id."""
    places = {number: place for place, number in enumerate(rows["id"].to_pylist())}
    set_now = rows.take(pa.array([places[number] for number in whole["id"].to_pylist()], pa.int64()))
    for name in rows.column_names:
        place = whole.schema.get_field_index(name)
        field = whole.schema.field(place)
        whole = whole.set_column(place, field, set_now[name].cast(field.type))
    return whole


def change_together(stored: "StoredTable", rows: pa.Table, read_at: Sequence[datetime]) -> bool:
    """Set columns of a few rows like `change`: of all rows, or of none if one has another `updated_at` than in `read_at`."""
    table, numbers = stored.writing, rows["id"].to_pylist()
    as_read = dict(zip(numbers, (moment.astimezone(UTC) for moment in read_at), strict=True))

    def attempt() -> bool:
        whole = fetch(scan(table).where(ids_in(numbers)))
        if dict(zip(whole["id"].to_pylist(), whole["updated_at"].to_pylist(), strict=True)) != as_read:
            return False
        changed = _replace_rows(table, whole, rows)
        if changed and changed < len(numbers):
            # Another writer changed one row during this commit: restore the others.
            now = pa.array([datetime.now(UTC)] * whole.num_rows, whole["updated_at"].type)
            back = whole.set_column(whole.schema.get_field_index("updated_at"), "updated_at", now)
            _replace_rows(table, with_columns(whole, rows), back)
        return changed == len(numbers)

    return commit(stored, attempt, _not_written(table, rows))


def unchanged(updated_at: Iterable[datetime], row: str = "target.") -> str:
    """Return the condition that `updated_at` is one of these times. Every write sets a new one.

    `row` is the prefix of the column name: empty in a deletion.
    """
    moments = ", ".join(sorted(set(map(timestamp, updated_at))))
    return f"{row}updated_at IN ({moments})" if moments else "false"


def _not_written(table: "Table", rows: pa.Table) -> str:
    return f"{rows.num_rows} row(s) of {table.name!r} could not be written"


def ids_in(ids: Iterable[int]) -> str:
    """Return the condition that a row has one of these ids."""
    listed = ", ".join(map(str, ids))
    return f"id IN ({listed})" if listed else "false"


def timestamp(moment: datetime) -> str:
    """Return a time as an SQL literal."""
    return f"timestamp '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"


def quoted(values: Sequence[str]) -> str:
    """Return an SQL list of string literals for a Lance filter: `('a', 'it''s')`."""
    return "(" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + ")"
