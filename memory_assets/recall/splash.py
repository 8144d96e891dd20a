"""Splash: what a memory that was just stored stirs up, near enough to matter and not so near that it says the same."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.language.embedders.calibration import scale_of
from memory_assets.models import Memory, State
from memory_assets.stores.memories import Filters

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

NEAREST = 0.9
FARTHEST = 0.7
"""Similarities on the common scale between which a memory belongs to the splash, both exclusive (seed 001, sections 2 and API)."""
MOST = 3


@dataclass(frozen=True, slots=True)
class Ripple:
    """A memory of the splash and how alike what it says is to what was stored, on the common scale."""

    memory: Memory
    similarity: float


def splash(store: "MemoryStore", number: int, meaning: "npt.NDArray[np.float32]", embedder: str) -> list[Ripple]:
    """The active memories next to the one of id `number`, the unit vector of what it says being `meaning`; the most similar first.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    near = alike(store, meaning, embedder, MOST + 1, (FARTHEST, NEAREST))
    return [Ripple(memory, similarity) for memory, similarity in near if memory.id != number][:MOST]


def alike(
    store: "MemoryStore", meaning: "npt.NDArray[np.float32]", embedder: str, count: int, between: tuple[float, float]
) -> list[tuple[Memory, float]]:
    """The `count` active memories that say what is most alike, each with its similarity on the common scale, best first.

    Args:
        store: the tenant's memories.
        meaning: unit vector of what they are compared with.
        embedder: name of what made it.
        count: at most so many.
        between: similarities on the common scale, both exclusive, between which a memory counts.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    scale = scale_of(embedder, store.columns.scale)
    found = store.alike(meaning, count, Filters(), (scale.cosine(between[0]), scale.cosine(between[1])))
    if not found.num_rows:
        return []
    near = dict(zip(found["id"].to_pylist(), scale.similarity(found["similarity"].to_numpy()).tolist(), strict=True))
    memories = store.take(list(near), found["_rowid"].to_pylist())
    listed = ((memories[number], similarity) for number, similarity in near.items() if number in memories)
    return [(memory, similarity) for memory, similarity in listed if memory.state is State.ACTIVE]
