"""The vector index of a table, by its size.

An exact scan serves up to some twenty thousand rows. Above, IVF with 8-bit scalar quantisation answers as fast as HNSW, finds as much,
and is built ten times as fast (384 dimensions; docs/recall.md). A table that has grown fourfold gets new partitions.
"""

import math
from typing import TYPE_CHECKING

from memory_assets.errors import StoreError
from memory_assets.stores import lance

if TYPE_CHECKING:
    from lancedb.index import IvfSq
    from lancedb.table import Table

SMALLEST = 20_000
"""Rows below which every search scans all vectors."""
BLUR = 0.02
"""How far off the similarities that the index gives may be."""
TRAINED_FACT = "memory_assets:vector_index_rows"
_GROWTH = 4
_MOST_SEGMENTS = 12
"""Each indexing of new rows adds a segment, which every search looks into, and which keeps their files from being merged."""
_SAMPLE_RATE = 64
_ITERATIONS = 15
"""K-means rounds and samples per partition: a quarter of LanceDB's defaults, at no measurable loss."""


def partitions(rows: int) -> int:
    """Partitions for a table of so many rows: 250 at 100,000 and 800 at 1,000,000."""
    return max(1, round(0.8 * math.sqrt(rows)))


def probes(rows: int) -> int:
    """Partitions that a search looks into."""
    return max(20, partitions(rows) // 20)


def is_due(table: "Table", column: str | None, rows: int) -> bool:
    """Whether the vector column needs an index, or one with more partitions."""
    if column is None or rows < SMALLEST:
        return False
    index = next((index for index in table.list_indices() if index.columns == [column]), None)
    if index is None or (index.num_segments or 1) > _MOST_SEGMENTS:
        return True
    return rows >= _GROWTH * int(lance.facts_of(table.schema).get(TRAINED_FACT, "0"))


def build(table: "Table", column: str, rows: int) -> None:
    """Build the index of a vector column anew; searches use the old one, or none, until it is there."""
    try:
        table.create_index(column, config=_config(rows), replace=True)
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"The vector index of {table.name!r} cannot be built ({error}); searches scan all vectors until the next "
            "`memory run` tries again."
        ) from error
    lance.set_facts(table, {TRAINED_FACT: str(rows)})


def _config(rows: int) -> "IvfSq":
    from lancedb.index import IvfSq

    return IvfSq(distance_type="cosine", num_partitions=partitions(rows), max_iterations=_ITERATIONS, sample_rate=_SAMPLE_RATE)
