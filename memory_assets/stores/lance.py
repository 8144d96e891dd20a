"""Commits to LanceDB tables: whole or not at all, and tried again where other writers come first.

Every write is one commit, so a table is always whole: if it raises StoreError, nothing was written. Facts of the whole table lie
in the metadata of its `id` column, because Lance commits them atomically.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from memory_assets.errors import MemoryAssetsError, StoreError, first_line
from memory_assets.stores.locks import bring_up, refuse_deleted, shared_lock

if TYPE_CHECKING:
    from lancedb._lancedb import MergeResult
    from lancedb.table import Table

_PATIENCE_SECONDS = 60.0
"""How long a commit is tried while other writers come first."""
_LONGEST_PAUSE_SECONDS = 0.25
_FEW = 2_000
"""Rows up to which it is cheaper to read and write them whole than to read a large table."""
_MENDS = {
    "Read-only file system": "its folder can only be read, so write where it is mounted for writing",
    "No space left on device": "the disk is full, so make room on it",
    "Disk quota exceeded": "the disk quota is used up, so make room",
    "Permission denied": "give yourself write access to it",
    "/_indices/": "an index is lost, so run `memory doctor --mend` first",
}
"""What an error says -> what a person can do."""

Result = TypeVar("Result")


def facts_of(schema: pa.Schema) -> dict[str, str]:
    """The table-wide facts: field metadata of the `id` column."""
    metadata = schema.field("id").metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def set_facts(table: "Table", changes: Mapping[str, str | None], column: str = "id") -> None:
    """Change table-wide facts, or those of another column, in one commit; None removes one."""
    change = {"path": column, "metadata": dict(changes)}
    commit(table, lambda: table.update_field_metadata(change), f"The facts of {table.name!r} could not be set")


def ensure_indices(table: "Table", configs: Mapping[str, Any], *, anew: bool = False) -> None:
    """Create the indices that are missing, or all of them anew; `configs` maps column to index configuration."""

    def present() -> set[tuple[str, ...]]:
        return {tuple(index.columns) for index in table.list_indices()} if configs and not anew else set()

    there = present()
    for column in (each for each in configs if (each,) not in there):
        ensure(
            table,
            lambda column=column: (column,) in present(),
            partial(table.create_index, column, config=configs[column], replace=True),
            f"The index on {column!r} of {table.name!r} cannot be built",
        )


def ensure(table: "Table", is_done: Callable[[], bool], work: Callable[[], object], failure: str) -> None:
    """Do `work`, which is one commit, unless it is done already; several processes may want it at once."""

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
    """Do `work`, which is one commit; do it again if other writers were faster too often for Lance's own retries.

    `work` fails without a trace, or is done. The table is brought to its newest version before each try. `failure` begins the sentence
    of the StoreError.
    """
    deadline = monotonic() + _PATIENCE_SECONDS
    renew: Callable[[], object] = partial(bring_up, table)
    while True:
        try:
            with shared_lock(table):
                renew()
                return work()
        except (RuntimeError, OSError, ValueError) as error:
            refuse_deleted(table)
            if not is_conflict(error) or monotonic() > deadline:
                advice = mend(error) or "run the command again"
                raise StoreError(f"{failure} ({first_line(error)}); nothing was written: {advice}.") from error
        renew = table.checkout_latest
        sleep(random.uniform(0.0, _LONGEST_PAUSE_SECONDS))  # noqa: S311


def mend(error: BaseException) -> str | None:
    """What mends a failure, where the table's rows are not its cause; None where they may be."""
    return next((advice for said, advice in _MENDS.items() if said in str(error)), None)


def is_lances(error: BaseException) -> bool:
    """Whether LanceDB raised this, a panic of its Rust code included, whose class cannot be imported."""
    if isinstance(error, MemoryAssetsError):
        return False
    return isinstance(error, RuntimeError | OSError) or type(error).__name__ == "RustPanic" or "Lance" in str(error)


def is_conflict(error: BaseException) -> bool:
    """Whether a commit failed only because other writers were faster."""
    return any(words in str(error) for words in ("ommit conflict", "concurrent writers", "concurrent transaction"))


def append(table: "Table", rows: pa.Table) -> int:
    """Add `rows`, whose ids are new, in one commit. Returns the version that it made; 0 if that is not known."""
    try:
        return commit(table, lambda: table.add(aligned(rows, table.schema)).version, _not_written(table, rows))
    except StoreError:
        refuse_deleted(table)
        with suppress(RuntimeError, OSError, ValueError):
            table.checkout_latest()
            if table.count_rows(f"id = {rows['id'][0].as_py()}"):  # what failed came after the commit
                return 0
        raise


def insert(table: "Table", rows: pa.Table) -> None:
    """Insert the rows whose ids the table lacks, in one commit; those that it has stay as they are."""
    builder = table.merge_insert("id").when_not_matched_insert_all()
    commit(table, lambda: builder.execute(aligned(rows, table.schema)), _not_written(table, rows))


