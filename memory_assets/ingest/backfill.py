"""A change of embedder: the new vectors are made beside the live ones and take their place in one commit."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.stores.memories import MemoryStore

if TYPE_CHECKING:
    from memory_assets.language.embedders import Embedder

_CHUNK = 512
"""Memories per commit: what a kill can lose of the work done."""


def reembed(store: MemoryStore, embedder: "Embedder", on_progress: Callable[[int, int], None]) -> int:
    """Fill the vectors that this embedder has not made yet, then make them the live ones and drop the old.

    Memories that other processes store with the old embedder meanwhile are found by a further pass; the switch happens when a
    pass finds none. Also mends single missing vectors of the live embedder.

    Returns:
        How many memories were embedded now.

    Raises:
        EmbedderError: the embedder failed; finished batches stay and the old vectors stay live.
        StoreError: a commit failed; the same holds.
    """
    column = store.add_embedding_column(embedder.name, embedder.dimension)
    done = 0
    while (missing := store.scan(("id", "indexed_text"), f"{column} IS NULL")).num_rows:
        total = done + missing.num_rows
        for batch in missing.to_batches(max_chunksize=_CHUNK):
            vectors = embedder.embed(batch["indexed_text"].to_pylist())
            filled = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), pa.float32()), vectors.shape[1])
            store.update(pa.table({"id": batch["id"], column: filled}))
            done += batch.num_rows
            on_progress(done, total)
    store.make_live(column)
    return done
