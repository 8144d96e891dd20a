"""Splash: what a memory that was just stored stirs up, near enough to matter and not so near that it says the same."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.models import Memory, State
from memory_assets.stores.memories import Filters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

NEAREST = 0.9
FARTHEST = 0.7
"""Cosine similarities between which a memory belongs to the splash, both exclusive (seed 001, sections 2 and API)."""
MOST = 3


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
    found = store.nearest(vector, embedder, MOST + 1, Filters(), between=(FARTHEST, NEAREST))
    if not found.num_rows:
        return []
    near = dict(zip(found["id"].to_pylist(), found["similarity"].to_pylist(), strict=True))
    memories = store.take(list(near), found["_rowid"].to_pylist())
    ripples = [Ripple(memories[other], similarity) for other, similarity in near.items() if other in memories and other != number]
    return [ripple for ripple in ripples if ripple.memory.state is State.ACTIVE][:MOST]
