"""Splash: what a memory that was just stored stirs up, near enough to matter and not so near that it says the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.calibration import scale_of
from memory_assets.models import Memory, State
from memory_assets.stores.memories import Filters

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.memories import MemoryStore

NEAREST = 0.9
FARTHEST = 0.7
"""Similarities on the common scale between which a memory belongs to the splash, both exclusive (seed 001, sections 2 and API)."""
MOST = 3
LOOKED_AT = 12
"""Memories that a new one is compared with."""


@dataclass(frozen=True, slots=True)
class Ripple:
    """A memory of the splash and how alike what it says is to what was stored, on the common scale."""

    memory: Memory
    similarity: float


def alike(store: "MemoryStore", new: Memory, meaning: "npt.NDArray[np.float32]", embedder: str) -> list[tuple[Memory, float]]:
    """The active memories that say what is most alike to `new`, each with its similarity on the common scale, best first.

    They are those `LOOKED_AT` that are most alike, and behind them, where so many say the same, those that belong to the splash.

    Args:
        store: the tenant's memories.
        new: what they are compared with; it is not among them.
        meaning: unit vector of what it says.
        embedder: name of what made it.

    Raises:
        StoreError: the live vectors are another embedder's, or the store cannot be read.
    """
    scale = scale_of(embedder, store.columns.scale)
    found = store.alike(meaning, LOOKED_AT + 1, Filters(), scale.cosine(FARTHEST), scale.cosine(NEAREST))
    if not found.num_rows:
        return []
    similarities = scale.similarity(found["similarity"].to_numpy())
    near = np.flatnonzero((found["id"].to_numpy() != new.id) & (similarities > FARTHEST))
    chosen = np.union1d(near[:LOOKED_AT], near[similarities[near] < NEAREST][:MOST])
    ids, row_ids = (found[name].take(chosen).to_pylist() for name in ("id", "_rowid"))
    memories = store.take(ids, row_ids)
    listed = [
        (memories[number], similarity)
        for number, similarity in zip(ids, similarities[chosen].tolist(), strict=True)
        if number in memories
    ]
    return [(memory, similarity) for memory, similarity in listed if memory.state is State.ACTIVE]


def splash(near: Iterable[tuple[Memory, float]]) -> list[Ripple]:
    """Of what `alike` finds, best first, the memories of the splash."""
    return list(islice((Ripple(*each) for each in near if each[1] < NEAREST), MOST))
