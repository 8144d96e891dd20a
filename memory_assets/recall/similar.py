"""The memories most similar to a new one: those related to it, and those that it repeats, changes or contradicts.

`memory_assets.language.judge` decides the relation of two texts.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from memory_assets.arrays import Floats
from memory_assets.language.changes import topic_keys
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.judge import NEAR, Relation, classify_relations, is_short, says_the_same
from memory_assets.language.statements import difference
from memory_assets.language.words import sentences, stems
from memory_assets.models import Memory, State
from memory_assets.stores.memories import Filters, MemoryStore

_MAX_SHOWN = 3
_COMPARED = 5
"""Number of nearest memories compared with a new one, and of further ones below `_SURE`."""
_JUDGED = 2
"""Number of nearest memories that the network judges, which takes milliseconds each."""
_MAX_SENTENCES = 20
_MIN_SHARED = 2
"""Minimum common topic words of two sentences of longer texts."""
_SURE = 0.9
"""Similarity that one in twenty pairs of short facts about one subject exceeds."""


class Echo(StrEnum):
    """The relation of a new memory to an older one."""

    REPEATED = "repeated"
    CONTRADICTED = "contradicted"
    CHANGED = "changed"
    """The new one gives another number, date, name or place."""
    ALIKE = "alike"
    """Nearly the same, without a certain relation."""


_ECHOES = {Relation.SAME: Echo.REPEATED, Relation.CHANGED: Echo.CHANGED, Relation.OPPOSITE: Echo.CONTRADICTED}


class Neighbour(NamedTuple):
    """A memory and how similar it is to the new one, on the common scale."""

    memory: Memory
    similarity: float
    echo: Echo | None = None
    evidence: str = ""
    """The difference, such as "840 € -> 910 €"."""


def find_neighbours(store: MemoryStore, new: Memory, meaning: Floats, embedder: str) -> list[Neighbour]:
    """Return the active memories most similar to `new`, best first, with enough below `_SURE` even if many say the same."""
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


def judge_neighbours(new: Memory, near: Sequence[Neighbour]) -> tuple[list[Neighbour], list[Neighbour]]:
    """Split neighbours, best first, into those related to `new` and those that it repeats, changes or contradicts.

    Of related texts that say the same, only the best is returned.
    """
    others = [each for each in near if each.memory.content_hash != new.content_hash]
    by_text: dict[str, Neighbour] = {}
    for each in others:
        if each.similarity < _SURE:
            by_text.setdefault(each.memory.content_hash, each)
    candidates = list(by_text.values())[: _MAX_SHOWN + 1]
    judged = {text: _judge(text, new.content) for text in dict.fromkeys(each.memory.content for each in others[:_JUDGED])}
    same = {text for text, found in judged.items() if any(relation is Relation.SAME for _, relation in found)}
    related: list[Neighbour] = []
    for each in candidates:
        if len(related) == _MAX_SHOWN:
            break
        if each.memory.content not in same and not any(_say_the_same(better, each) for better in related):
            related.append(each)
    echoes = [Neighbour(each.memory, 1.0, Echo.REPEATED) for each in near if each.memory.content_hash == new.content_hash]
    for each in others:
        known = judged.get(each.memory.content, ())
        differing = next(((statements, relation) for statements, relation in known if relation in _ECHOES), None)
        if differing:
            echoes.append(each._replace(echo=_ECHOES[differing[1]], evidence=difference(*differing[0])))
        elif each.similarity >= _SURE:
            echoes.append(each._replace(echo=Echo.ALIKE))
    return related, sorted(echoes, key=lambda each: each.echo is Echo.ALIKE)[:_MAX_SHOWN]


def _judge(old: str, new: str) -> list[tuple[tuple[str, str], Relation]]:
    """Return the compared statements of two texts and their relation; `SAME` counts only for whole texts."""
    statements = _statements(old, new)
    relations = zip(statements, classify_relations(statements), strict=True)
    return [(each, relation) for each, relation in relations if relation is not Relation.SAME or each == (old, new)]


def _say_the_same(one: Neighbour, other: Neighbour) -> bool:
    """Return whether two neighbours say the same; the network reads them only if they share two thirds of the shorter one's stems."""
    texts = one.memory.content, other.memory.content
    own, others = map(stems, texts)
    share_words = 3 * len(own & others) >= 2 * min(len(own), len(others))
    return share_words and _statements(*texts) == [texts] and says_the_same([texts])[0]


def _statements(old: str, new: str) -> list[tuple[str, str]]:
    """Return the statements to compare: both texts if they are short, else the two sentences that share most topic words."""
    if is_short(old) and is_short(new):
        return [(old, new)]
    parts = [{text: set(topic_keys(text)) for text in sentences(each)[:_MAX_SENTENCES]} for each in (old, new)]
    shared = {(one, other): len(mine & theirs) for one, mine in parts[0].items() for other, theirs in parts[1].items()}
    best = max(shared, key=lambda pair: shared[pair], default=None)
    return [best] if best and shared[best] >= _MIN_SHARED else []
