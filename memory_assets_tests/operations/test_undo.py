"""Corrections are permanent: what `undo`, `forget --restore` and `supersede` may revive, and what not."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.errors import ConflictError, MemoryAssetsError
from memory_assets.graph.edges import refresh_graph
from memory_assets.ingest.direct import store_memories
from memory_assets.models import Kind, Memory, NewMemory, RelationType, Source, State
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.changes import edit, forget, restore, supersede, tag
from memory_assets.operations.relate import relate, relations
from memory_assets.operations.show import recent_changes
from memory_assets.operations.store import store
from memory_assets.operations.take_in import take_in
from memory_assets.operations.undo import undo
from memory_assets.settings import load_settings
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.rows import new_id
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo, filled_once
from memory_assets_tests.torture import zygote


def stored(tenant: Tenant, text: str) -> int:
    return store(tenant, NewMemory(text, Source.CLI)).id


def state(tenant: Tenant, number: int) -> State:
    (found,) = tenant.memories.get([number])
    return found.state


@pytest.fixture
def old(tenant: Tenant) -> int:
    return filled_once(tenant, "undo", lambda: stored(tenant, "Priya owns the billing export."))


def test_a_text_that_an_edit_replaced_is_not_brought_back_beside_the_newer_one(tenant: Tenant, old: int) -> None:
    newer = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    for change in (restore, forget, lambda tenant, number: tag(tenant, number, add=["x"])):
        with pytest.raises(ConflictError, match=str(newer)):
            change(tenant, old)
    assert (state(tenant, old), state(tenant, newer)) == (State.SUPERSEDED, State.ACTIVE)


def test_an_edit_that_was_taken_back_is_not_restored_beside_the_text_that_holds(tenant: Tenant, old: int) -> None:
    newer = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    undo(tenant, newer)
    with pytest.raises(ConflictError, match=str(old)):
        restore(tenant, newer)
    assert (state(tenant, old), state(tenant, newer)) == (State.ACTIVE, State.FORGOTTEN)


def test_an_edit_whose_text_was_forgotten_is_taken_back_as_an_edit(tenant: Tenant, old: int) -> None:
    forget(tenant, edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id)
    assert undo(tenant, old).did == "edit"
    assert state(tenant, old) is State.ACTIVE


def test_of_two_edits_that_were_taken_back_neither_is_restored_beside_the_first_text(tenant: Tenant, old: int) -> None:
    second = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    third = edit(tenant, second, "Nina owns the billing export.", source=Source.CLI).id
    undo(tenant, second)
    undo(tenant, old)
    for taken_back in (second, third):
        with pytest.raises(ConflictError, match=str(old)):
            restore(tenant, taken_back)
    assert [state(tenant, each) for each in (old, second, third)] == [State.ACTIVE, State.FORGOTTEN, State.FORGOTTEN]


def test_of_two_versions_that_were_taken_back_and_forgotten_one_alone_is_restored(tenant: Tenant, old: int) -> None:
    second = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    third = edit(tenant, second, "Nina owns the billing export.", source=Source.CLI).id
    undo(tenant, second)
    undo(tenant, old)
    forget(tenant, old)
    restore(tenant, third)
    for change, number in ((restore, old), (undo, old), (restore, second)):
        with pytest.raises(ConflictError, match=str(third)):
            change(tenant, number)
    assert [state(tenant, each) for each in (old, second, third)] == [State.FORGOTTEN, State.FORGOTTEN, State.ACTIVE]


def test_an_undo_brings_no_text_back_beside_another_edit_of_it(tenant: Tenant, old: int) -> None:
    first = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    undo(tenant, first)
    second = edit(tenant, old, "Nina owns the billing export.", source=Source.CLI).id
    forget(tenant, second)
    restore(tenant, first)
    for change, number in ((undo, old), (restore, second)):
        with pytest.raises(ConflictError, match=str(first)):
            change(tenant, number)


@pytest.mark.parametrize(("is_forgotten", "text"), [(False, ""), (True, ""), (True, "Nina owns the billing export.")])
def test_what_a_file_no_longer_says_is_restored_with_the_file_alone(
    tenant: Tenant, write_silo: WriteSilo, is_forgotten: bool, text: str
) -> None:
    path = write_silo("owner", "Priya owns the billing export.")
    take_in(tenant)
    (number,) = tenant.memories.scan(("id",))["id"].to_pylist()
    if is_forgotten:
        forget(tenant, number)
    if text:
        write_silo("owner", text)
    else:
        path.unlink()
    take_in(tenant)
    before = state(tenant, number)
    for change in (restore, undo):
        with pytest.raises(
            ConflictError, match=r"owner[.]md did not say it at the last run; put the file back and run .*, or .*memory store"
        ):
            change(tenant, number)
    assert state(tenant, number) is before
    write_silo("owner", "Priya owns the billing export.")
    take_in(tenant)
    assert restore(tenant, number).active
    take_in(tenant)
    assert state(tenant, number) is State.ACTIVE


def test_a_relation_of_files_can_be_taken_back_after_an_attribute_of_them_changed(tenant: Tenant, write_silo: WriteSilo) -> None:
    texts = {"one": "The boat is moored in Hoorn.", "two": "The choir meets on Tuesday."}
    for name, text in texts.items():
        write_silo(name, text)
    take_in(tenant)
    first, second = tenant.memories.scan(("id",))["id"].to_pylist()
    relate(tenant, first, RelationType.RELATES_TO, second, note="both hold", stated_by="cli")
    for name, text in texts.items():
        write_silo(name, text, "reference")
    take_in(tenant)
    assert undo(tenant, first).did == "relate"
    assert not relations(tenant, first).count


@pytest.mark.parametrize("by", ["older", "newer"])
def test_an_undo_takes_one_edit_back_and_not_the_one_before(tenant: Tenant, old: int, by: str) -> None:
    second = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    third = edit(tenant, second, "Nina owns the billing export.", source=Source.CLI).id
    named = second if by == "older" else third
    undone = undo(tenant, named)
    assert (undone.did, undone.count) == ("edit", 2)
    assert undo(tenant, named).count == 0
    assert [state(tenant, each) for each in (old, second, third)] == [State.SUPERSEDED, State.ACTIVE, State.FORGOTTEN]


def test_changes_of_a_past_time_are_listed_however_many_came_later(tenant: Tenant, old: int) -> None:
    tag(tenant, old, add=["billing"])
    until = datetime.now(UTC)
    newer = [stored(tenant, f"Note {number}.") for number in range(3)]
    past = recent_changes(tenant, limit=1, narrowed=Narrowing(until=until))
    assert [(each.memory_id, each.did) for each in past.changes] == [(old, "tag")]
    assert [each.memory_id for each in recent_changes(tenant, limit=1).changes] == [newer[-1]]
    later = until + timedelta(hours=9)
    ahead = Memory(new_id(), "The keel is new.", Kind.NOTE, Source.CLI, "", later, later)
    tenant.memories.add([ahead], tenant.embedder.embed([ahead.content]), tenant.embedder.name)
    assert [each.memory_id for each in recent_changes(tenant, limit=2).changes] == [ahead.id, newer[-1]]
    elsewhere = store(tenant, NewMemory("The mast is new.", Source.CLI, project="/boats")).id
    of_boats = recent_changes(tenant, narrowed=Narrowing(project="/boats"))
    assert [each.memory_id for each in of_boats.changes] == [elsewhere]


def test_an_undo_takes_back_tags_and_nothing_else(tenant: Tenant, old: int) -> None:
    before = tenant.memories.get([old])[0].tags
    tag(tenant, old, add=["money"])
    undo(tenant, old)
    assert undo(tenant, old).count == 0
    assert (tenant.memories.get([old])[0].tags, state(tenant, old)) == (before, State.ACTIVE)


def test_no_memory_replaces_what_replaces_it(tenant: Tenant, old: int) -> None:
    second, third = stored(tenant, "Oona owns the billing export."), stored(tenant, "Nina owns the billing export.")
    relate(tenant, old, RelationType.EVOLVED_INTO, second, stated_by="cli")
    relate(tenant, second, RelationType.INVALIDATED_BY, third, stated_by="cli")
    for source, last in ((second, old), (third, second)):
        with pytest.raises(ConflictError, match=f"memory undo {last}"):
            relate(tenant, source, RelationType.EVOLVED_INTO, old, stated_by="cli")
    relate(tenant, third, RelationType.RELATES_TO, old, stated_by="cli")
    undo(tenant, second)
    assert relate(tenant, third, RelationType.EVOLVED_INTO, old, stated_by="cli").target_id == old


def test_an_undo_takes_back_what_was_stated_and_the_graph_follows(tenant: Tenant, old: int) -> None:
    other = stored(tenant, "The garage has a new door.")

    def edges() -> int:
        refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
        with tenant.catalog.read() as connection:
            return connection.execute("SELECT count(*) FROM graph_edges WHERE type = 'LEADS_TO'").fetchone()[0]  # type: ignore[index]

    relate(tenant, old, RelationType.LEADS_TO, other, note="first", stated_by="cli")
    relate(tenant, old, RelationType.LEADS_TO, other, confidence=0.5, note="second", stated_by="cli")
    assert edges() == 1
    undo(tenant, old)
    (again,) = relations(tenant, old).relations
    assert (again.note, again.confidence) == ("first", 1.0)
    relate(tenant, other, RelationType.LEADS_TO, old, stated_by="cli")
    assert edges() == 2
    undo(tenant, old)
    assert undo(tenant, other).count == 0
    assert relations(tenant, old).count == 1
    assert edges() == 1
    assert (state(tenant, old), state(tenant, other)) == (State.ACTIVE, State.ACTIVE)


def test_an_undo_takes_back_the_last_supersession_alone(tenant: Tenant, old: int) -> None:
    older, newer = stored(tenant, "Quinn owns the billing export."), stored(tenant, "Nina owns the billing export.")
    supersede(tenant, older, newer)
    supersede(tenant, str(old), str(newer))
    undo(tenant, newer)
    undo(tenant, newer)
    assert [state(tenant, each) for each in (older, old, newer)] == [State.SUPERSEDED, State.ACTIVE, State.ACTIVE]


@pytest.mark.parametrize("by", ["older", "newer"])
def test_an_undone_supersession_brings_back_no_text_that_was_forgotten_before(tenant: Tenant, old: int, by: str) -> None:
    newer = stored(tenant, "Nina owns the billing export.")
    forget(tenant, old)
    supersede(tenant, old, newer)
    undo(tenant, old if by == "older" else newer)
    assert (state(tenant, old), state(tenant, newer)) == (State.FORGOTTEN, State.ACTIVE)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda _tenant, _old: None, State.FORGOTTEN),
        (forget, State.ACTIVE),
        (lambda tenant, old: (forget(tenant, old), restore(tenant, old)), State.FORGOTTEN),
        (lambda tenant, old: tenant.memories.transition([old], {State.ACTIVE}, State.ARCHIVED), State.ACTIVE),
    ],
)
def test_an_undo_is_done_once_however_often_it_is_asked_for(
    tenant: Tenant, old: int, prepare: Callable[[Tenant, int], object], expected: State
) -> None:
    prepare(tenant, old)
    for _ in range(3):
        undo(tenant, old)
    assert state(tenant, old) is expected


def _kill_before(commit: int, change: Callable[..., object], *given: object, **named: object) -> None:
    """Call a function in a process that dies just before its `commit`th commit."""
    ended = zygote.shared().call(_die_before, commit, change, given, named).wait()
    assert ended.killed or not ended.code, ended.err


def _die_before(commit: int, change: Callable[..., object], given: tuple[object, ...], named: dict[str, object]) -> None:
    commits = 0

    def counting(work: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object, **named: object) -> object:
            nonlocal commits
            commits += 1
            if commits == commit:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*given, **named)

        return counted

    for owner, names in ((MemoryStore, ("change_together", "transition", "update")), (RelationStore, ("state", "withdraw"))):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, counting(getattr(owner, name)))
    change(Tenant(load_settings()), *given, **named)


@pytest.mark.parametrize("commit", [1, 2, 3])
@pytest.mark.parametrize("again", [False, True])
def test_a_relate_that_was_killed_hides_no_earlier_change(tenant: Tenant, old: int, commit: int, again: bool) -> None:
    other = stored(tenant, "The garage has a new door.")
    tag(tenant, old, add=["mine"])
    stating = (old, RelationType.LEADS_TO, other)
    _kill_before(commit, relate, *stating, confidence=0.7, stated_by="cli")
    if again:
        relate(tenant, *stating, confidence=0.7, stated_by="cli")
    happened = again or commit == 3
    assert relations(tenant, old).count == happened
    undo(tenant, old)
    assert relations(tenant, old).count == 0
    (found,) = tenant.memories.get([old])
    assert ("mine" in found.tags) == happened


def test_a_relation_stated_again_after_a_killed_undo_can_be_taken_back(tenant: Tenant, old: int) -> None:
    other = stored(tenant, "The garage has a new door.")
    relate(tenant, old, RelationType.LEADS_TO, other, stated_by="cli")
    _kill_before(2, undo, old)
    relate(tenant, old, RelationType.LEADS_TO, other, stated_by="cli")
    undo(tenant, other)
    assert relations(tenant, old).count == 0


@pytest.mark.parametrize("commit", [1, 2, 3])
@pytest.mark.parametrize("change", ["edit", "relate", "supersede"])
def test_an_undo_that_was_killed_is_run_again(tenant: Tenant, old: int, change: str, commit: int) -> None:
    other = stored(tenant, "The garage has a new door.")
    if change == "edit":
        other = edit(tenant, old, "Oona owns the billing export.", source=Source.CLI).id
    elif change == "supersede":
        supersede(tenant, old, other)
    else:
        relate(tenant, old, RelationType.LEADS_TO, other, stated_by="cli")
    _kill_before(commit, undo, old)
    undo(tenant, old)
    expected = State.FORGOTTEN if change == "edit" else State.ACTIVE
    assert (state(tenant, old), state(tenant, other)) == (State.ACTIVE, expected)
    assert relations(tenant, old).count == 0


def test_opposite_supersessions_at_once_never_make_a_circle(tenant: Tenant) -> None:
    def attempt(pair: tuple[int, int]) -> bool:
        try:
            supersede(Tenant(tenant.settings), *pair)
        except MemoryAssetsError:
            return False
        return True

    for number in range(6):
        notes = [NewMemory(f"Note {number} of {name}.", Source.CLI) for name in ("Ana", "Ben", "Cleo")]
        ids = [each.memory.id for each in store_memories(tenant, notes)]
        pairs = list(zip(ids, [*ids[1:], ids[0]], strict=True)) if number % 2 else [(ids[0], ids[1]), (ids[1], ids[0])]
        with ThreadPoolExecutor(len(pairs)) as threads:
            list(threads.map(attempt, pairs))
        assert any(state(tenant, each) is State.ACTIVE for each in ids[: len(pairs)])
