"""The `memories` table: what is remembered, one row a memory, one commit a change."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.errors import InvalidInputError, NotFoundError
from memory_assets.models import Memory, State, TextVectors
from memory_assets.stores import lance
from memory_assets.stores.embedding_columns import EmbeddingColumns
from memory_assets.stores.feed import Changes, Known, Position, Rows, read_changes
from memory_assets.stores.filters import Filters
from memory_assets.stores.rows import COLUMNS, SCHEMA, from_arrow, to_arrow
from memory_assets.stores.search import DiskSearch, MemorySearch
from memory_assets.stores.tables import StoredTable, TableDefinition, explained, reading
from memory_assets.stores.upkeep import Upkeep
from memory_assets.stores.wishes import WISH_SQL

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt
    from lancedb.table import Table

    from memory_assets.stores.resident.memories import Allowance, ResidentMemories

SUPERSEDABLE = (State.ACTIVE, State.ARCHIVED, State.VANISHED)
"""States of a memory whose source says something else now; what a person forgot stays forgotten."""
_AT_ONCE = 200
_NONE_NEAR = pa.table(
    {"id": pa.array([], pa.int64()), "similarity": pa.array([], pa.float32()), "_rowid": pa.array([], pa.uint64())}
)


def _indices() -> dict[str, Any]:
    from lancedb.index import FTS, Bitmap, BTree

    return {
        "indexed_text": FTS(stem=True, remove_stop_words=True, ascii_folding=True, with_position=False),
        "id": BTree(),
        "state": Bitmap(),
        "source_key": BTree(),
        "created_at": BTree(),
        "updated_at": BTree(),
    }


DEFINITION = TableDefinition("memories", SCHEMA, additions={"wish": WISH_SQL}, indices=_indices)


class MemoryStore:
    """One tenant's memories. Cheap to keep open; sees what other processes commit.

    Reading creates nothing: a store that does not exist is empty. The first writing makes it.
    """

    def __init__(self, uri: str, freshness: float = 0.0, data_dir: "Path | None" = None) -> None:
        """Name the store; nothing is opened yet. `freshness` and `data_dir` are those of `StoredTable`."""
        self.uri = uri
        self.stored = StoredTable(uri, DEFINITION, freshness, data_dir)
        self.columns = EmbeddingColumns(self.stored)
        self.upkeep = Upkeep(self.stored, lambda: self.columns.live)
        self._disk = DiskSearch(self.stored)
        self._resident: ResidentMemories | None = None

    def prepare(self) -> None:
        """Make the store now, or bring it up to date, instead of with the first writing.

        Raises:
            StoreError: that cannot be done.
        """
        _ = self.stored.writing

    @property
    def table(self) -> "Table":
        """The table as it is now, to be read.

        Raises:
            StoreError: it cannot be read.
        """
        return self.stored.reading

    @property
    def exists(self) -> bool:
        """Whether the store was ever made."""
        return self.stored.exists

    @property
    def version(self) -> int:
        """LanceDB's version of the table: it grows with every commit, whoever made it."""
        return self.table.version

    def keep_resident(self, allowance: "Allowance") -> None:
        """Answer searches from memory once `tend_resident` has loaded the table, as far as the allowance goes."""
        from memory_assets.stores.resident.memories import ResidentMemories

        self._resident = ResidentMemories(self.stored, allowance)

    @property
    def is_resident(self) -> bool:
        """Whether searches are answered from memory."""
        return self._resident is not None and self._resident.loaded

    @property
    def needs_tending(self) -> bool:
        """Whether `tend_resident` has something to do."""
        return self._resident is not None and self._resident.needs_tending

    def tend_resident(self) -> None:
        """Load what is kept in memory, or put it in order; takes its time, so do it in the background after commits."""
        if self._resident is not None:
            self._resident.tend(self.columns.live)

    def _changed(self) -> None:
        """After a commit that was no append: the next reading sees it, also where it was made through an earlier handle."""
        if self._resident:
            self._resident.changed()
        with suppress(RuntimeError, OSError):
            self.table.checkout_latest()

    # Writing

    def add(self, memories: Sequence[Memory], embeddings: "TextVectors | npt.NDArray[np.float32]", embedder: str) -> int:
        """Append memories whose ids are new, from `new_id`, in one commit that never waits for other writers.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        rows = self.columns.fill(to_arrow(memories), embeddings, embedder)
        version = lance.append(self.stored.writing, rows)
        if self._resident:
            self._resident.appended(rows, rows.column_names[-1], version)
        return version

    def insert(self, memories: Sequence[Memory], embeddings: "TextVectors | npt.NDArray[np.float32]", embedder: str) -> int:
        """Insert memories whose ids are not taken, in one commit; what has one of the ids already stays as it is.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        version = lance.insert(self.stored.writing, self.columns.fill(to_arrow(memories), embeddings, embedder))
        self._changed()
        return version

    def put(
        self,
        memories: Sequence[Memory],
        embeddings: "TextVectors | npt.NDArray[np.float32]",
        embedder: str,
        read_at: Sequence[datetime] | None = None,
    ) -> int:
        """Insert or replace memories with their embeddings, for `columns.fill`, in one commit.

        With `read_at`, the `updated_at` with which those that exist were read, only they are replaced that nobody changed since.
        What is replaced by an older `updated_at` than the present is not noticed by readers of the change feed.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        if not memories:
            return self.version
        rows = self.columns.fill(to_arrow(memories), embeddings, embedder)
        guard = None if read_at is None else lance.unchanged(read_at)
        version = lance.upsert(self.stored.writing, rows, guard).version
        self._changed()
        return version

    def insert_superseding(self, rows: pa.Table, replaced: Mapping[int, int]) -> int:
        """Insert `rows`, made by `columns.fill`, and in the same commit mark what they replace as superseded.

        Args:
            rows: the new memories; those whose ids are taken stay as they are.
            replaced: id of an older memory -> id of the new one that says what it said. An older memory that somebody forgot,
                or changes meanwhile, stays as it is.

        Returns:
            How many were superseded.

        Raises:
            StoreError: the commit failed; nothing was written.
        """
        table = self.stored.writing
        rows = lance.aligned(rows, table.schema)
        where = f"id IN ({', '.join(map(str, replaced))}) AND state IN {lance.quoted(SUPERSEDABLE)}" if replaced else "false"
        old = self.scan(rows.column_names, where)
        guard = lance.unchanged(old["updated_at"].to_pylist())
        changes: dict[str, list[Any]] = {
            "state": [State.SUPERSEDED] * old.num_rows,
            "superseded_by": [replaced[number] for number in old["id"].to_pylist()],
            "updated_at": [datetime.now(UTC)] * old.num_rows,
        }
        for name, values in changes.items():
            place = old.schema.get_field_index(name)
            old = old.set_column(place, name, pa.array(values, old.schema.field(name).type))
        written = lance.upsert(table, pa.concat_tables([rows, lance.aligned(old, rows.schema)]), guard)
        self._changed()
        return written.num_updated_rows

    def update(self, rows: pa.Table, read_at: Sequence[datetime]) -> int:
        """Set some columns of existing memories in one commit: `rows` holds `id`, `updated_at` and the columns to set.

        Args:
            rows: what to set, computed from the memories as they were read.
            read_at: their `updated_at` as it was read then. A memory that somebody changed since stays as it is.

        Returns:
            How many were set.

        Raises:
            StoreError: the commit failed; nothing was written.
        """
        if not rows.num_rows:
            return 0
        changed = lance.change(self.stored.writing, rows, partial(lance.unchanged, read_at))
        self._changed()
        return changed

    def transition(
        self,
        ids: Sequence[int],
        sources: Collection[State],
        target: State,
        *,
        superseded_by: Sequence[int | None] | None = None,
        read_at: Sequence[datetime] | None = None,
    ) -> list[int]:
        """Move memories from one of some states into another, in one commit: the only way in which a state changes.

        Args:
            ids: the memories.
            sources: only those are moved that are in one of these states when it is committed.
            target: the state that they get.
            superseded_by: what superseded each of them; left as it is unless given.
            read_at: their `updated_at` as it was read, where more than the state decided; who was changed since is not moved.

        Returns:
            The ids of those that were moved.

        Raises:
            StoreError: the commit failed; nothing was moved.
        """
        if not ids or not self.exists:
            return []
        now = datetime.now(UTC)
        columns: dict[str, Sequence[Any]] = {"id": list(ids), "state": [target] * len(ids), "updated_at": [now] * len(ids)}
        if superseded_by is not None:
            columns["superseded_by"] = superseded_by
        rows = pa.table(columns, schema=pa.schema([SCHEMA.field(name) for name in columns]))

        def where(row: str) -> str:
            as_read = "" if read_at is None else f" AND {lance.unchanged(read_at, row)}"
            return f"{row}state IN {lance.quoted(tuple(sources))}{as_read}"

        moved = lance.change(self.stored.writing, rows, where)
        self._changed()
        if moved in (0, len(ids)):
            return list(ids) if moved else []
        listed = f"id IN ({', '.join(map(str, ids))})"
        return self.scan(("id",), f"{listed} AND {lance.unchanged([now], '')}")["id"].to_pylist()

    def delete(self, ids: Sequence[int], read_at: Sequence[datetime] | None = None) -> None:
        """Remove memories for good, in one commit; unknown ids are passed over.

        Args:
            ids: the memories.
            read_at: their `updated_at` as it was read; who was changed since is not removed.

        Raises:
            StoreError: the commit failed; nothing was removed.
        """
        if not ids or not self.exists:
            return
        table = self.stored.writing
        where = f"id IN ({', '.join(str(int(number)) for number in ids)})"
        if read_at is not None:
            where = f"{where} AND {lance.unchanged(read_at, '')}"
        lance.commit(table, lambda: table.delete(where), f"{len(ids)} memories in {self.uri} could not be deleted")
        self._changed()

    # Reading

    @reading
    def __len__(self) -> int:
        return self.table.count_rows()

    @reading
    def count(self, filters: Filters) -> int:
        """How many memories pass the filters."""
        return self.table.count_rows(filters.sql())

    def get(self, ids: Iterable[int]) -> list[Memory]:
        """The memories with these ids, in the order of the ids; unknown ones are left out."""
        wanted = list(ids)
        if not wanted:
            return []
        rows = self.scan(COLUMNS, f"id IN ({', '.join(str(int(number)) for number in wanted)})")
        found = {memory.id: memory for memory in from_arrow(rows)}
        return [found[number] for number in wanted if number in found]

    @reading
    def take(self, ids: Sequence[int], row_ids: Sequence[int]) -> dict[int, Memory]:
        """Memories by id, read from where a search that has just run saw them: half the time of `get`.

        Args:
            ids: the memories.
            row_ids: LanceDB's `_rowid` of each, -1 where it is not known. A row that was moved since is looked up by its id.
        """
        rows = self._search().take(ids, row_ids, COLUMNS)
        wanted = set(ids)
        found = {memory.id: memory for memory in from_arrow(rows) if memory.id in wanted}
        missing = wanted - found.keys()
        return found | {memory.id: memory for memory in self.get(missing)} if missing else found

    def resolve(self, reference: str) -> Memory:
        """The memory that `reference` names: an id, or the first digits of exactly one.

        Raises:
            InvalidInputError: not digits, or the digits fit several memories.
            NotFoundError: no memory fits.
        """
        if not re.fullmatch("[0-9]{1,16}", reference):
            raise InvalidInputError(f"{reference!r} is not a memory's id; give its digits as `memory recent` prints them.")
        exact = self.get([int(reference)])
        if exact:
            return exact[0]
        spans = [
            f"(id >= {int(reference) * 10**zeros} AND id < {(int(reference) + 1) * 10**zeros})"
            for zeros in range(1, 17 - len(reference))
        ]
        rows = self.scan(COLUMNS, " OR ".join(spans), limit=3) if spans else to_arrow([])
        if rows.num_rows == 1:
            return from_arrow(rows)[0]
        if rows.num_rows:
            raise InvalidInputError(f"{reference} is the beginning of several memories' ids; give more digits.")
        raise NotFoundError(f"There is no memory {reference}; `memory recent` lists the newest.")

    @reading
    def recent(self, limit: int, filters: Filters) -> list[Memory]:
        """The newest memories by creation, newest first."""
        return from_arrow(self._search().newest(limit, filters, COLUMNS))

    @reading
    def scan(self, columns: Sequence[str], where: str = "true", limit: int | None = None, *, row_ids: bool = False) -> pa.Table:
        """The given columns of all rows that pass `where`, with LanceDB's `_rowid` if asked for."""
        query = self.table.search().where(where).select(list(columns)).with_row_id(row_ids)
        return query.limit(limit).to_arrow() if limit else query.to_arrow()

    def batches(self) -> Iterator[list[Memory]]:
        """All memories, in no order, a few at a time: what is in memory does not grow with the store.

        Raises:
            StoreError: the store cannot be read; the memories given before are whole.
        """
        with explained(self.stored):
            for batch in self.table.search().select(list(COLUMNS)).to_batches(_AT_ONCE):
                yield from_arrow(pa.Table.from_batches([batch]))

    @reading
    def changes(self, since: Position | None, known: Known, columns: Sequence[str]) -> Changes:
        """What changed since a position, as `read_changes` says; read on disk, rows come with LanceDB's `_rowid`."""
        held = self._resident.search() if self._resident else None
        return read_changes(held if held is not None else Rows(self.table, row_ids=True), since, known, columns)

    @reading
    def last_updated(self) -> int:
        """When a memory was written last, in microseconds since 1970; 0 where there is none. Compacting leaves it as it is."""
        return Rows(self.table).last_updated()

    @reading
    def nearest(
        self,
        vector: "npt.NDArray[np.float32]",
        embedder: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """The memories nearest to a unit vector: exact in a small table, by the vector index in a large one.

        Args:
            vector: what they are compared with, shape (dimension,).
            embedder: name of what made it.
            limit: at most so many.
            filters: what to search among.
            columns: to be read beside the ids.

        Returns:
            Columns `id`, `similarity` (cosine, -1 to 1), `_rowid` and those asked for, best first.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        column = self.columns.searched(embedder, len(vector))
        if column is None:
            return _NONE_NEAR
        return self._search(column).nearest(vector, column, limit, filters, columns)

    @property
    @reading
    def knows_wishes(self) -> bool:
        """Whether it is known which memories are wishes; not yet where nobody has written since an earlier release."""
        return "wish" in self.columns.schema.names

    @reading
    def alike(
        self,
        meaning: "npt.NDArray[np.float32]",
        limit: int,
        filters: Filters,
        least: float = -math.inf,
        crowded: float = math.inf,
    ) -> pa.Table:
        """The memories that say something near to what a unit vector stands for.

        They are looked for among the vectors that searches ask, and measured by those of what they say.

        Args:
            meaning: shape (dimension,), of the embedder that made the live vectors.
            limit: at most so many.
            filters: what to look among.
            least: the cosine above which a memory counts.
            crowded: a cosine beyond which so many may lie that they hide the others; at most `limit` of those below it are given too.

        Returns:
            Columns `id`, `similarity` (cosine) and `_rowid`, best first; empty where the vectors of what they say are not made yet.
        """
        searched, measured = self.columns.live, self.columns.meaning
        if searched is None or measured is None:
            return _NONE_NEAR
        found = self._search(searched).alike(meaning, (searched, measured), limit, filters, least, crowded)
        cosines = found["similarity"].to_numpy()
        best = np.argsort(-cosines, kind="stable")[: np.count_nonzero(cosines > least)]
        below = np.cumsum(cosines[best] < crowded)
        return found.take(best[(np.arange(len(best)) < limit) | ((below > 0) & (below <= limit))])

    @reading
    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str] = ()) -> pa.Table:
        """The memories that match a text best by BM25.

        Returns:
            Columns `id`, `score` (0 upwards), `_rowid` and those asked for, best first.
        """
        return self._search().matching(text, limit, filters, columns)

    def _search(self, column: str | None = None) -> MemorySearch:
        """What answers a search now; `column` is the vector column that it asks."""
        resident = self._resident.search(column) if self._resident else None
        return self._disk if resident is None else resident
