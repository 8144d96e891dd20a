"""Compare changed memories with those most similar to them: which say the same, and which replace or contradict another.

A memory that gives another value than an older one is its next version (EVOLVED_INTO), one that denies it invalidates it
(INVALIDATED_BY): if it says so ("no longer", "now"), or if the same author wrote it on a later day. Otherwise the two contradict each
other (CONTRADICTS). What happened at two times ("bought three", "bought five") is no contradiction.
Conversation turns count only if the newer one says that it changed.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.graph.neighbours import nearest_to
from memory_assets.language.english import word_set
from memory_assets.language.statements import NEAR, Judgement, Relation, judge
from memory_assets.language.words import words
from memory_assets.models import Kind, Memory, RelationType

if TYPE_CHECKING:
    from memory_assets.stores.memories import MemoryStore

_NEIGHBOURS = 12
"""Memories that each is compared with: the nearest."""
_LATER = timedelta(days=1)
"""From which a newer memory of another value is a change rather than a contradiction."""
_OF_A_MOMENT = frozenset({Kind.RATING, Kind.REFLECTION})
"""Kinds whose memories are of one time: another time it is otherwise."""
_STATED, _DATED, _OPEN = 0.9, 0.75, 0.7
"""Confidence of a change that the newer text states, of one that the dates show, and of a contradiction."""

SCHEMA = pa.schema(
    [
        ("source_id", pa.int64()),
        ("target_id", pa.int64()),
        ("type", pa.string()),
        ("confidence", pa.float32()),
        ("similarity", pa.float32()),
        ("note", pa.string()),
    ]
)
"""An edge from the older to the newer memory; REINFORCES where both say the same."""


def compare_neighbours(store: "MemoryStore", changed: Sequence[Memory]) -> pa.Table:
    """Compare each of `changed` with the memories most similar to it."""
    near = nearest_to(store, [memory.id for memory in changed], _NEIGHBOURS, least=NEAR)
    pairs = {
        (min(one, other), max(one, other)): similarity
        for one, other, similarity in zip(*(near[name].to_pylist() for name in ("id", "other", "similarity")), strict=True)
    }
    known = {memory.id: memory for memory in changed}
    further = {number for pair in pairs for number in pair} - known.keys()
    known |= {memory.id: memory for memory in store.get(further)}
    return pa.Table.from_pylist(list(_edges(pairs, known)), schema=SCHEMA)


def _edges(pairs: dict[tuple[int, int], float], known: dict[int, Memory]) -> Iterable[dict[str, Any]]:
    for ids, similarity in pairs.items():
        if any(number not in known for number in ids):
            continue
        old, new = sorted((known[number] for number in ids), key=lambda memory: (memory.created_at, memory.id))
        if old.content_hash == new.content_hash:
            continue
        if found := _edge(old, new, judge(old.content, new.content, similarity)):
            kind, confidence, note = found
            ends = {"source_id": old.id, "target_id": new.id, "similarity": similarity}
            yield ends | {"type": kind, "confidence": confidence or similarity, "note": note}


def _edge(old: Memory, new: Memory, judged: Judgement) -> tuple[RelationType, float, str] | None:
    if not _OF_A_MOMENT.isdisjoint((old.kind, new.kind)) and judged.relation is not Relation.SAME:
        return None
    if judged.relation is Relation.RELATED or not judged.is_sure:
        is_update = judged.says_change and new.created_at - old.created_at >= _LATER
        if is_update and old.title and old.title.casefold() == new.title.casefold():
            return RelationType.EVOLVED_INTO, _DATED, "bears the same name on a later day, and says that something changed"
        return None
    if judged.relation is Relation.SAME:
        return RelationType.REINFORCES, 0.0, "says the same"
    if old.session and new.session and not judged.says_change:
        return None
    by_another = old.author != new.author and bool(old.author and new.author)
    if (judged.is_event and not judged.says_change) or (by_another and _of_oneself(old) and _of_oneself(new)):
        return None
    changed = RelationType.EVOLVED_INTO if judged.relation is Relation.CHANGED else RelationType.INVALIDATED_BY
    if judged.says_change:
        return changed, _STATED, f"the newer says that it changed: {judged.evidence}"
    dated = not any("created_at" in str(each.metadata.get("guessed")) for each in (old, new))
    if dated and not by_another and new.created_at - old.created_at >= _LATER:
        return changed, _DATED, f"a later day says otherwise: {judged.evidence}"
    return RelationType.CONTRADICTS, _OPEN, judged.evidence


def _of_oneself(memory: Memory) -> bool:
    return not word_set("question.first_person").isdisjoint(words(memory.content))
