import shutil
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.errors import InvalidInputError, NotFoundError, StoreError
from memory_assets.models import Entity, Kind, Memory, Source, State
from memory_assets.stores import lance, search, tables, upkeep
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.rows import derived_id, from_arrow, indexed_text, new_id, to_arrow
from memory_assets.stores.schema import VERSION_FACT
from memory_assets_tests.torture import zygote

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def memory(content: str = "a note", **fields: object) -> Memory:
    base = {"id": new_id(), "kind": Kind.NOTE, "source": Source.CLI, "source_key": "", "created_at": NOW, "updated_at": NOW}
    return Memory(content=content, **(base | fields))  # type: ignore[arg-type]


def unit(*places: int) -> np.ndarray:
    return np.eye(4, dtype=np.float32)[list(places)]


def _write(uri: str, writer: int) -> None:
    store = MemoryStore(uri)
    for number in range(12):
        store.add([memory(f"writer {writer} note {number}")], unit(number % 4), "test")


def _write_the_same(uri: str) -> None:
    store = MemoryStore(uri)
    for number in range(20):
        store.put([memory(f"note {number}", id=derived_id("key", str(number)), source_key="key")], unit(number % 4), "test")


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(str(tmp_path / "vectors"))


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(
    content=text,
    tags=st.lists(text, max_size=3),
    entities=st.lists(st.builds(Entity, text, text), max_size=3),
    metadata=st.dictionaries(text, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text, max_size=3),
    kind=st.sampled_from(Kind),
    state=st.sampled_from(State),
    superseded_by=st.none() | st.integers(1, 2**53 - 1),
)
def test_a_memory_comes_back_from_its_row_as_it_was(
    content: str, tags: list[str], entities: list[Entity], metadata: dict, kind: Kind, state: State, superseded_by: int | None
) -> None:
    before = memory(
        content,
        tags=tuple(tags),
        entities=tuple(entities),
        metadata=metadata,
        kind=kind,
        state=state,
        superseded_by=superseded_by,
    )
    assert from_arrow(to_arrow([before])) == [before]


@given(st.integers(0, 1000).map(str), text)
def test_ids_are_json_safe_and_the_same_for_the_same_source_text(key: str, digest: str) -> None:
    assert derived_id(key, digest) == derived_id(key, digest)
    assert 2**52 <= derived_id(key, digest) < 2**53
    assert 2**52 <= new_id() < 2**53


def test_what_is_put_is_found_by_meaning_by_words_and_by_time(store: MemoryStore) -> None:
    old = memory("Alice debugs the lock", created_at=NOW - timedelta(days=3))
    new = memory("the billing export runs nightly")
    store.put([old, new], unit(0, 1), "test")
    assert store.nearest(unit(1)[0], "test", 1, Filters())["id"].to_pylist() == [new.id]
    assert store.matching("debugging", 5, Filters())["id"].to_pylist() == [old.id]
    assert [each.id for each in store.recent(5, Filters())] == [new.id, old.id]
    assert store.recent(5, Filters(since=NOW - timedelta(days=1))) == [new]


def test_forgotten_memories_leave_every_search_and_come_back(store: MemoryStore) -> None:
    one = memory("Alice debugs the lock")
    store.put([one], unit(0), "test")
    store.transition([one.id], State, State.FORGOTTEN)
    assert store.nearest(unit(0)[0], "test", 5, Filters()).num_rows == 0
    assert store.matching("lock", 5, Filters()).num_rows == 0
    assert store.recent(5, Filters()) == []
    store.transition([one.id], State, State.ACTIVE)
    assert store.matching("lock", 5, Filters()).num_rows == 1


HOSTILE = ["' OR 1=1 --", "it's", '"', "a'); DROP TABLE memories; --", "%", "\\", "c++", "тест"]


def test_hostile_filter_values_match_only_themselves(store: MemoryStore) -> None:
    for tag in HOSTILE:
        marked, other = memory("one", tags=(tag,), project=tag), memory("two", tags=("plain",), project="p")
        store.put([marked, other], unit(0, 1), "test")
        assert store.recent(5, Filters(tags=[tag])) == [marked], tag
        assert store.recent(5, Filters(projects=[tag])) == [marked], tag


def test_any_text_may_be_asked_of_the_full_text_index(store: MemoryStore) -> None:
    store.put([memory("hello world")], unit(0), "test")
    for query in [*HOSTILE, "", "   ", "((", 'a AND "b', "title:x", "*", "hello~"]:
        assert store.matching(query, 5, Filters()).num_rows <= 1


