"""Splash: what a memory that was just stored stirs up, near enough to matter and not so near that it says the same."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.models import Memory
from memory_assets.stores.memories import COLUMNS, Filters, from_arrow

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

NEAREST = 0.9
FARTHEST = 0.7
"""Cosine similarities between which a memory belongs to the splash, both exclusive (seed 001, sections 2 and API)."""
MOST = 3
_FIRST_LOOK = 16
"""Neighbours asked for at first; more only where most of these turn out to be too near or too far."""
_BLUR = 0.02
"""How far off the similarities of a large table's index may be; what it finds is measured again."""


@dataclass(frozen=True, slots=True)
class Ripple:
    """A memory of the splash and its cosine similarity to what was stored."""

    memory: Memory
    similarity: float


def splash(store: "MemoryStore", number: int, vector: "npt.NDArray[np.float32]", embedder: str) -> list[Ripple]:
    """The active memories next to the one of id `number`, whose unit vector is `vector`; the most similar first.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    column = store.use_embedder(embedder, len(vector))
    wanted = _FIRST_LOOK
    while True:
        found = store.nearest(
            vector, embedder, wanted, Filters(), (*COLUMNS[1:], column), between=(FARTHEST - _BLUR, NEAREST + _BLUR)
        )
        similarities = [float(np.dot(other, vector)) for other in found[column].to_numpy()]
        ripples = [
            Ripple(memory, similarity)
            for memory, similarity in zip(from_arrow(found), similarities, strict=True)
            if FARTHEST < similarity < NEAREST and memory.id != number
        ]
        if len(ripples) >= MOST or found.num_rows < wanted:
            return sorted(ripples, key=lambda ripple: -ripple.similarity)[:MOST]
        wanted *= 8
