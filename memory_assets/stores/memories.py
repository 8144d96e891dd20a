"""The `memories` table: one row a memory, one commit a change."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Floats
from memory_assets.errors import InvalidInputError, NotFoundError, StoreError
from memory_assets.models import Memory, State, TextVectors
from memory_assets.stores import lance
from memory_assets.stores.deferred import import_lancedb
from memory_assets.stores.embedding_columns import EmbeddingColumns
from memory_assets.stores.feed import Changes, Known, Position, read_changes
from memory_assets.stores.filters import Filters
from memory_assets.stores.rows import COLUMNS, SCHEMA, from_arrow, rows_of, to_arrow
from memory_assets.stores.search import DiskSearch
from memory_assets.stores.tables import StoredTable, TableDefinition, TableStore, reading
from memory_assets.stores.upkeep import Upkeep

if TYPE_CHECKING:
    from pathlib import Path

    from lancedb.table import Table

    from memory_assets.stores.location import Location
    from memory_assets.stores.resident.memories import Allowance, ResidentMemories
    from memory_assets.stores.resident.snapshot import Snapshot

SUPERSEDABLE = (State.ACTIVE, State.ARCHIVED, State.VANISHED)
"""States that a new version can supersede. A memory that a person forgot stays forgotten."""
_BATCH_ROWS = 200
_MIN_MEASURED = 64
"""Fewest candidates whose meanings are compared."""
_RECENT = timedelta(days=2)
"""Maximum age of memories that are checked for a missing vector."""
_NONE_NEAR = pa.table(
    {"id": pa.array([], pa.int64()), "similarity": pa.array([], pa.float32()), "_rowid": pa.array([], pa.uint64())}
)


def _indices() -> dict[str, Any]:
    index = import_lancedb().index
    return {
        "indexed_text": index.FTS(stem=True, remove_stop_words=True, ascii_folding=True, with_position=False),
        "id": index.BTree(),
        "state": index.Bitmap(),
        "source_key": index.BTree(),
        "created_at": index.BTree(),
        "updated_at": index.BTree(),
    }


DEFINITION = TableDefinition("memories", SCHEMA, _indices)


class MemoryStore(TableStore):
    """One tenant's memories. Cheap to keep open; sees commits of other processes.

    Every write is one commit; after StoreError, nothing was written. Writes that take `read_at`, the `updated_at` of the memories when they
    were read, skip memories that changed since.
    """

    def __init__(self, place: "str | Location", freshness: float = 0.0, data_dir: "Path | None" = None) -> None:
        super().__init__(StoredTable(place, DEFINITION, freshness, data_dir))
        self.columns = columns = EmbeddingColumns(self.stored)
        self.upkeep = Upkeep(self.stored, lambda: columns.live)
        self._disk = DiskSearch(self.stored)
        self._resident: ResidentMemories | None = None
        self._missing: tuple[int, str, int] | None = None
        """A version, its live column, and how many active memories lack a vector there."""

    @property
    def uri(self) -> str:
        return self.stored.uri

    @property
    def table(self) -> "Table":
        return self.stored.reading

    @property
    def exists(self) -> bool:
        return self.stored.exists

    def keep_resident(self, allowance: "Allowance", folder: "Path") -> None:
        """Answer searches from memory once `maintain_resident` has copied the table to `folder`, if the allowance permits it."""
        from memory_assets.stores.resident.memories import ResidentMemories

        self._resident = ResidentMemories(self.stored, allowance, folder)

    @property
    def is_resident(self) -> bool:
        return self._resident is not None and self._resident.loaded

    @property
    def needs_maintenance(self) -> bool:
        return self._resident is not None and self._resident.needs_maintenance

    def maintain_resident(self) -> None:
        """Copy the table or new rows to memory, or use another process's copy. Slow: call it in the background after commits."""
        if self._resident is not None:
            was_resident = self.is_resident
            self._resident.maintain(self.columns.live)
            if self.is_resident and not was_resident:
                self.stored.forget_files()  # searches no longer read them

    def ensure_version(self, version: int) -> None:
        """Make at least this version visible, which another process committed. In a folder it is visible anyway."""
        if self.stored.newest_version < version:
            self._invalidate()

    def _invalidate(self) -> None:
        """Make a commit that was no append visible to the next read."""
        if self._resident:
            self._resident.invalidate()
        with suppress(RuntimeError, OSError, StoreError):
            self.stored.look()

    # Writing

    def add(self, memories: Sequence[Memory], embeddings: TextVectors | Floats, embedder: str) -> None:
        """Append memories with new ids from `new_id`; the commit never waits for other writers."""
        rows, commit = self.columns.fill(to_arrow(memories), embeddings, embedder), partial(lance.append, self.stored)
        if self._resident:
            self._resident.append(rows, commit)
        else:
            commit(rows)

    def insert(self, memories: Sequence[Memory], embeddings: TextVectors | Floats, embedder: str) -> None:
        """Insert memories whose ids are not taken; existing memories are kept."""
        lance.insert(self.stored, self.columns.fill(to_arrow(memories), embeddings, embedder))
        self._invalidate()

    def put(
        self,
        memories: Sequence[Memory],
        embeddings: TextVectors | Floats,
        embedder: str,
        read_at: Sequence[datetime] | None = None,
    ) -> None:
        """Insert or replace memories with their embeddings, as `columns.fill` takes them.

        If one is replaced, all get the current time as their `updated_at`: readers of the change feed would miss an older one.
        """
        if not memories:
            return
        now = datetime.now(UTC)
        there = set(self.scan(("id",), lance.ids_in(memory.id for memory in memories))["id"].to_pylist())
        memories = [replace(memory, updated_at=now) for memory in memories] if there else memories
        rows = self.columns.fill(to_arrow(memories), embeddings, embedder)
        lance.upsert(self.stored, rows, None if read_at is None else lance.unchanged(read_at))
        self._invalidate()

    def insert_superseding(self, rows: pa.Table, replaced: Mapping[int, int], read_at: Sequence[datetime] | None = None) -> int:
        """Insert `rows` from `columns.fill` and mark the memories that they replace as superseded, in one commit; return how many.

        `replaced` maps the id of an older memory to the id of the new one. The older ones get the `updated_at` of `rows`: the change feed
        counts times. Memories that are forgotten, or that another writer changes meanwhile, are kept. `read_at` is the `updated_at` of the
        older memories, if the new ones are derived from them.
        """
        table = self.stored.writing
        with self.stored.explaining_errors():
            rows = lance.aligned(rows, table.schema)
        where = f"{lance.ids_in(replaced)} AND state IN {lance.quoted(SUPERSEDABLE)}"
        old = self.scan(rows.column_names, where if read_at is None else f"{where} AND {lance.unchanged(read_at, '')}")
        guard = lance.unchanged(old["updated_at"].to_pylist())
        ids = old["id"].to_pylist()
        new_ids = [replaced[number] for number in ids]
        written_at = [rows["updated_at"][0].as_py()] * len(ids)
        marked = rows_of(id=ids, state=[State.SUPERSEDED] * len(ids), superseded_by=new_ids, updated_at=written_at)
        old = lance.with_columns(old, marked)
        written = lance.upsert(self.stored, pa.concat_tables([rows, lance.aligned(old, rows.schema)]), guard)
        self._invalidate()
        return written.num_updated_rows

    def update(self, rows: pa.Table, read_at: Sequence[datetime]) -> int:
        """Set some columns of memories: `rows` has `id`, `updated_at` and the columns to set. Returns how many were set."""
        if not rows.num_rows:
            return 0
        changed = lance.change(self.stored, rows, partial(lance.unchanged, read_at))
        self._invalidate()
        return changed

    def change_together(self, rows: pa.Table, read_at: Sequence[datetime]) -> bool:
        """Update a few memories: all of them, or none if one changed since it was read. Returns whether they were set."""
        done = lance.change_together(self.stored, rows, read_at)
        self._invalidate()
        return done

    def transition(
        self,
        ids: Sequence[int],
        sources: Collection[State],
        target: State,
        *,
        superseded_by: Sequence[int | None] | None = None,
        read_at: Sequence[datetime] | None = None,
    ) -> list[int]:
        """Move memories from one of the states `sources` to `target`; all others stay. Returns the ids of the moved memories.

        `superseded_by` gives the new version of each memory; by default the column is not changed.
        """
        if not ids or not self.exists:
            return []
        rows = rows_of(id=ids, state=[target] * len(ids), **({"superseded_by": superseded_by} if superseded_by else {}))

        def where(row: str) -> str:
            as_read = "" if read_at is None else f" AND {lance.unchanged(read_at, row)}"
            return f"{row}state IN {lance.quoted(tuple(sources))}{as_read}"

        moved = lance.change(self.stored, rows, where)
        self._invalidate()
        if moved in (0, len(ids)):
            return list(ids) if moved else []
        now = rows["updated_at"].to_pylist()[:1]
        return self.scan(("id",), f"{lance.ids_in(ids)} AND {lance.unchanged(now, '')}")["id"].to_pylist()

    def delete(self, ids: Sequence[int], read_at: Sequence[datetime] | None = None) -> None:
        """Delete memories; unknown ids are ignored."""
        if not ids or not self.exists:
            return
        table = self.stored.writing
        where = lance.ids_in(ids) if read_at is None else f"{lance.ids_in(ids)} AND {lance.unchanged(read_at, '')}"
        lance.commit(self.stored, lambda: table.delete(where), f"{len(ids)} memories in {self.uri} could not be deleted")
        self._invalidate()

    # Reading

    @reading
    def count(self, filters: Filters) -> int:
        return self.table.count_rows(filters.sql())

    @reading
    def count_embedded(self) -> int:
        """Return how many active memories have a vector; those without one are counted once a version, because that reads the vectors."""
        version, live = self.stored.newest_version, self.columns.live
        if live is None:
            return 0
        if self._missing is None or self._missing[:2] != (version, live):
            self._missing = version, live, self.table.count_rows(f"{Filters().sql()} AND {live} IS NULL")
        return self.count(Filters()) - self._missing[2]

    @reading
    def count_missing(self) -> int:
        """Return how many recently written memories have no live vector, which a commit during a switch of embedders can leave."""
        since = lance.timestamp(datetime.now(UTC) - _RECENT)
        return self.table.count_rows(f"updated_at > {since} AND {self.columns.live} IS NULL") if self.columns.live else 0

    @reading
    def oldest(self) -> datetime | None:
        """Return when the oldest active memory was created."""
        order = [import_lancedb().query.ColumnOrdering(column_name="created_at")]
        query = lance.scan(self.table).where(Filters().sql()).select(["created_at"])
        found = lance.fetch(query.order_by(order).limit(1))["created_at"].to_pylist()
        return found[0].astimezone(UTC) if found else None

    def get(self, ids: Iterable[int]) -> list[Memory]:
        wanted = list(ids)
        if not wanted:
            return []
        found = {memory.id: memory for memory in from_arrow(self.scan(COLUMNS, lance.ids_in(wanted)))}
        return [found[number] for number in wanted if number in found]

    @reading
    def take(self, ids: Sequence[int], row_ids: Sequence[int]) -> dict[int, Memory]:
        """Return id -> memory, read at the `_rowid` that a search has just returned (-1 is unknown), in half the time of `get`."""
        rows = self._search().take(ids, row_ids, COLUMNS)
        wanted = set(ids)
        found = {memory.id: memory for memory in from_arrow(rows) if memory.id in wanted}
        missing = wanted - found.keys()
        return found | {memory.id: memory for memory in self.get(missing)} if missing else found

    def resolve(self, reference: str) -> Memory:
        """Return the memory that `reference` names: an id, or the first digits of exactly one id.

        Raises InvalidInputError if `reference` is not digits or fits several memories, NotFoundError if it fits none.
        """
        if not re.fullmatch("[0-9]{1,16}", reference):
            raise InvalidInputError(
                f"{reference!r} is not a memory's id; give its digits as `memory recent` prints them (a Tana node: `memory context ID`)."
            )
        exact = self.get([int(reference)])
        if exact:
            return exact[0]
        rows = self.scan(COLUMNS, f"CAST(id AS STRING) LIKE '{reference}%'", limit=3)
        if rows.num_rows == 1:
            return from_arrow(rows)[0]
        if rows.num_rows:
            raise InvalidInputError(f"{reference} is the beginning of several memories' ids; give more digits.")
        raise NotFoundError(f"There is no memory {reference}; look at the newest (recent).")

    @reading
    def recent(self, limit: int, filters: Filters) -> list[Memory]:
        """Return the newest memories by creation time, newest first."""
        return from_arrow(self._search().newest(limit, filters, COLUMNS))

    @reading
    def scan(self, columns: Sequence[str], where: str = "true", limit: int | None = None) -> pa.Table:
        """Return the given columns of all rows that satisfy `where`."""
        query = lance.scan(self.table).where(where).select(list(columns))
        return lance.fetch(query.limit(limit) if limit else query)

    def batches(self) -> Iterator[list[Memory]]:
        """Yield all memories in batches, in no order, so that memory use does not grow with the store."""
        with self.stored.explaining_errors():
            for batch in lance.scan(self.table).select(list(COLUMNS)).to_batches(_BATCH_ROWS):
                yield from_arrow(pa.Table.from_batches([batch]))

    @reading
    def changes(self, since: Position | None, known: Known, columns: Sequence[str]) -> Changes:
        """Return the changes since a position, as `read_changes` does; rows read from disk include LanceDB's `_rowid`."""
        return read_changes(self._search(), since, known, columns)

    @reading
    def nearest(self, vector: Floats, embedder: str, limit: int, filters: Filters, columns: Sequence[str] = ()) -> pa.Table:
        """Return at most `limit` memories nearest to a unit vector of `embedder`: exact in a small table, else by the vector index.

        The columns are `id`, `similarity` (cosine, -1 to 1), `_rowid` and those asked for, best first. StoreError if the live vectors are
        another embedder's.
        """
        column = self.columns.searched(embedder, len(vector))
        if column is None:
            return _NONE_NEAR
        return self._search(column).nearest(vector, column, limit, filters, columns)

    @reading
    def alike(
        self, meaning: Floats, limit: int, filters: Filters, least: float = -math.inf, crowded: float = math.inf
    ) -> pa.Table:
        """Return memories similar to a unit vector of the live embedder, found by the searched column and measured by `columns.meaning`.

        The columns are `id`, `similarity` (cosine) and `_rowid`, of at most `limit` memories above the cosine `least`, best first; empty
        until vectors of texts alone exist. Memories at or above the cosine `crowded` could hide all others, so at most `limit` of the
        others are added.
        """
        searched, measured = self.columns.live, self.columns.meaning
        if searched is None or measured is None:
            return _NONE_NEAR
        search, wanted = self._search(searched), max(_MIN_MEASURED, 4 * limit)
        while True:
            found = search.nearest(meaning, searched, wanted, filters, ())
            cosines = search.cosines(found, measured, meaning)
            hiding = np.count_nonzero(cosines >= crowded)
            is_enough = hiding <= wanted // 2 or np.count_nonzero(cosines > least) - hiding >= limit
            if is_enough or found.num_rows < wanted:
                break
            wanted *= 8
        found = found.set_column(found.schema.get_field_index("similarity"), "similarity", pa.array(cosines))
        best = np.argsort(-cosines, kind="stable")[: np.count_nonzero(cosines > least)]
        below = np.cumsum(cosines[best] < crowded)
        return found.take(best[(np.arange(len(best)) < limit) | ((below > 0) & (below <= limit))])

    @reading
    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str] = ()) -> pa.Table:
        """Return the memories that match a text best by BM25.

        The columns are `id`, `score` (0 upwards), `_rowid` and those asked for, best first.
        """
        return self._search().matching(text, limit, filters, columns)

    def _search(self, column: str | None = None) -> "DiskSearch | Snapshot":
        """Return the search to use now; `column` is the vector column that it needs."""
        resident = self._resident.search(column) if self._resident else None
        return self._disk if resident is None else resident


def follow_versions(number: int | None, newer: Callable[[int], int | None]) -> Iterator[int]:
    """Yield a memory's id and those of the versions that replaced it, as `newer` gives them; a circle ends where it began."""
    followed: set[int] = set()
    while number is not None and number not in followed:
        yield number
        followed.add(number)
        number = newer(number)
