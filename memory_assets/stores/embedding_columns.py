"""The vector columns of a `memories` table: two for each embedder. A fact of the table names the live ones.

Searches use the first, with vectors of texts with their headings; similarity of memories uses the second, of texts alone. Vectors of
different embedders are never compared.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from threading import Lock
from time import monotonic

import pyarrow as pa

from memory_assets.arrays import Floats
from memory_assets.errors import StoreError
from memory_assets.models import TextVectors
from memory_assets.stores import lance
from memory_assets.stores.tables import StoredTable, reading

LIVE_COLUMN_FACT = "memory_assets:embedding_column"
EMBEDDER_FACT = "memory_assets:embedder"
SCALE_FACT = "memory_assets:similarity_scale"
_PREFIX = "embedding_"
_MEANING_PREFIX = "meaning_"
_VECTORS_VERSION = 2
"""Version of how vectors are made. Vectors of an older version are moved like those of another embedder."""


class EmbeddingColumns:
    """The vector columns of one table."""

    def __init__(self, stored: StoredTable) -> None:
        self.stored = stored
        self._cached_schema: tuple[float, pa.Schema] | None = None
        """When the table's schema was last read, and the schema."""
        self._lock = Lock()

    @property
    @reading
    def schema(self) -> pa.Schema:
        """The table's schema, at most as old as the freshness."""
        seen = self._cached_schema
        if seen is None or monotonic() - seen[0] >= self.stored.freshness:
            self._cached_schema = seen = monotonic(), self.stored.reading.schema
        return seen[1]

    @property
    def live(self) -> str | None:
        """The column that searches use; None before the first embedding."""
        return _live_column(self.schema)

    @property
    def meaning(self) -> str | None:
        """The live column of texts alone; None before the first embedding, or if its vectors are outdated."""
        schema = self.schema
        column = meaning_column(_live_column(schema) or "")
        return column if column in schema.names else None

    @property
    def outdated(self) -> bool:
        """Whether the embedder would now make the live vectors differently."""
        schema = self.schema
        live = _live_column(schema)
        made_by = _read_fact(schema, live or "", EMBEDDER_FACT)
        if live is None or made_by is None:
            return False
        return live != _name_column(made_by, schema.field(live).type.list_size)

    @property
    def scale(self) -> tuple[float, ...] | None:
        schema = self.schema
        kept = _read_fact(schema, meaning_column(_live_column(schema) or ""), SCALE_FACT)
        return tuple(json.loads(kept)) if kept else None

    def keep_scale(self, column: str, measure: Callable[[], Sequence[float]]) -> None:
        if _read_fact(self.schema, meaning_column(column), SCALE_FACT) is None:
            lance.set_facts(self.stored, {SCALE_FACT: json.dumps(list(measure()))}, meaning_column(column))
            self._cached_schema = None

    @property
    def embedder(self) -> str | None:
        """Name of the embedder of the live vectors; None before the first embedding."""
        schema = self.schema
        return _read_fact(schema, _live_column(schema) or "", EMBEDDER_FACT)

    def newest_embedder(self) -> str | None:
        """Return `embedder`, including the newest commits of other processes."""
        self._cached_schema = None
        with suppress(RuntimeError, OSError):
            self.stored.look()
        return self.embedder

    def searched(self, embedder: str, dimension: int) -> str | None:
        """Return the column to search with this embedder's vectors; None before the first. StoreError if the vectors are another's."""
        schema = self.schema
        live = _live_column(schema)
        if live is None:
            return None
        made_by, size = _read_fact(schema, live, EMBEDDER_FACT), schema.field(live).type.list_size
        if (made_by, size) != (embedder, dimension):
            raise StoreError(
                f"The memories in {self.stored.uri} are embedded by {made_by} ({size} dimensions) and not by {embedder} "
                f"({dimension}); run `memory backfill` to move them."
            )
        return live

    def fill(self, rows: pa.Table, vectors: TextVectors | Floats, embedder: str) -> pa.Table:
        """Return `rows` with the live vector columns, created if necessary, `in_context` last.

        A single array of shape (n, dimension) is used for both columns.
        """
        vectors = vectors if isinstance(vectors, TextVectors) else TextVectors(vectors, vectors)
        dimension = vectors.in_context.shape[1]
        with self._lock:
            column = self.searched(embedder, dimension)
            if column is None:
                self.make_live(self.add(embedder, dimension))
                column = self.searched(embedder, dimension)
        assert column is not None
        if meaning := self.meaning:
            rows = rows.append_column(meaning, vector_array(vectors.meanings))
        return rows.append_column(column, vector_array(vectors.in_context))

    def add(self, embedder: str, dimension: int) -> str:
        """Return the column of this embedder; if it is missing, add it and its `meaning_column`, both empty."""
        column, vectors = _name_column(embedder, dimension), pa.list_(pa.float32(), dimension)
        self._add_fields(pa.field(meaning_column(column), vectors), pa.field(column, vectors, metadata={EMBEDDER_FACT: embedder}))
        return column

    def adopt(self, schema: pa.Schema) -> None:
        """Make the live columns of another table's schema live here, too; if they are missing, add them, empty."""
        live = lance.facts_of(schema).get(LIVE_COLUMN_FACT)
        if live is not None:
            self._add_fields(*(schema.field(name) for name in (meaning_column(live), live) if name in schema.names))
            self.make_live(live)

    def _add_fields(self, *fields: pa.Field) -> None:
        """Add columns, of which the last is searched, and set their facts."""
        table, column = self.stored.writing, fields[-1].name
        failure = f"The vector column {column} cannot be added to {self.stored.uri}"
        lance.ensure(self.stored, lambda: column in table.schema.names, lambda: table.add_columns(list(fields)), failure)
        for field in fields:
            if field.metadata:
                facts = {name.decode(): value.decode() for name, value in field.metadata.items()}
                lance.set_facts(self.stored, facts, field.name)
        self._cached_schema = None

    @contextmanager
    def switching(self) -> Iterator[None]:
        """Block commits of others to a table in a folder during the block."""
        with self.stored.location.closed_to_writers():
            self.stored.writing.checkout_latest()
            yield

    def make_live(self, column: str) -> None:
        """Make searches use this column, and drop the columns of other embedders: two commits."""
        self._cached_schema = None
        table = self.stored.writing
        if self.live != column:
            lance.set_facts(self.stored, {LIVE_COLUMN_FACT: column})
            self._cached_schema = None
        kept = {column, meaning_column(column)}
        others = [name for name in self.schema.names if name.startswith((_PREFIX, _MEANING_PREFIX)) and name not in kept]
        if others:
            failure = f"The old vectors in {self.stored.uri} could not be dropped"
            lance.commit(self.stored, lambda: table.drop_columns(others), failure)
            self._cached_schema = None


def _live_column(schema: pa.Schema) -> str | None:
    return lance.facts_of(schema).get(LIVE_COLUMN_FACT)


def _read_fact(schema: pa.Schema, column: str, name: str) -> str | None:
    value = (schema.field(column).metadata or {}).get(name.encode()) if column in schema.names else None
    return value.decode() if value else None


def meaning_column(column: str) -> str:
    """Return the column of texts alone that belongs to a column of texts with their headings."""
    return column.replace(_PREFIX, _MEANING_PREFIX)


def vector_array(vectors: Floats) -> pa.FixedSizeListArray:
    """Return vectors of shape (n, dimension) as a column."""
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1])


def _name_column(embedder: str, dimension: int) -> str:
    return _PREFIX + blake2b(f"{embedder}\0{dimension}\0{_VECTORS_VERSION}".encode(), digest_size=4).hexdigest()
