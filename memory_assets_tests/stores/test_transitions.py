"""Two concurrent writers: a person's change is kept."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memory_assets.models import Kind, Memory, Source, State
from memory_assets.stores import lance
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import new_id, to_arrow

THEN = datetime.now(UTC) - timedelta(days=1)
Act = Callable[[], object]


def memory(content: str) -> Memory:
    return Memory(new_id(), content, Kind.NOTE, Source.CLI, "", THEN, THEN)


def vectors(count: int) -> np.ndarray:
    return np.full((count, 4), 0.5, np.float32)


@pytest.fixture
def one() -> Memory:
    return memory("Alice debugs the lock")


@pytest.fixture
def two() -> Memory:
    return memory("Bob mends the pump")


@pytest.fixture
def person(tmp_path: Path, one: Memory, two: Memory) -> MemoryStore:
    """Another process's handle on a store of two memories."""
    store = MemoryStore(str(tmp_path / "vectors"))
    store.put([one, two], vectors(2), "test")
    return store


@pytest.fixture
def store(person: MemoryStore) -> MemoryStore:
    """A handle that does not check for other processes' commits by itself."""
    opened = MemoryStore(person.uri, freshness=1_000)
    opened.prepare()
    assert opened.columns.embedder == "test"
    return opened


@pytest.fixture
def meanwhile(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Call a function just before the next commit, after everything for the commit has been read."""

    def plan(act: Act) -> None:
        acts, look = [act], store.stored.writing.checkout_latest

        def looking() -> None:
            look()
            if acts:
                acts.pop()()

        monkeypatch.setattr(store.stored.writing, "checkout_latest", looking)

    return plan


def state(store: MemoryStore, wanted: Memory) -> State:
    return store.get([wanted.id])[0].state


def test_only_who_is_in_a_source_state_moves_and_is_told(store: MemoryStore, one: Memory, two: Memory) -> None:
    assert store.transition([one.id], (State.ACTIVE,), State.FORGOTTEN) == [one.id]
    assert store.transition([one.id, two.id, 7], (State.ACTIVE,), State.ARCHIVED) == [two.id]
    assert store.transition([one.id, two.id], (State.VANISHED,), State.ACTIVE) == []
    assert (state(store, one), state(store, two)) == (State.FORGOTTEN, State.ARCHIVED)


def test_rows_that_the_indices_hold_change_as_new_ones_do(store: MemoryStore, one: Memory, two: Memory) -> None:
    store.stored.writing.optimize()
    assert store.transition([one.id], State, State.FORGOTTEN) == [one.id]
    rows = pa.table({"id": [two.id], "title": ["set"], "updated_at": [datetime.now(UTC)]})
    assert store.update(rows, [two.updated_at]) == 1
    assert (state(store, one), store.get([two.id])[0].title) == (State.FORGOTTEN, "set")


def test_who_is_forgotten_while_a_cycle_archives_stays_forgotten(
    store: MemoryStore, person: MemoryStore, one: Memory, two: Memory, meanwhile: Callable[[Act], None]
) -> None:
    meanwhile(lambda: person.transition([one.id], (State.ACTIVE,), State.FORGOTTEN))
    assert store.transition([one.id, two.id], (State.ACTIVE,), State.ARCHIVED) == [two.id]
    assert state(person, one) == State.FORGOTTEN


def test_what_a_row_was_given_while_it_moves_is_kept(
    store: MemoryStore, person: MemoryStore, one: Memory, two: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced, acts = lance.aligned, [lambda: edit(person, one)]

    def late(*given: pa.Table | pa.Schema) -> pa.Table:
        if acts:
            acts.pop()()
        return replaced(*given)

    monkeypatch.setattr(lance, "aligned", late)
    assert store.transition([one.id, two.id], State, State.FORGOTTEN) == [one.id, two.id]
    kept, other = person.get([one.id, two.id])
    assert (kept.content, kept.state, other.state) == ("edited", State.FORGOTTEN, State.FORGOTTEN)


@pytest.mark.parametrize("few", [0, 2_000])
def test_few_rows_and_many_change_alike(store: MemoryStore, one: Memory, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(lance, "_MAX_ROWS_READ_WHOLE", few)
    before = store.get([one.id])[0]
    assert store.transition([one.id, 7], (State.ACTIVE,), State.VANISHED) == [one.id]
    after = store.get([one.id])[0]
    assert replace(after, updated_at=before.updated_at, state=State.ACTIVE) == before


def edit(person: MemoryStore, wanted: Memory) -> None:
    person.put([replace(wanted, content="edited", updated_at=datetime.now(UTC))], vectors(1), "test")


def test_who_is_edited_meanwhile_is_neither_updated_nor_replaced_nor_deleted_nor_archived(
    store: MemoryStore, person: MemoryStore, one: Memory, meanwhile: Callable[[Act], None]
) -> None:
    now = datetime.now(UTC)
    rows = pa.table({"id": [one.id], "title": ["computed"], "updated_at": pa.array([now], pa.timestamp("us", tz="UTC"))})
    works: list[Act] = [
        lambda: store.update(rows, [one.updated_at]),
        lambda: store.put([replace(one, content="computed", updated_at=now)], vectors(1), "test", [one.updated_at]),
        lambda: store.delete([one.id], [one.updated_at]),
        lambda: store.transition([one.id], (State.ACTIVE,), State.ARCHIVED, read_at=[one.updated_at]),
    ]
    for work in works:
        meanwhile(lambda: edit(person, one))
        work()
        (kept,) = person.get([one.id])
        assert (kept.content, kept.title, kept.state) == ("edited", "", State.ACTIVE)
        person.put([one], vectors(1), "test")


def test_who_is_forgotten_while_its_successor_is_embedded_stays_forgotten(
    store: MemoryStore, person: MemoryStore, one: Memory, two: Memory, meanwhile: Callable[[Act], None]
) -> None:
    new = memory("Alice found the lock")
    rows = store.columns.fill(to_arrow([new]), vectors(1), "test")
    meanwhile(lambda: person.transition([one.id], (State.ACTIVE,), State.FORGOTTEN))
    assert store.insert_superseding(rows, {one.id: new.id, two.id: new.id}) == 1
    assert [state(person, each) for each in (one, two, new)] == [State.FORGOTTEN, State.SUPERSEDED, State.ACTIVE]