def upsert(table: "Table", rows: pa.Table, where: str | None = None) -> "MergeResult":
    """Insert or replace `rows` by id in one commit; columns that the table has and `rows` lacks become null.

    Existing rows are replaced only if `where` holds of them, as `target.<column>`, when it is committed.
    """
    builder = table.merge_insert("id").when_matched_update_all(where=where).when_not_matched_insert_all()
    return commit(table, lambda: builder.execute(aligned(rows, table.schema)), _not_written(table, rows))


def aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with exactly the columns of `schema`; those it lacks are null."""
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise StoreError(f"The table has no column {min(unknown)!r} any more; nothing was written, run the command again.")
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def change(table: "Table", rows: pa.Table, where: Callable[[str], str]) -> int:
    """Set columns of the rows whose id is in `rows`, if `where` holds, in one commit. Returns how many rows were changed.

    A few rows are read whole, by the index on `id`, and replaced unless somebody changes them meanwhile; those are looked at once more.
    To set columns alone LanceDB reads the whole table, and its indices lose the whole fragment that holds a row.
    `rows` holds `id`, the columns to set, and `updated_at`, which nobody else gives to any of them; `where` makes the condition of
    what stands before a column's name.
    """
    failure = _not_written(table, rows)
    if rows.num_rows > _FEW:
        return commit(table, lambda: _change_columns(table, rows, where), failure)
    to_do = f"{ids_in(rows['id'].to_pylist())} AND {where('')} AND NOT {unchanged(rows['updated_at'].to_pylist(), '')}"

    def change_whole() -> tuple[int, int]:
        whole = table.search().where(to_do).to_arrow()
        return whole.num_rows, _replace_whole(table, whole, rows) if whole.num_rows else 0

    changed = 0
    while True:
        found, done = commit(table, change_whole, failure)
        changed += done
        if done == found:
            return changed


def _change_columns(table: "Table", rows: pa.Table, where: Callable[[str], str]) -> int:
    schema = pa.schema([field for field in table.schema if field.name in rows.column_names])
    # LanceDB 0.40 panics where a condition meets some columns of rows that its index on `id` holds.
    builder = table.merge_insert("id").when_matched_update_all(where=where("target.")).use_index(False)
    return builder.execute(aligned(rows, schema)).num_updated_rows


def _replace_whole(table: "Table", whole: pa.Table, rows: pa.Table) -> int:
    """Put the columns of `rows` into rows that were read whole, unless one was changed since. Returns how many rows were changed."""
    builder = table.merge_insert("id").when_matched_update_all(where=unchanged(whole["updated_at"].to_pylist()))
    changed = aligned(with_columns(whole, rows), table.schema)
    return builder.execute(changed, on_bad_vectors="null").num_updated_rows  # a column that is being filled has no vector yet


def with_columns(whole: pa.Table, rows: pa.Table) -> pa.Table:
    """Whole rows with the columns of `rows` in the place of their own, by id."""
    places = {number: place for place, number in enumerate(rows["id"].to_pylist())}
    set_now = rows.take(pa.array([places[number] for number in whole["id"].to_pylist()], pa.int64()))
    for name in rows.column_names:
        place = whole.schema.get_field_index(name)
        field = whole.schema.field(place)
        whole = whole.set_column(place, field, set_now[name].cast(field.type))
    return whole


def change_together(table: "Table", rows: pa.Table, read_at: Sequence[datetime]) -> bool:
    """Set columns of a few rows, as `change` does: of all, or of none if one has another `updated_at` than `read_at` says."""
    numbers = rows["id"].to_pylist()
    as_read = dict(zip(numbers, (moment.astimezone(UTC) for moment in read_at), strict=True))

    def attempt() -> bool:
        whole = table.search().where(ids_in(numbers)).to_arrow()
        if dict(zip(whole["id"].to_pylist(), whole["updated_at"].to_pylist(), strict=True)) != as_read:
            return False
        changed = _replace_whole(table, whole, rows)
        if changed and changed < len(numbers):
            # Another writer changed one of them within this commit: the others go back to what they were.
            now = pa.array([datetime.now(UTC)] * whole.num_rows, whole["updated_at"].type)
            back = whole.set_column(whole.schema.get_field_index("updated_at"), "updated_at", now)
            _replace_whole(table, with_columns(whole, rows), back)
        return changed == len(numbers)

    return commit(table, attempt, _not_written(table, rows))


def unchanged(updated_at: Iterable[datetime], row: str = "target.") -> str:
    """The condition that rows have one of these `updated_at`, of which every writer gives a new one.

    `row` stands before a column's name: nothing in a deletion.
    """
    moments = ", ".join(sorted(set(map(timestamp, updated_at))))
    return f"{row}updated_at IN ({moments})" if moments else "false"


def _not_written(table: "Table", rows: pa.Table) -> str:
    return f"{rows.num_rows} row(s) of {table.name!r} could not be written"


def ids_in(ids: Iterable[int]) -> str:
    """The condition that a row has one of these ids."""
    listed = ", ".join(map(str, ids))
    return f"id IN ({listed})" if listed else "false"


def timestamp(moment: datetime) -> str:
    """A moment as an SQL literal."""
    return f"timestamp '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"


def quoted(values: Sequence[str]) -> str:
    """SQL list of string literals for a Lance filter: `('a', 'it''s')`."""
    return "(" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + ")"
