"""Comparison of changed memories with the most similar ones, to find those that say the same in other words.

Replacements and contradictions are found sentence by sentence in `memory_assets.graph.statements`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.graph.neighbours import nearest_to
from memory_assets.language.judge import is_short, says_the_same
from memory_assets.language.words import is_unspaced
from memory_assets.models import Memory

if TYPE_CHECKING:
    from memory_assets.stores.memories import MemoryStore

_NEIGHBOURS = 12
_LEAST = 0.85
"""Similarity on the common scale from which the network reads two texts together, which takes milliseconds."""
_PAIRS_AT_ONCE = 500
"""Pairs that the network reads between two reports of progress."""

SCHEMA = pa.schema([("one", pa.int64()), ("two", pa.int64()), ("similarity", pa.float32())])
"""Ids of two memories that say the same, the older first."""


def compare_neighbours(store: "MemoryStore", changed: Sequence[Memory], on_progress: Callable[[int, int], None]) -> pa.Table:
    """Return the pairs (`SCHEMA`) of a changed memory and a similar one that say the same."""
    near = nearest_to(store, [memory.id for memory in changed], _NEIGHBOURS, least=_LEAST)
    pairs = {
        (min(one, other), max(one, other)): similarity
        for one, other, similarity in zip(*(near[name].to_pylist() for name in ("id", "other", "similarity")), strict=True)
    }
    known = {memory.id: memory for memory in changed}
    known |= {memory.id: memory for memory in store.get({number for pair in pairs for number in pair} - known.keys())}
    asked = [
        (*sorted((known[number] for number in ids), key=lambda memory: (memory.created_at, memory.id)), similarity)
        for ids, similarity in pairs.items()
        # The network reads short texts in full and is weak in scripts without spaces.
        if all(number in known and is_short(known[number].content) and not is_unspaced(known[number].content) for number in ids)
    ]
    asked = [(old, new, similarity) for old, new, similarity in asked if old.content_hash != new.content_hash]
    same: list[bool] = []
    for start in range(0, len(asked), _PAIRS_AT_ONCE):
        same += says_the_same([(old.content, new.content) for old, new, _ in asked[start : start + _PAIRS_AT_ONCE]])
        on_progress(len(same), len(asked))
    return pa.Table.from_pylist(
        [
            {"one": old.id, "two": new.id, "similarity": similarity}
            for (old, new, similarity), is_same in zip(asked, same, strict=True)
            if is_same
        ],
        schema=SCHEMA,
    )
