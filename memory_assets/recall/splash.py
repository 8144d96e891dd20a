"""Splash: what a memory that was just stored stirs up, near enough to matter and not so near that it says the same."""

from collections.abc import Sequence
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
BEYOND_ALL = 1.1
"""A bound that every similarity stays below."""
LOOKED_AT = 12
"""Memories that a new one is compared with."""


@dataclass(frozen=True, slots=True)
class Ripple:
    """A memory of the splash and how alike what it says is to what was stored, on the common scale."""

    memory: Memory
    similarity: float


def alike(
    store: "MemoryStore",
    new: Memory,
    meaning: "npt.NDArray[np.float32]",
    embedder: str,
    count: int = LOOKED_AT,
    between: tuple[float, float] = (FARTHEST, BEYOND_ALL),
) -> list[tuple[Memory, float]]:
    """The active memories that say what is most alike to `new`, each with its similarity on the common scale, best first.

    Args:
        store: the tenant's memories.
        new: what they are compared with; it is not among them.
        meaning: unit vector of what it says.
        embedder: name of what made it.
        count: at most so many.
        between: similarities on the common scale, both exclusive, between which a memory counts.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    scale = scale_of(embedder, store.columns.scale)
    found = store.alike(meaning, count + 1, Filters(), (scale.cosine(between[0]), scale.cosine(between[1])))
    if not found.num_rows:
        return []
    near = dict(zip(found["id"].to_pylist(), scale.similarity(found["similarity"].to_numpy()).tolist(), strict=True))
    memories = store.take(list(near), found["_rowid"].to_pylist())
    listed = ((memories[number], similarity) for number, similarity in near.items() if number in memories and number != new.id)
    return [(memory, similarity) for memory, similarity in listed if memory.state is State.ACTIVE][:count]


def splash(
    store: "MemoryStore",
    new: Memory,
    meaning: "npt.NDArray[np.float32]",
    embedder: str,
    near: Sequence[tuple[Memory, float]],
) -> list[Ripple]:
    """The active memories next to `new`, the most similar first.

    Args:
        store: the tenant's memories.
        new: what was stored.
        meaning: unit vector of what it says.
        embedder: name of what made it.
        near: what `alike` finds. Where so many say the same that they fill it, those beyond them are looked for.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    ripples = [Ripple(*each) for each in near if each[1] < NEAREST]
    if len(ripples) < MOST and len(near) == LOOKED_AT:
        ripples = [Ripple(*each) for each in alike(store, new, meaning, embedder, MOST, (FARTHEST, NEAREST))]
    return ripples[:MOST]
