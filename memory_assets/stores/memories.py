"""The `memories` table: what is remembered, one row a memory, one commit a change.

Each embedder has a vector column of its own, and a fact of the table names the live one. So rows of two embedders are never
compared, and a change of embedder is one commit after the new column has been filled.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import wraps
from hashlib import blake2b
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import pyarrow as pa

from memory_assets.errors import InvalidInputError, NotFoundError, StoreError
from memory_assets.models import Memory, State
from memory_assets.stores import lance, vector_index
from memory_assets.stores.feed import Changes, Known, Position, Rows, read_changes
from memory_assets.stores.filters import Filters
from memory_assets.stores.rows import COLUMNS, SCHEMA, from_arrow, to_arrow

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from lancedb.query import LanceQueryBuilder, LanceVectorQueryBuilder
    from lancedb.table import Table

    from memory_assets.stores.resident.memories import Allowance, ResidentMemories

Given = ParamSpec("Given")
Result = TypeVar("Result")

TABLE = "memories"
LIVE_COLUMN_FACT = "memory_assets:embedding_column"
EMBEDDER_FACT = "memory_assets:embedder"
MIGRATIONS: tuple[lance.Migration, ...] = ()
EVERYWHERE = (-math.inf, math.inf)
"""Bounds that pass every similarity."""
_VECTOR_PREFIX = "embedding_"
_KEPT = timedelta(minutes=10)
"""How long versions of the table are kept for readers that are in the midst of one; every compaction looks at all that are."""
_CACHE_BYTES = 16 << 20
_OPTIMIZE_AFTER = 50
"""Unmerged fragments after which compaction pays (LanceDB's own rule of thumb)."""


def _reading(read: "Callable[Concatenate[MemoryStore, Given], Result]") -> "Callable[Concatenate[MemoryStore, Given], Result]":
    """Turn what LanceDB raises where a table cannot be read into one sentence."""

    @wraps(read)
    def reading(self: "MemoryStore", *given: "Given.args", **named: "Given.kwargs") -> Result:
        try:
            return read(self, *given, **named)
        except (RuntimeError, OSError) as error:
            raise StoreError(
                f"The memories in {self.uri} cannot be read ({lance.first_line(error)}); run the command again, and if that does "
                "not help, restore them from a backup."
            ) from error

    return reading


class MemoryStore:
    """One tenant's memories. Cheap to keep open; sees what other processes commit."""

    def __init__(self, table: "Table", uri: str, freshness: float = 0.0) -> None:
        self.table = table
        self.uri = uri
        self._freshness = freshness
        self._in_use: tuple[float, str, int, str] | None = None
        """When an embedder was last found to be the live one, its name, its dimension and its column."""
        self._choosing = Lock()
        self._left_small = 0
        """Small fragments that the last `optimize` could not merge, because the vector index has them in several segments."""
        self._counted = -math.inf, 0
        """When the rows were last counted, and how many there were."""
        self._resident: ResidentMemories | None = None

    @classmethod
    def open(cls, uri: str, freshness: float = 0.0) -> "MemoryStore":
        """Open the store, creating and migrating it as needed; `freshness` is that of `lance.open_table`.

        Raises:
            StoreError: it cannot be read.
        """
        from lancedb.index import FTS, Bitmap, BTree

        table = lance.open_table(uri, TABLE, SCHEMA, MIGRATIONS, freshness)
        lance.ensure_indices(
            table,
            {
                "indexed_text": FTS(stem=True, remove_stop_words=True, ascii_folding=True, with_position=False),
                "id": BTree(),
                "state": Bitmap(),
                "source_key": BTree(),
                "updated_at": BTree(),
            },
        )
        return cls(table, uri, freshness)

    @property
    def version(self) -> int:
        """LanceDB's version of the table: it grows with every commit, whoever made it."""
        return self.table.version

    def keep_resident(self, allowance: "Allowance") -> None:
        """Answer searches from memory once `tend_resident` has loaded the table, as far as the allowance goes."""
        from memory_assets.stores.resident.memories import ResidentMemories

        self._resident = ResidentMemories(self.table, allowance, self._freshness)

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
        if self._resident is None:
            return
        loaded = self._resident.loaded
        self._resident.tend(self.live_column)
        if self._resident.loaded and not loaded:
            # What searches on disk have left in LanceDB's caches is not needed any more, nor what compaction would leave.
            self.table = lance.reopened(self.table, self.uri, self._freshness, _CACHE_BYTES)
            self._resident.use(self.table)

    def _changed(self) -> None:
        """After a commit that was no append: the next reading sees it, also where it was made through an earlier handle."""
        if self._resident:
            self._resident.changed()
        with suppress(RuntimeError, OSError):
            self.table.checkout_latest()

    # Embedders

    @property
    def live_column(self) -> str | None:
        """The vector column that is searched; None before the first embedding."""
        return lance.facts(self.table).get(LIVE_COLUMN_FACT)

    @property
    def embedder(self) -> str | None:
        """Name of the embedder that made the live vectors; None before the first embedding."""
        column = self.live_column
        return self.column_embedder(column) if column else None

    def column_embedder(self, column: str) -> str | None:
        """Name of the embedder that fills a vector column."""
        metadata = self.table.schema.field(column).metadata or {}
        name = metadata.get(EMBEDDER_FACT.encode())
        return name.decode() if name else None

    @_reading
    def use_embedder(self, name: str, dimension: int) -> str:
        """The live vector column, made for this embedder if there is none yet.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        if self._in_use and self._in_use[1:3] == (name, dimension) and monotonic() - self._in_use[0] < self._freshness:
            return self._in_use[3]
        live = self.live_column
        if live is None:
            with self._choosing:
                live = self.live_column or self._choose_embedder(name, dimension)
        made_by = self.column_embedder(live)
        size = self.table.schema.field(live).type.list_size
        if (made_by, size) != (name, dimension):
            raise StoreError(
                f"The memories in {self.uri} are embedded by {made_by} ({size} dimensions) and the settings choose {name} "
                f"({dimension}); run `memory backfill` to move them, or set MEMORY_EMBEDDER back."
            )
        self._in_use = monotonic(), name, dimension, live
        return live

    def _choose_embedder(self, name: str, dimension: int) -> str:
        column = self.add_embedding_column(name, dimension)
        lance.set_facts(self.table, {LIVE_COLUMN_FACT: column})
        return column

    def add_embedding_column(self, name: str, dimension: int) -> str:
        """The vector column of this embedder, added empty if the table lacks it."""
        column = _VECTOR_PREFIX + blake2b(f"{name}\0{dimension}".encode(), digest_size=4).hexdigest()
        field = pa.field(column, pa.list_(pa.float32(), dimension))
        failure = f"The vector column of {name} cannot be added to {self.uri}"
        lance.ensure(self.table, lambda: column in self.table.schema.names, lambda: self.table.add_columns(field), failure)
        made_by = {"path": column, "metadata": {EMBEDDER_FACT: name}}
        lance.commit(self.table, lambda: self.table.update_field_metadata(made_by), failure)
        return column

    def make_live(self, column: str) -> None:
        """Search this vector column from now on, in one commit, and drop the others."""
        self._in_use = None
        if self.live_column != column:
            lance.set_facts(self.table, {LIVE_COLUMN_FACT: column})
        others = [name for name in self.table.schema.names if name.startswith(_VECTOR_PREFIX) and name != column]
        if others:
            failure = f"The old vectors in {self.uri} could not be dropped"
            lance.commit(self.table, lambda: self.table.drop_columns(others), failure)
        self._changed()

    # Writing

    def add(self, memories: Sequence[Memory], embeddings: "npt.NDArray[np.float32]", embedder: str) -> int:
        """Append memories whose ids are new, from `new_id`, in one commit that never waits for other writers.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        rows = self.with_vectors(to_arrow(memories), embeddings, embedder)
        version = lance.append(self.table, rows)
        if self._resident:
            self._resident.appended(rows, rows.column_names[-1], version)
        return version

    def insert(self, memories: Sequence[Memory], embeddings: "npt.NDArray[np.float32]", embedder: str) -> int:
        """Insert memories whose ids are not taken, in one commit; what has one of the ids already stays as it is.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        version = lance.insert(self.table, self.with_vectors(to_arrow(memories), embeddings, embedder))
        self._changed()
        return version

    def put(self, memories: Sequence[Memory], embeddings: "npt.NDArray[np.float32]", embedder: str) -> int:
        """Insert or replace memories with their embeddings, shape (n, dimension), in one commit.

        What is replaced by an older `updated_at` than the present is not noticed by readers of the change feed.

        Returns:
            The version after the commit.

        Raises:
            StoreError: the live vectors are another embedder's, or the commit failed; nothing was written.
        """
        if not memories:
            return self.version
        version = lance.upsert(self.table, self.with_vectors(to_arrow(memories), embeddings, embedder))
        self._changed()
        return version

    def with_vectors(self, rows: pa.Table, embeddings: "npt.NDArray[np.float32]", embedder: str) -> pa.Table:
        """`rows` with the live vector column filled from `embeddings`, shape (n, dimension).

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        column = self.use_embedder(embedder, embeddings.shape[1])
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1), pa.float32()), embeddings.shape[1])
        return rows.append_column(column, vectors)

    def insert_superseding(self, rows: pa.Table, replaced: Mapping[int, int]) -> int:
        """Insert `rows`, made by `with_vectors`, and in the same commit mark what they replace as superseded.

        Args:
            rows: the new memories.
            replaced: id of an older memory -> id of the new one that says what it said.
        """
        rows = lance.aligned(rows, self.table.schema)
        if replaced:
            old = self.scan(self.table.schema.names, f"id IN ({', '.join(map(str, replaced))})")
            changes: dict[str, list[Any]] = {
                "state": [State.SUPERSEDED] * old.num_rows,
                "superseded_by": [replaced[number] for number in old["id"].to_pylist()],
                "updated_at": [datetime.now(UTC)] * old.num_rows,
            }
            for name, values in changes.items():
                place = old.schema.get_field_index(name)
                old = old.set_column(place, name, pa.array(values, old.schema.field(name).type))
            rows = pa.concat_tables([rows, lance.aligned(old, rows.schema)])
        version = lance.upsert(self.table, rows)
        self._changed()
        return version

    def update(self, rows: pa.Table) -> int:
        """Set some columns of existing memories in one commit: `rows` holds `id` and the columns to set.

        One of them is `updated_at`, from which other readers learn of the change, unless only vectors are set that are not live.
        """
        if not rows.num_rows:
            return self.version
        version = lance.update_columns(self.table, rows)
        self._changed()
        return version

    def set_state(self, ids: Sequence[int], state: State) -> None:
        """Move memories into a state, in one commit.

        Raises:
            NotFoundError: one of them does not exist; nothing was changed.
        """
        known = {memory.id for memory in self.get(ids)}
        missing = [number for number in ids if number not in known]
        if missing:
            raise NotFoundError(f"There is no memory {missing[0]}; `memory recent` lists the newest.")
        now = datetime.now(UTC)
        columns = {"id": list(ids), "state": [state] * len(ids), "updated_at": [now] * len(ids)}
        self.update(pa.table(columns, schema=pa.schema([SCHEMA.field(name) for name in columns])))

    def delete(self, ids: Sequence[int]) -> None:
        """Remove memories for good, in one commit; unknown ids are passed over.

        Raises:
            StoreError: the commit failed; nothing was removed.
        """
        if not ids:
            return
        where = f"id IN ({', '.join(str(int(number)) for number in ids)})"
        lance.commit(self.table, lambda: self.table.delete(where), f"{len(ids)} memories in {self.uri} could not be deleted")
        self._changed()

    def optimize(self) -> bool:
        """Merge small files into large ones and new rows into the indices, where enough has gathered to be worth it.

        Returns:
            Whether anything was done; it is left to the next time where another process is at it. Old versions are dropped.

        Raises:
            StoreError: it cannot be done; what is stored stays as it was.
        """
        if not self.needs_optimize():
            return False
        with lance.kept(self.table):
            try:
                self.table.optimize(cleanup_older_than=_KEPT)
            except (RuntimeError, OSError) as error:
                if lance.is_conflict(error):
                    return False
                raise StoreError(f"The table in {self.uri} cannot be compacted ({error}); run the command again.") from error
            rows, column = len(self), self.live_column
            if column and vector_index.is_due(self.table, column, rows):
                vector_index.build(self.table, column, rows)
        self._left_small = self._small_fragments()
        return True

    @_reading
    def needs_optimize(self) -> bool:
        """Whether the table has gathered enough small fragments or unindexed rows, or has outgrown its vector index."""
        if self._small_fragments() - self._left_small >= _OPTIMIZE_AFTER:
            return True
        index = self.table.index_stats("indexed_text_idx")
        if index is not None and index.num_unindexed_rows > max(1_000, index.num_indexed_rows // 20):
            return True
        return vector_index.is_due(self.table, self.live_column, len(self))

    def _small_fragments(self) -> int:
        return cast("dict[str, Any]", self.table.stats())["fragment_stats"]["num_small_fragments"]

    # Reading

    @_reading
    def __len__(self) -> int:
        return self.table.count_rows()

    def _rows(self) -> int:
        """About how many rows there are: counted anew when `freshness` has passed."""
        if monotonic() - self._counted[0] > self._freshness:
            self._counted = monotonic(), len(self)
        return self._counted[1]

    @_reading
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

    @_reading
    def take(self, ids: Sequence[int], row_ids: Sequence[int]) -> dict[int, Memory]:
        """Memories by id, read from where a search that has just run saw them: half the time of `get`.

        Args:
            ids: the memories.
            row_ids: LanceDB's `_rowid` of each, -1 where it is not known. A row that was moved since is looked up by its id.
        """
        rows = self._resident.take(ids, COLUMNS) if self._resident else None
        if rows is None:
            rows = self._take(row_ids)
        wanted = set(ids)
        found = {memory.id: memory for memory in from_arrow(rows) if memory.id in wanted}
        missing = wanted - found.keys()
        return found | {memory.id: memory for memory in self.get(missing)} if missing else found

    def _take(self, row_ids: Sequence[int]) -> pa.Table:
        known = [number for number in row_ids if number >= 0]
        return self.table.take_row_ids(known).select(list(COLUMNS)).to_arrow() if known else to_arrow([])

    def resolve(self, reference: str) -> Memory:
        """The memory that 1 to 16 digits name: an id, or the first digits of exactly one.

        Raises:
            InvalidInputError: the digits fit several memories.
            NotFoundError: no memory fits.
        """
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

    @_reading
    def recent(self, limit: int, filters: Filters) -> list[Memory]:
        """The newest memories by creation, newest first."""
        if self._resident and (rows := self._resident.newest(limit, filters, COLUMNS)) is not None:
            return from_arrow(rows)
        keys = self.scan(("id", "created_at"), filters.sql())
        newest = keys.sort_by([("created_at", "descending"), ("id", "descending")]).slice(0, limit)
        return self.get(newest["id"].to_pylist())

    @_reading
    def scan(self, columns: Sequence[str], where: str = "true", limit: int | None = None, *, row_ids: bool = False) -> pa.Table:
        """The given columns of all rows that pass `where`, with LanceDB's `_rowid` if asked for."""
        query = self.table.search().where(where).select(list(columns)).with_row_id(row_ids)
        return query.limit(limit).to_arrow() if limit else query.to_arrow()

    @_reading
    def changes(self, since: Position | None, known: Known, columns: Sequence[str]) -> Changes:
        """What changed since a position, as `read_changes` says; read on disk, rows come with LanceDB's `_rowid`."""
        held = self._resident.held() if self._resident else None
        return read_changes(held if held is not None else Rows(self.table, row_ids=True), since, known, columns)

    @_reading
    def nearest(
        self,
        vector: "npt.NDArray[np.float32]",
        embedder: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str] = (),
        between: tuple[float, float] = EVERYWHERE,
    ) -> pa.Table:
        """The memories nearest to a unit vector: exact in a small table, by the vector index in a large one.

        Args:
            vector: what they are compared with, shape (dimension,).
            embedder: name of what made it.
            limit: at most so many.
            filters: what to search among.
            columns: to be read beside the ids.
            between: similarities, both exclusive, between which a memory counts.

        Returns:
            Columns `id`, `similarity` (cosine, -1 to 1), `_rowid` and those asked for, best first.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        if not self._in_use and self.live_column is None:
            return pa.table({"id": pa.array([], pa.int64()), "similarity": pa.array([], pa.float32())})
        column = self.use_embedder(embedder, len(vector))
        if self._resident and (found := self._resident.nearest(vector, column, limit, filters, columns, between)) is not None:
            return found
        if between != EVERYWHERE:
            return self._between(vector, column, limit, filters, columns, between)
        found = _bounded(self._near(vector, column), ["id", *columns, "_distance"], limit, filters)
        similarity = pa.array(1.0 - found["_distance"].to_numpy())
        return found.drop_columns("_distance").append_column("similarity", similarity)

    def _near(self, vector: "npt.NDArray[np.float32]", column: str) -> "LanceVectorQueryBuilder":
        query = cast("LanceVectorQueryBuilder", self.table.search(vector, vector_column_name=column))
        return query.distance_type("cosine").nprobes(vector_index.probes(self._rows()))

    def _between(
        self,
        vector: "npt.NDArray[np.float32]",
        column: str,
        limit: int,
        filters: Filters,
        columns: Sequence[str],
        between: tuple[float, float],
    ) -> pa.Table:
        """`nearest` within bounds: the index is asked a little beyond them, and what it finds is measured again."""
        import numpy as np

        lowest, highest = between
        query = self._near(vector, column).distance_range(1.0 - highest - vector_index.BLUR, 1.0 - lowest + vector_index.BLUR)
        wanted = max(16, limit)
        while True:
            found = _bounded(query, ["id", *columns, column, "_distance"], wanted, filters)
            vectors = found[column].combine_chunks().flatten().to_numpy().reshape(-1, len(vector))
            similarity = vectors @ vector / np.linalg.norm(vectors, axis=1)
            inside = np.flatnonzero((lowest < similarity) & (similarity < highest))
            if len(inside) >= limit or found.num_rows < wanted:
                best = inside[np.argsort(-similarity[inside], kind="stable")][:limit]
                return (
                    found.drop_columns([column, "_distance"]).take(best).append_column("similarity", pa.array(similarity[best]))
                )
            wanted *= 8

    @_reading
    def matching(self, text: str, limit: int, filters: Filters, columns: Sequence[str] = ()) -> pa.Table:
        """The memories that match a text best by BM25.

        Returns:
            Columns `id`, `score` (0 upwards), `_rowid` and those asked for, best first.
        """
        if self._resident and (found := self._resident.matching(text, limit, filters, columns)) is not None:
            return found
        from lancedb.query import MatchQuery

        query = self.table.search(MatchQuery(text, "indexed_text"), query_type="fts")  # pyright: ignore[reportCallIssue]
        return _bounded(query, ["id", *columns, "_score"], limit, filters).rename_columns({"_score": "score"})


def _bounded(query: "LanceQueryBuilder", columns: list[str], limit: int, filters: Filters) -> pa.Table:
    """Run a query for some columns of the best rows; filters that pass everything cost nothing."""
    if filters != Filters(states=()):
        query = query.where(filters.sql(), prefilter=True)
    return query.select(columns).with_row_id(True).limit(limit).to_arrow()
