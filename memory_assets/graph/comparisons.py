"""Compare changed memories with those most similar to them: which say the same, and which replace or contradict another.

A memory that gives another value than an older one is its next version (EVOLVED_INTO), one that denies it invalidates it
(INVALIDATED_BY): if it says so ("no longer", "now"), or if the same author wrote it on a later day. Otherwise the two contradict each
other (CONTRADICTS). What happened at two times ("bought three", "bought five") is no contradiction.
Conversation turns count only if the newer one says that it changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from memory_assets.graph.neighbours import nearest_to
from memory_assets.language.english import word_set
from memory_assets.language.statements import NEAR, Judgement, Relation, difference, find_replaced, is_long, judge
from memory_assets.language.words import words
from memory_assets.models import Kind, Memory, RelationType

if TYPE_CHECKING:
    from memory_assets.stores.memories import MemoryStore

_NEIGHBOURS = 12
"""Memories that each is compared with: the nearest."""
_LATER = timedelta(days=1)
"""From which a newer memory of another value is a change rather than a contradiction."""
_OF_A_MOMENT = frozenset({Kind.RATING, Kind.REFLECTION, Kind.SESSION})
"""Kinds whose memories are of one time: another time it is otherwise."""
_STATED, _DATED, _OPEN, _LIKELY = 0.9, 0.75, 0.7, 0.6
"""Confidence of a change that the newer text states, of one that the dates show, of a contradiction, and of a likely change."""
_ANNOUNCED, _UNANNOUNCED = (0.25, 0.76), (0.55, 0.84)
"""Probability and similarity from which the likeliest change is one: with and without words of change. A text of another fact of
the subject exceeds neither (`benchmarks/sets/changes_train.jsonl`)."""

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


class _Comparison(NamedTuple):
    """An older memory beside a newer one."""

    old: Memory
    new: Memory
    similarity: float
    judged: Judgement


def _edges(pairs: dict[tuple[int, int], float], known: dict[int, Memory]) -> Iterable[dict[str, Any]]:
    of_newer: dict[int, list[_Comparison]] = defaultdict(list)
    for ids, similarity in pairs.items():
        if any(number not in known for number in ids):
            continue
        old, new = sorted((known[number] for number in ids), key=lambda memory: (memory.created_at, memory.id))
        if old.content_hash != new.content_hash:
            of_newer[new.id].append(_Comparison(old, new, similarity, judge(old.content, new.content, similarity)))
    for compared in of_newer.values():
        best = max(compared, key=lambda each: each.judged.differs)
        for each in compared:
            if found := _edge(each, best):
                kind, confidence, note = found
                ends = {"source_id": each.old.id, "target_id": each.new.id, "similarity": each.similarity}
                yield ends | {"type": kind, "confidence": confidence or each.similarity, "note": note}


def _edge(compared: _Comparison, best: _Comparison) -> tuple[RelationType, float, str] | None:
    """The edge between two memories; `best` is what the newer one most likely changes."""
    old, new, _, judged = compared
    if not _OF_A_MOMENT.isdisjoint((old.kind, new.kind)) and judged.relation is not Relation.SAME:
        return None
    if judged.relation is Relation.SAME:
        return RelationType.REINFORCES, 0.0, "says the same"
    if old.session and new.session and not judged.says_change:
        return None
    is_later = new.created_at - old.created_at >= _LATER
    if replaced := find_replaced(old.content, new.content):
        return RelationType.EVOLVED_INTO, _STATED, f"the newer says that it changed: {replaced}"
    by_another = old.author != new.author and bool(old.author and new.author)
    if (judged.is_event and not judged.says_change) or (by_another and _of_oneself(old) and _of_oneself(new)):
        return None
    is_dated = is_later and not by_another and not any("created_at" in str(each.metadata.get("guessed")) for each in (old, new))
    if judged.relation is Relation.RELATED or not judged.is_sure:
        if judged.says_change and is_later and old.title and old.title.casefold() == new.title.casefold():
            return RelationType.EVOLVED_INTO, _DATED, "bears the same name on a later day, and says that something changed"
        if is_dated and compared is best and not (old.session and new.session) and _is_likely(compared):
            return (
                RelationType.EVOLVED_INTO,
                _LIKELY,
                f"most likely what a later day changed: {difference(old.content, new.content)}",
            )
        return None
    if compared is not best and not is_long(new.content) and not _is_version(old, best):
        return None
    changed = RelationType.EVOLVED_INTO if judged.relation is Relation.CHANGED else RelationType.INVALIDATED_BY
    if judged.says_change:
        return changed, _STATED, f"the newer says that it changed: {judged.evidence}"
    if is_dated:
        return changed, _DATED, f"a later day says otherwise: {judged.evidence}"
    return RelationType.CONTRADICTS, _OPEN, judged.evidence


def _is_likely(compared: _Comparison) -> bool:
    """Whether a short text probably changes the one short text that it most likely changes."""
    if is_long(compared.old.content) or is_long(compared.new.content):
        return False
    least, nearest = _ANNOUNCED if compared.judged.says_change else _UNANNOUNCED
    return compared.judged.differs >= least and compared.similarity >= nearest


def _is_version(old: Memory, best: _Comparison) -> bool:
    """Whether a memory states what the most likely one states, perhaps with another value: both are outdated then."""
    return judge(old.content, best.old.content, best.similarity).relation is not Relation.RELATED


def _of_oneself(memory: Memory) -> bool:
    return not word_set("question.first_person").isdisjoint(words(memory.content))
