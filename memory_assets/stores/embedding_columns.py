"""The vector columns of a `memories` table: each embedder has two of its own, and a fact of the table names the live ones.

Searches ask the first, of texts in their context; what is alike goes by the second, of what texts say. Vectors of two embedders
are never compared, and a change of embedder is one commit after the new columns have been filled.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.errors import StoreError
from memory_assets.models import TextVectors
from memory_assets.stores import lance
from memory_assets.stores.locks import exclusive_lock
from memory_assets.stores.tables import StoredTable, reading

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LIVE_COLUMN_FACT = "memory_assets:embedding_column"
EMBEDDER_FACT = "memory_assets:embedder"
SCALE_FACT = "memory_assets:similarity_scale"
_PREFIX = "embedding_"
_MEANING_PREFIX = "meaning_"
_MAKING = 2
"""Counts up whenever the vectors of a text are made in another way: those made before are moved as another embedder's are."""


class EmbeddingColumns:
    """Which vectors a table has, and which of them are searched."""

    def __init__(self, stored: StoredTable) -> None:
        self.stored = stored
        self._seen: tuple[float, pa.Schema] | None = None
        """When the table's schema was read last, and what it was: LanceDB is asked again once the table's freshness has passed."""
        self._choosing = Lock()

    @property
    @reading
    def schema(self) -> pa.Schema:
        """The table's, as old as its freshness allows."""
        seen = self._seen
        if seen is None or monotonic() - seen[0] >= self.stored.freshness:
            self._seen = seen = monotonic(), self.stored.reading.schema
        return seen[1]

    @property
    def live(self) -> str | None:
        """The column that is searched; None before the first embedding."""
        return lance.facts_of(self.schema).get(LIVE_COLUMN_FACT)

    @property
    def meaning(self) -> str | None:
        """The column of what texts say, beside the live one; None before the first embedding, and where vectors are outdated."""
        column = meaning_column(self.live or "")
        return column if column in self.schema.names else None

    @property
    def outdated(self) -> bool:
        """Whether the live vectors were made in another way than they are now, by the same embedder."""
        live, made_by = self.live, self.embedder
        if live is None or made_by is None:
            return False
        return live != _column_of(made_by, self.schema.field(live).type.list_size)

    @property
    def scale(self) -> tuple[float, ...] | None:
        """What `keep_scale` kept of the live vectors."""
        return self._kept_scale(self.live)

    def _kept_scale(self, column: str | None) -> tuple[float, ...] | None:
        schema, meaning = self.schema, meaning_column(column or "")
        kept = (schema.field(meaning).metadata or {}).get(SCALE_FACT.encode()) if meaning in schema.names else None
        return tuple(json.loads(kept)) if kept else None

    def keep_scale(self, column: str, measure: Callable[[], Sequence[float]]) -> None:
        """Keep what tells how to read the similarities of vectors, with their column, unless that is done.

        Raises:
            StoreError: the commit failed.
        """
        if self._kept_scale(column) is None:
            kept = {"path": meaning_column(column), "metadata": {SCALE_FACT: json.dumps(list(measure()))}}
            failure = f"The scale of the vectors in {self.stored.uri} cannot be kept"
            lance.commit(self.stored.writing, lambda: self.stored.writing.update_field_metadata(kept), failure)
            self._seen = None

    @property
    def embedder(self) -> str | None:
        """Name of the embedder that made the live vectors; None before the first embedding."""
        column = self.live
        return self._made_by(column) if column else None

    def newest_embedder(self) -> str | None:
        """As `embedder`, with what other processes committed a moment ago."""
        self._seen = None
        with suppress(RuntimeError, OSError):
            self.stored.reading.checkout_latest()
        return self.embedder

    def _made_by(self, column: str) -> str | None:
        metadata = self.schema.field(column).metadata or {}
        name = metadata.get(EMBEDDER_FACT.encode())
        return name.decode() if name else None

    def searched(self, embedder: str, dimension: int) -> str | None:
        """The live column, to be searched with vectors of this embedder; None before the first embedding.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        live = self.live
        if live is None:
            return None
        made_by, size = self._made_by(live), self.schema.field(live).type.list_size
        if (made_by, size) != (embedder, dimension):
            raise StoreError(
                f"The memories in {self.stored.uri} are embedded by {made_by} ({size} dimensions) and not by {embedder} "
                f"({dimension}); run `memory backfill` to move them."
            )
        return live

    def filled(self, embedder: str, dimension: int) -> str:
        """The live column, to be filled with vectors of this embedder; made if there is none yet.

        Raises:
            StoreError: the live vectors are another embedder's, or the column cannot be made.
        """
        with self._choosing:
            live = self.searched(embedder, dimension)
            if live is None:
                self.make_live(self.add(embedder, dimension))
                live = self.searched(embedder, dimension)
        assert live is not None
        return live

    def fill(self, rows: pa.Table, vectors: "TextVectors | npt.NDArray[np.float32]", embedder: str) -> pa.Table:
        """`rows` with the live vector columns, that of the context last; an array, shape (n, dimension), is for both.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        vectors = vectors if isinstance(vectors, TextVectors) else TextVectors(vectors, vectors)
        column = self.filled(embedder, vectors.in_context.shape[1])
        if meaning := self.meaning:
            rows = rows.append_column(meaning, vector_array(vectors.meanings))
        return rows.append_column(column, vector_array(vectors.in_context))

    def add(self, embedder: str, dimension: int) -> str:
        """The column of this embedder, added empty if the table lacks it, with its `meaning_column`.

        Raises:
            StoreError: they cannot be added.
        """
        column = _column_of(embedder, dimension)
        fields = [pa.field(name, pa.list_(pa.float32(), dimension)) for name in (meaning_column(column), column)]
        table = self.stored.writing
        failure = f"The vector columns of {embedder} cannot be added to {self.stored.uri}"
        lance.ensure(table, lambda: column in table.schema.names, lambda: table.add_columns(fields), failure)
        made_by = {"path": column, "metadata": {EMBEDDER_FACT: embedder}}
        lance.commit(table, lambda: table.update_field_metadata(made_by), failure)
        self._seen = None
        return column

    @contextmanager
    def switching(self) -> Iterator[None]:
        """Let nobody else commit meanwhile, so that no vectors are lost that are stored during a switch.

        A table in object storage is not guarded.
        """
        if "://" in self.stored.uri:
            yield
            return
        with exclusive_lock(Path(self.stored.uri)):
            self.stored.writing.checkout_latest()
            yield

    def make_live(self, column: str) -> None:
        """Search this column from now on, in one commit, and drop those of other embedders.

        Raises:
            StoreError: a commit failed; the column that was live stays so, or the old vectors are still there.
        """
        self._seen = None
        table = self.stored.writing
        if self.live != column:
            lance.set_facts(table, {LIVE_COLUMN_FACT: column})
            self._seen = None
        kept = {column, meaning_column(column)}
        others = [name for name in table.schema.names if name.startswith((_PREFIX, _MEANING_PREFIX)) and name not in kept]
        if others:
            failure = f"The old vectors in {self.stored.uri} could not be dropped"
            lance.commit(table, lambda: table.drop_columns(others), failure)
            self._seen = None


def meaning_column(column: str) -> str:
    """The column of what texts say, beside the one of them in their context."""
    return column.replace(_PREFIX, _MEANING_PREFIX)


def vector_array(vectors: "npt.NDArray[np.float32]") -> pa.FixedSizeListArray:
    """A column's values, from vectors of shape (n, dimension)."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1])


def _column_of(embedder: str, dimension: int) -> str:
    return _PREFIX + blake2b(f"{embedder}\0{dimension}\0{_MAKING}".encode(), digest_size=4).hexdigest()