def test_an_id_is_named_by_its_first_digits_where_they_fit_one(store: MemoryStore) -> None:
    one, two = memory("one", id=5_000_000_000_000_001), memory("two", id=5_100_000_000_000_002)
    store.put([one, two], unit(0, 1), "test")
    assert store.resolve("50") == one
    assert store.resolve("5100000000000002") == two
    with pytest.raises(InvalidInputError, match="more digits"):
        store.resolve("5")
    with pytest.raises(NotFoundError, match="no memory 77"):
        store.resolve("77")


def test_another_embedder_is_refused_with_the_command_that_moves_the_memories(store: MemoryStore) -> None:
    store.put([memory()], unit(0), "one")
    with pytest.raises(StoreError, match=r"embedded by one.*memory backfill"):
        store.nearest(unit(0)[0], "two", 5, Filters())
    with pytest.raises(StoreError, match="embedded by one"):
        store.put([memory()], np.ones((1, 8), np.float32), "one")
    assert len(store) == 1


def test_a_superseding_insert_is_one_commit(store: MemoryStore) -> None:
    old, new = memory("old"), memory("new")
    store.put([old], unit(0), "test")
    before = store.version
    store.insert_superseding(store.columns.fill(to_arrow([new]), unit(1), "test"), {old.id: new.id})
    assert store.version == before + 1
    (kept,) = store.get([old.id])
    assert (kept.state, kept.superseded_by) == (State.SUPERSEDED, new.id)
    assert store.nearest(unit(0)[0], "test", 5, Filters(states=[State.SUPERSEDED]))["id"].to_pylist() == [old.id]


def test_updating_some_columns_leaves_the_others(store: MemoryStore) -> None:
    one = memory("text", tags=("a",))
    store.put([one], unit(2), "test")
    store.transition([one.id], State, State.ARCHIVED)
    (kept,) = store.get([one.id])
    assert (kept.content, kept.tags, kept.state) == ("text", ("a",), State.ARCHIVED)
    found = store.nearest(unit(2)[0], "test", 1, Filters(states=[State.ARCHIVED]))
    assert found["similarity"].to_pylist() == pytest.approx([1.0])


