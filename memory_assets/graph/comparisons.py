"""Compare changed memories with those most similar to them: which say the same in other words.

What replaces or contradicts another is found sentence by sentence, see `memory_assets.graph.statements`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.graph.neighbours import nearest_to
from memory_assets.language.statements import NEAR, says_the_same
from memory_assets.models import Memory

if TYPE_CHECKING:
    from memory_assets.stores.memories import MemoryStore

_NEIGHBOURS = 12
"""Memories that each is compared with: the nearest."""

SCHEMA = pa.schema([("one", pa.int64()), ("two", pa.int64()), ("similarity", pa.float32())])
"""Ids of two memories that say the same, the older first."""


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
    found = []
    for ids, similarity in pairs.items():
        if all(number in known for number in ids):
            old, new = sorted((known[number] for number in ids), key=lambda memory: (memory.created_at, memory.id))
            if old.content_hash != new.content_hash and says_the_same(old.content, new.content, similarity):
                found.append({"one": old.id, "two": new.id, "similarity": similarity})
    return pa.Table.from_pylist(found, schema=SCHEMA)
