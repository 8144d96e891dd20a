"""A repeated import keeps a person's later decisions, and every chunk reaches the readers of the change feed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from memory_assets.ingest import direct
from memory_assets.ingest.direct import ImportOutcome, import_memories
from memory_assets.models import Memory, NewMemory, Source, State
from memory_assets.operations.changes import edit, forget, tag
from memory_assets.stores import feed
from memory_assets.tenants import Tenant

LINE = NewMemory("The parser lives in the tools folder.", Source.IMPORT, id=7, tags=("Build",))
CHANGED = replace(LINE, content="The parser lives in the library folder.")


def imported(tenant: Tenant, *lines: NewMemory) -> ImportOutcome:
    return import_memories(tenant, lines, lambda _done, _total: None)


def memory(tenant: Tenant, number: int = 7) -> Memory:
    (found,) = tenant.memories.get([number])
    return found


def test_a_changed_line_leaves_a_forgotten_memory_forgotten(tenant: Tenant) -> None:
    imported(tenant, LINE)
    forget(tenant, 7)
    assert imported(tenant, CHANGED).updated == 1
    assert (memory(tenant).state, memory(tenant).content) == (State.FORGOTTEN, CHANGED.content)
    assert imported(tenant, CHANGED).unchanged == 1


def test_a_changed_line_leaves_an_edited_memory_as_history(tenant: Tenant) -> None:
    imported(tenant, LINE)
    newer = edit(tenant, 7, "The parser lives in a package of its own.", source=Source.CLI)
    imported(tenant, CHANGED)
    assert (memory(tenant).state, memory(tenant).superseded_by) == (State.SUPERSEDED, newer.id)
    assert memory(tenant, newer.id).state is State.ACTIVE


def test_a_changed_line_keeps_tags_and_creation_time_and_finds_automatic_tags_anew(tenant: Tenant) -> None:
    imported(tenant, LINE)
    tag(tenant, 7, add=["Urgent"])
    created_at = memory(tenant).created_at
    imported(tenant, CHANGED)
    tags = memory(tenant).tags
    assert {"build", "urgent"} < set(tags)
    assert not set(tenant.analyzer.analyze(LINE.content).tags) - set(tenant.analyzer.analyze(CHANGED.content).tags) & set(tags)
    assert memory(tenant).created_at == created_at


def test_of_two_lines_of_one_id_the_last_counts_and_the_other_is_told(tenant: Tenant) -> None:
    assert imported(tenant, LINE, CHANGED) == ImportOutcome(added=1, updated=0, unchanged=0, repeated=1)
    assert memory(tenant).content == CHANGED.content
    assert imported(tenant, LINE, CHANGED) == ImportOutcome(added=0, updated=0, unchanged=1, repeated=1)


def test_a_line_that_states_its_time_sets_it(tenant: Tenant) -> None:
    imported(tenant, LINE)
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    imported(tenant, replace(CHANGED, created_at=moment))
    assert memory(tenant).created_at == moment


def test_every_chunk_of_an_import_reaches_the_change_feed(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_CHUNK", 1)
    monkeypatch.setattr(feed, "CLOCK_SLACK", timedelta(0))
    lines = [replace(LINE, id=number) for number in (1, 2)]
    imported(tenant, *lines)
    known: list[feed.Position] = []

    def read(_done: int, _total: int) -> None:
        known.append(tenant.memories.changes(None, Nothing(), ("id",)).position)

    import_memories(tenant, [replace(line, content="Changed.") for line in lines], read)
    changes = tenant.memories.changes(known[0], Nothing(), ("id", "content"))
    assert 2 in changes.rows["id"].to_pylist()


def test_a_memory_is_put_with_the_present_time_whatever_it_brings(tenant: Tenant) -> None:
    imported(tenant, LINE)
    before = tenant.memories.changes(None, Nothing(), ("id",)).position
    old = replace(memory(tenant), content="Changed.", updated_at=datetime.now(UTC) - timedelta(hours=1))
    vectors = tenant.embedder.embed(["Changed."])
    tenant.memories.put([old], vectors, tenant.embedder.name)
    updated = tenant.memories.table.search().select(["updated_at"]).to_arrow()["updated_at"][0].as_py()
    assert updated >= before.read_at


class Nothing:
    """A reader of the feed without any state, which must therefore get every change by its time."""

    def __len__(self) -> int:
        return 2

    def ids(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.array([1, 2], np.int64)

    def updated(self, ids: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.zeros(len(ids), np.int64)
