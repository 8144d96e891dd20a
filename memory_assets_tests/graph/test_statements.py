"""Candidates for replaced statements."""

import pyarrow as pa

from memory_assets.graph.statements import find_candidates, read_statements
from memory_assets.stores.catalog import copy_in
from memory_assets_tests.graph.conftest import World


def test_a_statement_of_several_pairs_is_held_once(world: World) -> None:
    world.refresh()
    for number in range(1, 5):
        world.put(number, f"The choir of Hoorn meets in hall {number}.", days=10 - number)
    memories = world.tenant.memories.get(range(1, 5))
    changed = {"touched": pa.table({"id": [memory.id for memory in memories]}), "changed_statements": read_statements(memories)}
    with world.catalog.read() as connection:
        copy_in(connection, changed)
        pairs = find_candidates(connection)
    assert {(old["memory_id"], new["memory_id"]) for old, new in pairs} == {(a, b) for b in range(1, 5) for a in range(1, b)}
    assert len({id(statement) for pair in pairs for statement in pair}) == len(memories)
