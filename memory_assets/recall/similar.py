"""The memories most similar to one that was just stored: its splash, what it repeats, changes or contradicts.

How two texts stand to each other is decided in `memory_assets.language.statements`.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from memory_assets.arrays import Floats
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.statements import NEAR, Relation, judge
from memory_assets.models import Memory, State
from memory_assets.stores.memories import Filters, MemoryStore

_MOST = 3
_COMPARED = 5
"""Memories that a new one is compared with, and as many of those that are not near enough to say the same."""
_SURE = 0.9
"""Similarity that one in twenty pairs of short facts of one subject exceeds."""


class Echo(StrEnum):
    """How an older memory stands to a new one."""

    REPEATED = "repeated"
    CONTRADICTED = "contradicted"
    CHANGED = "changed"
    """The new one gives another number, date, name or place."""
    ALIKE = "alike"
    """Nearly the same; whether it is, the words do not tell."""


_ECHOES = {Relation.SAME: Echo.REPEATED, Relation.CHANGED: Echo.CHANGED, Relation.OPPOSITE: Echo.CONTRADICTED}


class Neighbour(NamedTuple):
    """A memory and how similar it is to the new one, on the common scale."""

    memory: Memory
    similarity: float
    echo: Echo | None = None
    evidence: str = ""
    """What differs, such as "840 € -> 910 €"."""


def find_neighbours(store: MemoryStore, new: Memory, meaning: Floats, embedder: str) -> list[Neighbour]:
    """The active memories that are most similar to `new`, best first, and those of the splash behind them if so many say the same.

    `meaning` is the unit vector of what `new` says, made by `embedder`; `new` is not among the answers.
    """
    scale = scale_of(embedder, store.columns.scale)
    found = store.alike(meaning, _COMPARED + 1, Filters(), scale.cosine(NEAR), scale.cosine(_SURE))
    if not found.num_rows:
        return []
    similarities = scale.similarity(found["similarity"].to_numpy())
    near = np.flatnonzero((found["id"].to_numpy() != new.id) & (similarities > NEAR))
    chosen = np.union1d(near[:_COMPARED], near[similarities[near] < _SURE][:_COMPARED])
    ids, row_ids = (found[name].take(chosen).to_pylist() for name in ("id", "_rowid"))
    memories = store.take(ids, row_ids)
    listed = [(memories.get(number), value) for number, value in zip(ids, similarities[chosen].tolist(), strict=True)]
    return [Neighbour(memory, value) for memory, value in listed if memory and memory.state is State.ACTIVE]


def splash(new: Memory, near: Iterable[Neighbour]) -> list[Neighbour]:
    """Of the neighbours, best first, those that are related and not the same; of texts that say the same, the best."""
    found: list[Neighbour] = []
    for each in near:
        if len(found) == _MOST:
            break
        if each.similarity < _SURE and not any(
            _says_the_same(each, other) for other in (Neighbour(new, each.similarity), *found)
        ):
            found.append(each)
    return found


def echoes(new: Memory, near: Iterable[Neighbour]) -> list[Neighbour]:
    """Of the neighbours, best first, those that `new` repeats, changes, contradicts or is very like."""
    found: list[Neighbour] = []
    for each in near:
        if each.memory.content_hash == new.content_hash:
            found.append(Neighbour(each.memory, 1.0, Echo.REPEATED))
            continue
        judged = judge(each.memory.content, new.content, each.similarity)
        if echo := _ECHOES.get(judged.relation) or (Echo.ALIKE if each.similarity >= _SURE else None):
            found.append(each._replace(echo=echo, evidence=judged.evidence))
    return sorted(found, key=lambda each: each.echo is Echo.ALIKE)[:_MOST]


def _says_the_same(one: Neighbour, other: Neighbour) -> bool:
    if one.memory.content_hash == other.memory.content_hash:
        return True
    least = min(one.similarity, other.similarity)
    return judge(other.memory.content, one.memory.content, least).relation is Relation.SAME