def test_four_writers_and_a_reader_at_once_lose_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "vectors")
    writers = [zygote.shared().call(_write, uri, number) for number in range(4)]
    reader = MemoryStore(uri)
    seen = 0
    while not all(writer.ends_within(0.05) for writer in writers):
        found = reader.matching("note", 10, Filters()).num_rows
        assert found <= 10
        assert len(reader) >= seen
        seen = len(reader)
    assert [writer.wait().code for writer in writers] == [0] * 4
    ids = reader.scan(("id",))["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 48
    assert reader.table.count_rows("content LIKE 'writer 3 %'") == 12


def test_a_writer_that_others_beat_to_twenty_commits_tries_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put([memory("first")], unit(0), "test")
    add, beaten = store.table.add, iter(range(3))

    def conflicting(rows: object) -> object:
        if next(beaten, None) is not None:
            raise RuntimeError("lance error: Commit conflict for version 724: Failed to commit the transaction after 20 retries.")
        return add(rows)

    monkeypatch.setattr(store.table, "add", conflicting)
    store.add([memory("second")], unit(1), "test")
    assert len(store) == 2


def test_a_commit_after_which_something_fails_is_no_failed_commit(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add([memory("the first")], unit(0), "test")
    commit = store.table.add

    def failing_afterwards(rows: object) -> None:
        commit(rows)  # type: ignore[arg-type]
        raise RuntimeError("too many open files")

    monkeypatch.setattr(store.table, "add", failing_afterwards)
    store.add([memory("the second")], unit(1), "test")
    assert len(store) == 2


def test_processes_that_write_the_same_memories_at_once_leave_each_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "vectors")
    writers = [zygote.shared().call(_write_the_same, uri) for _ in range(3)]
    assert [writer.wait().code for writer in writers] == [0] * 3
    assert sorted(MemoryStore(uri).scan(("id",))["id"].to_pylist()) == sorted(derived_id("key", str(n)) for n in range(20))


def test_a_handle_sees_what_another_commits(tmp_path: Path) -> None:
    one, two = MemoryStore(str(tmp_path)), MemoryStore(str(tmp_path))
    one.put([memory("first")], unit(0), "test")
    assert len(two) == 1
    two.put([memory("second")], unit(1), "test")
    assert len(one) == 2


def test_compaction_keeps_every_row_and_its_order_of_relevance(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_WORTH_MERGING", 5)
    for number in range(7):
        store.put([memory(f"note {number} alpha")], unit(number % 4), "test")
    before = store.matching("alpha", 60, Filters())["id"].to_pylist()
    assert store.upkeep.optimize()
    assert sorted(store.matching("alpha", 60, Filters())["id"].to_pylist()) == sorted(before)
    assert not store.upkeep.optimize()


def test_the_oldest_memory_is_found_by_one_query_however_the_rows_lie(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put([memory(created_at=NOW - timedelta(days=days)) for days in range(20)], unit(*[0] * 20), "test")
    scan, asked = lance.scan, []
    monkeypatch.setattr(lance, "scan", lambda table: asked.append(1) or scan(table))
    assert store.oldest() == NOW - timedelta(days=19)
    assert len(asked) == 1


def test_a_scan_asks_for_no_schema_and_each_look_for_the_vector_column_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put([memory()], unit(0), "test")
    table, asked = store.table, []
    schema = table.schema
    monkeypatch.setattr(type(table), "schema", property(lambda _: asked.append(1) or schema))
    assert store.scan(("id",)).column_names == ["id"]
    assert not asked
    assert store.columns.searched("test", unit(0).shape[1]) == store.columns.live
    assert len(asked) == 2


def fill_indexed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Store 3,000 memories, of which every 300th has the tag "rare", with a vector index. Returns their vectors."""
    for module in (search, upkeep):
        monkeypatch.setattr(module, "SMALLEST", 2_000)
    vectors = np.random.default_rng(7).standard_normal((3_000, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [memory(f"note {number}", tags=["rare"] if number % 300 == 0 else []) for number in range(len(vectors))]
    store.put(rows, vectors, "test")
    assert store.upkeep.optimize()
    return vectors


def test_the_similarity_found_by_a_vector_index_is_the_cosine(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = fill_indexed(store, monkeypatch)
    found = store.nearest(vectors[0], "test", 20, Filters(), ("content",))
    numbers = [int(content.removeprefix("note ")) for content in found["content"].to_pylist()]
    assert np.allclose(found["similarity"].to_numpy(), vectors[numbers] @ vectors[0], atol=1e-5)


@pytest.mark.parametrize("most_measured", [10_000, 5])
def test_a_filter_that_few_rows_of_an_indexed_table_pass_hides_none_of_them(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, most_measured: int
) -> None:
    monkeypatch.setattr(search, "_MAX_MEASURED", most_measured)
    vectors = fill_indexed(store, monkeypatch)
    found = store.nearest(vectors[0], "test", 20, Filters(tags=["rare"]), ("content",))
    best = 300 * np.argsort(-vectors[::300] @ vectors[0])
    assert found["content"].to_pylist() == [f"note {number}" for number in best]
    assert np.allclose(found["similarity"].to_numpy(), vectors[best] @ vectors[0], atol=1e-5)


def leave_orphans(store: MemoryStore) -> list[Path]:
    """Copy a file of rows and an index as a commit leaves them that is killed before its end."""
    table = Path(store.uri) / "memories.lance"
    rows, index = table / "data" / "0101.lance", table / "_indices" / str(uuid4())
    shutil.copy(next((table / "data").iterdir()), rows)
    shutil.copytree(next((table / "_indices").iterdir()), index)
    return [index, rows]


@pytest.mark.parametrize(
    "fault", ["LanceError(IO): No space left on device (os error 28)", "Retryable commit conflict for version 7"]
)
def test_a_merge_that_fails_leaves_no_files(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    for number in range(50):
        store.put([memory(f"note {number}")], unit(number % 4), "test")
    left: list[Path] = []

    def full(**_given: object) -> None:
        left.extend(leave_orphans(store))
        raise RuntimeError(fault)

    with monkeypatch.context() as patched:
        patched.setattr(store.stored.writing, "optimize", full)
        with pytest.raises(StoreError, match="make room") if "space" in fault else nullcontext():
            assert not store.upkeep.optimize()
    assert left
    assert not any(path.exists() for path in left)
    assert (len(store), store.stored.lost_indices()) == (50, [])


def test_the_next_merge_removes_what_a_killed_one_left(store: MemoryStore) -> None:
    for number in range(50):
        store.put([memory(f"note {number}")], unit(number % 4), "test")
    left = leave_orphans(store)
    assert store.upkeep.optimize()
    assert not any(path.exists() for path in left)
    assert (len(store), store.stored.lost_indices()) == (50, [])


def test_the_files_of_a_running_commit_are_not_taken_for_those_of_a_killed_one(store: MemoryStore) -> None:
    store.put([memory()], unit(0), "test")
    left = leave_orphans(store)
    with store.stored.committing():
        assert store.stored.find_orphans(remove=True) == []
    assert all(path.exists() for path in left)
    assert store.stored.find_orphans() == left


def test_files_that_a_commit_names_after_the_first_look_are_no_orphans(store: MemoryStore) -> None:
    data, location = Path(store.uri) / "memories.lance" / "data", store.stored.location
    store.put([memory()], unit(0), "test")
    seen, before = location.version("memories"), set(data.iterdir())
    store.put([memory("A second note.")], unit(1), "test")
    left = leave_orphans(store)
    files = sorted({*data.iterdir(), *left} - before)
    assert len(files) > len(left)
    assert location.find_orphans("memories", files, location.version("memories")) == files
    assert location.find_orphans("memories", files, seen) == location.find_orphans("memories") == left


def test_a_store_of_a_newer_release_is_refused(store: MemoryStore) -> None:
    lance.set_facts(store.stored, {VERSION_FACT: "99"})
    for use in (len, MemoryStore.prepare):
        with pytest.raises(StoreError, match=r"schema version 99.*upgrade memory_assets, or start again"):
            use(MemoryStore(store.uri))


def test_a_damaged_store_is_named_with_its_mend(store: MemoryStore) -> None:
    store.put([memory()], unit(0), "test")
    table = Path(store.uri) / "memories.lance"
    shutil.rmtree(table / "_versions")
    (table / "_versions").mkdir()
    with pytest.raises(StoreError, match=r"cannot be opened.*backup"):
        len(MemoryStore(store.uri))


def test_a_lack_of_threads_is_no_damage(store: MemoryStore) -> None:
    store.put([memory()], unit(0), "test")
    with pytest.raises(StoreError, match="`ulimit -u`") as told, store.stored.explaining_errors("opened"):
        raise RuntimeError("can't start new thread")
    assert "restore" not in str(told.value)


def test_reading_creates_nothing_and_finds_nothing(store: MemoryStore) -> None:
    assert not store.exists
    assert (len(store), store.count(Filters()), store.columns.embedder) == (0, 0, None)
    assert store.recent(5, Filters()) == []
    assert store.get([1]) == []
    assert store.take([1], [-1]) == {}
    assert store.nearest(unit(0)[0], "test", 5, Filters()).num_rows == 0
    assert store.matching("anything", 5, Filters(), ("content",)).num_rows == 0
    assert store.scan(("id", "state"), "state = 'active'").num_rows == 0
    assert not store.upkeep.optimize()
    store.delete([1])
    with pytest.raises(NotFoundError):
        store.resolve("5")
    assert not Path(store.uri).exists()


def test_a_store_that_another_process_makes_is_seen_by_who_found_none(store: MemoryStore) -> None:
    other = MemoryStore(store.uri)
    assert len(other) == 0
    store.put([memory("Alice debugs the lock")], unit(0), "test")
    assert len(other) == 1
    assert other.matching("lock", 5, Filters()).num_rows == 1


@pytest.mark.parametrize("resident", [False, True])
def test_a_store_that_loses_its_files_while_it_is_open_is_named(store: MemoryStore, resident: bool) -> None:
    store.put([memory()], unit(0), "test")
    if resident:
        store.keep_resident(Allowance(1 << 20), Path(store.uri) / "cache")
        store.maintain_resident()
    shutil.rmtree(Path(store.uri) / "memories.lance")
    for read in (len, lambda store: store.scan(("content",)), lambda store: store.matching("text", 5, Filters())):
        with pytest.raises(StoreError, match=r"cannot be read.*backup"):
            read(store)


def test_who_when_and_where_are_part_of_what_is_searched() -> None:
    said = memory("the export is late", author="Priya", project="/home/ada/work/atlas", title="export-late")
    assert indexed_text(said).startswith("[Priya, 1 November 2026, atlas] export-late: the export")


def test_what_lancedb_keeps_in_memory_is_bounded_over_all_tables(tmp_path: Path) -> None:
    tables.session.cache_clear()
    bound = tables._INDEX_CACHE_BYTES + tables._METADATA_CACHE_BYTES
    kept = tables.session("memories").approx_num_items
    for name in ("one", "two"):
        store = MemoryStore(str(tmp_path / name))
        store.put([memory(f"alpha {n}") for n in range(20)], unit(0).repeat(20, axis=0), "test")
        assert store.matching("alpha", 5, Filters()).num_rows == 5
        assert tables.session("memories").approx_num_items > kept
        kept = tables.session("memories").approx_num_items
    assert 0 < tables.session("memories").size_bytes < bound


def test_a_table_made_again_where_one_was_has_nothing_of_it(tmp_path: Path) -> None:
    for text in ("old", "new"):
        store = MemoryStore(str(tmp_path / "vectors"))
        store.put([memory(text)], unit(0), "test")
        assert store.scan(("content",))["content"].to_pylist() == [text]
        assert store.matching(text, 5, Filters(), ("content",))["content"].to_pylist() == [text]
        shutil.rmtree(tmp_path / "vectors")
