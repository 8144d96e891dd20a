"""The vector columns of a `memories` table: each embedder has one of its own, and a fact of the table names the live one.

So vectors of two embedders are never compared, and a change of embedder is one commit after the new column has been filled.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.errors import StoreError
from memory_assets.stores import lance
from memory_assets.stores.locks import exclusive_lock
from memory_assets.stores.tables import StoredTable, reading

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LIVE_COLUMN_FACT = "memory_assets:embedding_column"
EMBEDDER_FACT = "memory_assets:embedder"
_PREFIX = "embedding_"


class EmbeddingColumns:
    """Which vectors a table has, and which of them are searched."""

    def __init__(self, stored: StoredTable) -> None:
        self.stored = stored
        self._in_use: tuple[float, str, int, str] | None = None
        """When an embedder was last found to be the live one, its name, its dimension and its column."""
        self._choosing = Lock()

    @property
    @reading
    def live(self) -> str | None:
        """The column that is searched; None before the first embedding."""
        return lance.facts(self.stored.reading).get(LIVE_COLUMN_FACT)

    @property
    @reading
    def embedder(self) -> str | None:
        """Name of the embedder that made the live vectors; None before the first embedding."""
        column = self.live
        return self._made_by(column) if column else None

    def newest_embedder(self) -> str | None:
        """As `embedder`, with what other processes committed a moment ago."""
        self._in_use = None
        with suppress(RuntimeError, OSError):
            self.stored.reading.checkout_latest()
        return self.embedder

    def _made_by(self, column: str) -> str | None:
        metadata = self.stored.reading.schema.field(column).metadata or {}
        name = metadata.get(EMBEDDER_FACT.encode())
        return name.decode() if name else None

    @reading
    def searched(self, embedder: str, dimension: int) -> str | None:
        """The live column, to be searched with vectors of this embedder; None before the first embedding.

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        if self._in_use and self._in_use[1:3] == (embedder, dimension) and monotonic() - self._in_use[0] < self.stored.freshness:
            return self._in_use[3]
        live = self.live
        if live is None:
            return None
        made_by, size = self._made_by(live), self.stored.reading.schema.field(live).type.list_size
        if (made_by, size) != (embedder, dimension):
            raise StoreError(
                f"The memories in {self.stored.uri} are embedded by {made_by} ({size} dimensions) and not by {embedder} "
                f"({dimension}); run `memory backfill` to move them."
            )
        self._in_use = monotonic(), embedder, dimension, live
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

    def fill(self, rows: pa.Table, embeddings: "npt.NDArray[np.float32]", embedder: str) -> pa.Table:
        """`rows` with the live vector column, filled from `embeddings`, shape (n, dimension).

        Raises:
            StoreError: the live vectors are another embedder's.
        """
        column = self.filled(embedder, embeddings.shape[1])
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1), pa.float32()), embeddings.shape[1])
        return rows.append_column(column, vectors)

    def add(self, embedder: str, dimension: int) -> str:
        """The column of this embedder, added empty if the table lacks it.

        Raises:
            StoreError: it cannot be added.
        """
        column = _PREFIX + blake2b(f"{embedder}\0{dimension}".encode(), digest_size=4).hexdigest()
        field = pa.field(column, pa.list_(pa.float32(), dimension))
        table = self.stored.writing
        failure = f"The vector column of {embedder} cannot be added to {self.stored.uri}"
        lance.ensure(table, lambda: column in table.schema.names, lambda: table.add_columns(field), failure)
        made_by = {"path": column, "metadata": {EMBEDDER_FACT: embedder}}
        lance.commit(table, lambda: table.update_field_metadata(made_by), failure)
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
        """Search this column from now on, in one commit, and drop the others.

        Raises:
            StoreError: a commit failed; the column that was live stays so, or the old vectors are still there.
        """
        self._in_use = None
        table = self.stored.writing
        if self.live != column:
            lance.set_facts(table, {LIVE_COLUMN_FACT: column})
        others = [name for name in table.schema.names if name.startswith(_PREFIX) and name != column]
        if others:
            failure = f"The old vectors in {self.stored.uri} could not be dropped"
            lance.commit(table, lambda: table.drop_columns(others), failure)
