import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_assets.errors import StoreError
from memory_assets.models import Entity, Kind, Memory, Source, State, TextVectors
from memory_assets.stores import lance, tables
from memory_assets.stores.location import Location
from memory_assets.stores.memories import Filters, MemoryStore
from memory_assets.stores.resident.copies import remove_copies
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.resident.segment import Segment
from memory_assets.stores.rows import new_id, to_arrow
from memory_assets.stores.search import DiskSearch
from memory_assets_tests.conftest import examples
from memory_assets_tests.stores.unit_vectors import vectors

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
WORDS = [
    "running",
    "runs",
    "café",
    "the",
    "DuckDB",
    "word12",
    "naïve",
    "机器学习",
    "migration",
    "x" * 41,
    "not",
    "snake_case",
    "8080",
]
ACTIVE = Filters()
ENTITIES = [Entity("Alice", "PERSON"), Entity("Alice", "PROJECT"), Entity("O'Hara, Ltd", "ORG")]
TAGS = ["red", "green", "it's"]


def memory(text: str = "something", hours: float = 0.0, **fields: object) -> Memory:
    moment = START + timedelta(hours=hours)
    values: dict[str, object] = {"id": new_id(), "kind": Kind.NOTE, "source": Source.CLI, "source_key": ""}
    return Memory(**(values | {"content": text, "created_at": moment, "updated_at": moment} | fields))  # pyright: ignore[reportArgumentType]


def resident(uri: Path, allowance: Allowance | None = None) -> MemoryStore:
    store = MemoryStore(str(uri))
    store.keep_resident(allowance or Allowance(64 << 20), uri / "cache")
    store.maintain_resident()
    return store


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    """A resident store of forty memories."""
    filled = MemoryStore(str(tmp_path / "vectors"))
    filled.put([memory(f"note {n} {WORDS[n % 13]}", n) for n in range(40)], vectors(40), "test")
    return resident(tmp_path / "vectors")


def on_disk(store: MemoryStore) -> MemoryStore:
    return MemoryStore(store.uri)


def assert_same_answers(store: MemoryStore, filters: Filters = ACTIVE) -> None:
    disk = on_disk(store)
    assert store.is_resident
    assert not disk.is_resident
    question = vectors(1, seed=99)[0]
    near, expected = (each.nearest(question, "test", 500, filters, ("kind",)) for each in (store, disk))
    assert set(near["id"].to_pylist()) == set(expected["id"].to_pylist())
    assert near["similarity"].to_pylist() == sorted(near["similarity"].to_pylist(), reverse=True)
    measured = dict(zip(expected["id"].to_pylist(), expected["similarity"].to_pylist(), strict=True))
    assert near["similarity"].to_pylist() == pytest.approx([measured[n] for n in near["id"].to_pylist()], abs=2e-4)
    alike, expected = (each.alike(question, 500, filters).sort_by("id") for each in (store, disk))
    assert alike["id"] == expected["id"]
    assert alike["similarity"].to_pylist() == pytest.approx(expected["similarity"].to_pylist(), abs=4e-3)
    found, expected = (each.matching(" ".join(WORDS), 500, filters, ("indexed_text", "tags")) for each in (store, disk))
    assert set(found["id"].to_pylist()) == set(expected["id"].to_pylist())
    assert store.recent(7, filters) == disk.recent(7, filters)
    ids = [*disk.scan(("id",))["id"].to_pylist(), 5]
    assert store.take(ids, [-1] * len(ids)) == {each.id: each for each in disk.get(ids)}


def test_what_was_read_from_disk_knows_where_it_stands_there(store: MemoryStore) -> None:
    new = memory("told after the loading", 60)
    store.add([new], vectors(1, seed=7), "test")
    nearest = store.nearest(vectors(1, seed=99)[0], "test", 500, ACTIVE)
    places = dict(zip(nearest["id"].to_pylist(), nearest["_rowid"].to_pylist(), strict=True))
    known = on_disk(store).table.search().select(["id"]).with_row_id(True).to_arrow()
    expected = dict(zip(known["id"].to_pylist(), known["_rowid"].to_pylist(), strict=True))
    assert places == expected | {new.id: -1}


@st.composite
def some_filters(draw: st.DrawFn) -> Filters:
    moments = st.integers(-1, 41).map(lambda hours: START + timedelta(hours=hours))
    return Filters(
        kinds=draw(st.lists(st.sampled_from(Kind), max_size=2)),
        sources=draw(st.lists(st.sampled_from(Source), max_size=2)),
        tags=draw(st.lists(st.sampled_from(TAGS), max_size=2)),
        entities=draw(st.lists(st.frozensets(st.sampled_from(ENTITIES), min_size=1, max_size=2), max_size=1)),
        actions=draw(st.lists(st.sampled_from(["decide", "move"]), max_size=2)),
        projects=draw(st.lists(st.sampled_from(["atlas", "o'hara"]), max_size=2)),
        here=draw(st.lists(st.sampled_from(["atlas", "o'hara"]), max_size=1)),
        since=draw(st.none() | moments),
        until=draw(st.none() | moments),
        after=draw(st.none() | st.tuples(moments, st.integers(0, 1 << 53))),
        states=draw(st.lists(st.sampled_from(State), max_size=2)),
    )


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> MemoryStore:
    """A resident store of memories that differ in every filtered field."""
    folder = tmp_path_factory.mktemp("varied")
    chance = np.random.default_rng(1)
    memories = [
        memory(
            " ".join(chance.choice(WORDS, 3)),
            float(chance.integers(0, 40)),
            kind=chance.choice([Kind.NOTE, Kind.USER]),
            source=chance.choice([Source.CLI, Source.HTTP]),
            tags=tuple(chance.choice(TAGS, chance.integers(0, 3), replace=False).tolist()),
            entities=tuple(ENTITIES[number] for number in chance.choice(len(ENTITIES), chance.integers(0, 3), replace=False)),
            actions=tuple(chance.choice(["decide", "move"], chance.integers(0, 3), replace=False).tolist()),
            project=str(chance.choice(["", "atlas", "Atlas", "o'hara"])),
            state=chance.choice([State.ACTIVE, State.ARCHIVED, State.FORGOTTEN]),
        )
        for _ in range(120)
    ]
    MemoryStore(str(folder)).put(memories, vectors(120), "test")
    return resident(folder)


@given(filters=some_filters())
@settings(max_examples=examples(15))
def test_every_filter_means_in_memory_what_it_means_on_disk(varied: MemoryStore, filters: Filters) -> None:
    assert_same_answers(varied, filters)


SCRIPTS = st.characters(codec="utf-8", categories=["Lu", "Ll", "Lo", "Nd", "No", "Po", "Pd", "Zs"])


@given(texts=st.lists(st.text(SCRIPTS, max_size=30), min_size=1, max_size=20))
@example(texts=["00¹¹¹¹¹İࡀࡀ𐀀𐀀𐀀𐀀𑝀"])
@settings(max_examples=examples(10))
def test_any_text_is_cut_into_the_words_of_the_index_on_disk(texts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        disk = MemoryStore(folder)
        disk.put([memory(text) for text in texts], vectors(len(texts)), "test")
        store = resident(Path(folder))
        for text in texts:
            found, expected = (each.matching(text, 20, Filters())["id"].to_pylist() for each in (store, disk))
            assert set(found) == set(expected)


def test_scores_in_memory_are_those_of_the_index_on_disk(store: MemoryStore) -> None:
    for text in ("running migration", "café 8080 WORD12", "the note 7"):
        found, expected = (each.matching(text, 50, Filters()).to_pydict() for each in (store, on_disk(store)))
        scores = dict(zip(expected["id"], expected["score"], strict=True))
        assert found["score"] == pytest.approx([scores[number] for number in found["id"]], rel=1e-4)


def _adds(store: MemoryStore) -> None:
    store.add([memory("a migration that ran", 50)], vectors(1, seed=5), "test")


def _replaces(store: MemoryStore) -> None:
    changed = memory("replaced café", 3, id=store.recent(1, Filters())[0].id, updated_at=datetime.now(UTC))
    store.put([changed], vectors(1, seed=6), "test")


def _edits(store: MemoryStore) -> None:
    new = memory("edited café", 50, updated_at=datetime.now(UTC))
    rows = store.columns.fill(to_arrow([new]), vectors(1, seed=6), "test")
    assert store.insert_superseding(rows, {store.recent(1, Filters())[0].id: new.id})


def _forgets(store: MemoryStore) -> None:
    store.transition([each.id for each in store.recent(3, Filters())], State, State.FORGOTTEN)


def _deletes(store: MemoryStore) -> None:
    store.delete([each.id for each in store.recent(3, Filters())])


def _deletes_all(store: MemoryStore) -> None:
    store.delete([each.id for each in store.recent(100, Filters())])


def _compacts(store: MemoryStore) -> None:
    for _ in range(55):
        _adds(store)
    assert store.upkeep.optimize()


CHANGES = [_adds, _replaces, _edits, _forgets, _deletes, _deletes_all, _compacts]


@pytest.mark.parametrize("change", CHANGES)
def test_what_this_process_changes_is_seen_by_the_next_question(
    store: MemoryStore, change: Callable[[MemoryStore], None]
) -> None:
    change(store)
    assert_same_answers(store)


@pytest.mark.parametrize("change", CHANGES)
def test_what_another_process_changes_is_seen_too(store: MemoryStore, change: Callable[[MemoryStore], None]) -> None:
    store.matching("note", 5, Filters())
    change(on_disk(store))
    assert_same_answers(store)


def test_what_changes_after_the_clock_was_set_back_is_seen(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(days=365)

    with monkeypatch.context() as patch:
        patch.setattr("memory_assets.stores.feed.datetime", Ahead)
        _adds(on_disk(store))
        assert_same_answers(store)
    _forgets(on_disk(store))
    assert_same_answers(store)


@pytest.mark.parametrize("another_change", [_replaces, _edits])
def test_what_a_process_changes_whose_clock_is_behind_is_seen_beside_another_change(
    store: MemoryStore, another_change: Callable[[MemoryStore], None]
) -> None:
    other, behind = on_disk(store), datetime.now(UTC) - timedelta(hours=2)
    rows = other.scan(("id", "updated_at"), limit=1)
    forgotten = pa.table({"id": rows["id"], "state": ["forgotten"], "updated_at": pa.array([behind], pa.timestamp("us", "UTC"))})
    assert other.update(forgotten, rows["updated_at"].to_pylist())
    another_change(other)
    assert_same_answers(store)


def test_changes_of_several_processes_in_turn_leave_nothing_behind(store: MemoryStore) -> None:
    for change in (_adds, _forgets, _adds, _replaces, _adds, _deletes, _adds):
        change(on_disk(store))
        change(store)
    assert_same_answers(store)


def test_threads_that_append_at_once_and_a_reader_miss_nothing(store: MemoryStore) -> None:
    def write(number: int) -> None:
        for n in range(6):
            store.add([memory(f"thread{number} note{n}", 60 + n)], vectors(1, seed=n), "test")
            assert store.matching(f"thread{number} note{n}", 1, Filters(), ("content",))["content"].to_pylist() == [
                f"thread{number} note{n}"
            ]

    failures: list[BaseException] = []
    threads = [threading.Thread(target=_noting(write, number, failures)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(on_disk(store)) == 64
    assert_same_answers(store)


def _noting(work: Callable[[int], None], number: int, failures: list[BaseException]) -> Callable[[], None]:
    def noting() -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)
            raise

    return noting


def test_merging_in_the_background_changes_no_answer(tmp_path: Path) -> None:
    MemoryStore(str(tmp_path)).put([memory(f"base {n}", n) for n in range(1_500)], vectors(1_500), "test")
    store = resident(tmp_path)
    for batch in range(3):
        store.add([memory(f"batch{batch} item{n}", n) for n in range(1_200)], vectors(1_200, seed=batch), "test")
    store.transition([each.id for each in store.recent(10, Filters())], State, State.ARCHIVED)
    before = store.matching("batch1 item7", 20, Filters())["id"].to_pylist()
    assert store.is_resident
    store.maintain_resident()
    assert store.matching("batch1 item7", 20, Filters())["id"].to_pylist()[0] == before[0]
    ids = store.scan(("id",), Filters().sql())["id"].to_pylist()
    assert {each.id for each in store.recent(10_000, Filters())} == set(ids)


def test_a_store_that_is_committed_is_done_whatever_happens_in_memory(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(Segment, "of", breaking)
        _adds(store)
    assert not store.is_resident
    store.maintain_resident()
    assert len(store) == 41
    assert_same_answers(store)


def test_what_searches_on_disk_left_in_memory_is_given_back_once_they_are_answered_from_memory(tmp_path: Path) -> None:
    tables.session.cache_clear()
    store = MemoryStore(str(tmp_path / "vectors"), freshness=60.0)
    store.put([memory(f"note {n}", n) for n in range(40)], vectors(40), "test")
    assert store.matching("note", 5, ACTIVE).num_rows == 5
    before = tables.session("memories")
    kept = before.approx_num_items
    store.keep_resident(Allowance(64 << 20), tmp_path / "cache")
    store.maintain_resident()
    assert store.is_resident
    kept_while_loading = before.approx_num_items
    store.count(Filters(kinds=(Kind.NOTE,)))
    assert_same_answers(store)
    assert kept
    assert before.approx_num_items == kept_while_loading
    assert tables.session("memories").approx_num_items > 0


def test_a_table_beyond_the_allowance_is_answered_from_disk(tmp_path: Path) -> None:
    for name in ("one", "two"):
        MemoryStore(str(tmp_path / name)).put([memory(f"{name} {n}") for n in range(6)], vectors(6), "test")
    ample = Allowance(1 << 20)
    first = resident(tmp_path / "one", ample)
    assert first.is_resident
    allowance = Allowance(ample.taken * 3 // 2)
    stores = [resident(tmp_path / name, allowance) for name in ("one", "two")]
    assert [each.is_resident for each in stores] == [True, False]
    assert allowance.taken == ample.taken
    assert stores[1].matching("two", 10, Filters()).num_rows == 6


def test_long_memories_take_more_of_the_allowance_than_as_many_short_ones(tmp_path: Path) -> None:
    allowance = Allowance(300_000)
    for name, text in (("long", "word " * 1_000), ("short", "word")):
        MemoryStore(str(tmp_path / name)).put([memory(f"{text} {n}") for n in range(60)], vectors(60), "test")
        assert resident(tmp_path / name, allowance).is_resident == (name == "short")


def test_what_is_taken_is_estimated_from_some_rows_and_then_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(f"w{n * k % 977}x" for k in range(5 + n // 20)) for n in range(1_500)]
    MemoryStore(str(tmp_path)).put([memory(text, n) for n, text in enumerate(texts)], vectors(1_500), "test")
    monkeypatch.setattr("memory_assets.stores.resident.memories._SAMPLE_ROWS", 100)
    allowance, asked = Allowance(64 << 20), []
    grant = allowance.grant
    monkeypatch.setattr(allowance, "grant", lambda asking, nbytes: (asked.append(nbytes), grant(asking, nbytes))[1])
    store = resident(tmp_path, allowance)
    estimated, counted = asked
    assert counted == allowance.taken
    assert 0.8 * counted < estimated < 1.25 * counted
    held = store._resident
    assert held
    (segment,) = held.search().segments  # pyright: ignore[reportOptionalMemberAccess]
    assert counted > segment.rows.nbytes + 1_500 * 70 * 2


def test_a_table_that_outgrows_the_allowance_is_let_go(tmp_path: Path) -> None:
    MemoryStore(str(tmp_path)).put([memory(f"note {n}", n) for n in range(50)], vectors(50), "test")
    ample = Allowance(64 << 20)
    loaded = resident(tmp_path, ample)
    allowance = Allowance(ample.taken * 2)
    del loaded
    store = resident(tmp_path, allowance)
    assert store.is_resident
    store.add([memory("long " * 1_000, 60 + n) for n in range(50)], vectors(50), "test")
    store.maintain_resident()
    assert not store.is_resident
    assert allowance.taken == 0
    assert len(store.recent(100, ACTIVE)) == 100


def test_a_table_that_was_estimated_too_small_is_not_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryStore(str(tmp_path)).add([memory("short"), *(memory("long " * 1_000) for _ in range(50))], vectors(51), "test")
    monkeypatch.setattr("memory_assets.stores.resident.memories._SAMPLE_ROWS", 1)
    allowance, asked = Allowance(200_000), []
    grant = allowance.grant
    monkeypatch.setattr(allowance, "grant", lambda asking, nbytes: (asked.append(nbytes), grant(asking, nbytes))[1])
    store = resident(tmp_path, allowance)
    store.maintain_resident()
    assert not store.is_resident
    estimated, counted, estimated_again = asked
    assert estimated < allowance.nbytes < counted <= estimated_again


def test_another_live_embedder_is_loaded_anew(store: MemoryStore) -> None:
    other = on_disk(store)
    other.columns.make_live(other.columns.add("other", 3))
    forgotten = other.recent(1, ACTIVE)[0].id
    other.transition([forgotten], State, State.FORGOTTEN)
    assert forgotten not in [each.id for each in store.recent(50, ACTIVE)]
    assert store.needs_maintenance
    store.maintain_resident()
    assert store.is_resident
    assert not store.nearest(np.eye(3, dtype=np.float32)[0], "other", 5, ACTIVE).num_rows
    assert len(store.recent(50, ACTIVE)) == 39


def test_a_store_beside_a_change_of_embedder_is_refused_and_not_stored_without_its_vector(store: MemoryStore) -> None:
    rows = store.columns.fill(to_arrow([memory("late")]), vectors(1), "test")
    other = on_disk(store)
    other.columns.make_live(other.columns.add("other", 3))
    with pytest.raises(StoreError, match="no column"):
        lance.append(store.stored, rows)
    assert len(other) == 40


def test_an_append_whose_version_is_told_too_late_hides_no_commit_between(store: MemoryStore) -> None:
    added = memory("told late", 50)
    rows = store.columns.fill(to_arrow([added]), vectors(1), "test")

    def commit(rows: pa.Table) -> int:
        version = lance.append(store.stored, rows)
        assert store.recent(1, ACTIVE)[0].id == added.id
        on_disk(store).transition([added.id], State, State.FORGOTTEN)
        return version

    assert store._resident
    store._resident.append(rows, commit)
    assert added.id not in [each.id for each in store.recent(50, ACTIVE)]
    assert_same_answers(store)


def test_words_that_are_not_indexed_find_nothing_wherever_they_stand(store: MemoryStore) -> None:
    store.add([memory(f"The {'a' * 64}", 50)], vectors(1), "test")
    store.add([memory("The deployment", 51)], vectors(1), "test")
    for text in ("redis sentinel", "the", "a" * 64, "the the"):
        assert store.matching(text, 10, ACTIVE).num_rows == on_disk(store).matching(text, 10, ACTIVE).num_rows == 0


def test_rewritten_rows_are_given_back(tmp_path: Path) -> None:
    disk = MemoryStore(str(tmp_path))
    memories = [memory(f"note {n}", n) for n in range(1_200)]
    disk.put(memories, vectors(1_200), "test")
    store = resident(tmp_path)
    assert not store.needs_maintenance
    for day in range(3):
        later = START + timedelta(days=60 + day)
        disk.put([replace(each, updated_at=later) for each in memories], vectors(1_200), "test")
        assert len(store.recent(2_000, ACTIVE)) == 1_200
    assert store.needs_maintenance
    store.maintain_resident()
    assert not store.needs_maintenance
    assert len(store.recent(2_000, ACTIVE)) == 1_200


def test_memories_without_a_vector_are_found_by_words_alone(tmp_path: Path) -> None:
    plain = MemoryStore(str(tmp_path))
    plain.put([memory("with a vector")], vectors(1), "test")
    column = plain.columns.live
    assert column
    plain.table.add([{"id": new_id(), "indexed_text": "without one", "state": "active", **_blank()}])
    store = resident(tmp_path)
    assert store.nearest(vectors(1)[0], "test", 5, Filters()).num_rows == 1
    assert store.matching("without", 5, Filters()).num_rows == 1


def _blank() -> dict[str, object]:
    fields: dict[str, object] = dict.fromkeys(("content", "title", "kind", "source", "project"), "")
    fields |= {name: [] for name in ("tags", "entities", "actions", "links")}
    return fields | dict.fromkeys(("created_at", "updated_at"), START)


def test_what_was_just_stored_is_measured_by_what_it_says_without_a_look_at_the_disk(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, in_context = vectors(2, seed=1), vectors(2, seed=2)
    new = [memory("said now", 50), memory("said too", 51)]
    store.add(new, TextVectors(said, in_context), "test")
    expected = on_disk(store).alike(said[0], 50, ACTIVE).sort_by("id")
    monkeypatch.setattr(DiskSearch, "cosines", None)
    found = store.alike(said[0], 50, ACTIVE)
    assert found["id"][0].as_py() == new[0].id
    assert found["similarity"][0].as_py() == pytest.approx(1, abs=1e-3)
    assert found.sort_by("id")["similarity"].to_pylist() == pytest.approx(expected["similarity"].to_pylist(), abs=4e-3)


def test_another_process_uses_the_copy_and_reads_only_what_came_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryStore(str(tmp_path)).put([memory(f"note {n} {WORDS[n % 13]}", n) for n in range(300)], vectors(300), "test")
    allowance = Allowance(64 << 20)
    first = resident(tmp_path, allowance)
    first.add([memory("added", 400)], vectors(1, seed=5), "test")
    first.transition([first.recent(2, ACTIVE)[1].id], State, State.FORGOTTEN)
    other = Allowance(64 << 20)
    other.run = allowance.run
    read: list[int] = []
    made = Segment.of.__func__  # pyright: ignore[reportFunctionMemberAccess]
    counted = classmethod(lambda cls, *given: (segment := made(cls, *given), read.append(len(segment)))[0])
    monkeypatch.setattr(Segment, "of", counted)
    second = resident(tmp_path, other)
    assert sum(read) == 2
    assert_same_answers(second)
    read.clear()
    second.add([memory(f"more {n}", 500 + n) for n in range(1_100)], vectors(1_100, seed=6), "test")
    second.maintain_resident()
    assert first.needs_maintenance
    read.clear()
    first.maintain_resident()
    assert not first.needs_maintenance
    assert sum(read) == 0
    assert {each.id for each in first.recent(2_000, ACTIVE)} == set(first.scan(("id",), ACTIVE.sql())["id"].to_pylist())


def test_what_was_erased_is_in_no_file_of_a_copy_again(tmp_path: Path) -> None:
    MemoryStore(str(tmp_path)).put([memory(f"note {n} heron{n}", n) for n in range(30)], vectors(30), "test")
    store = resident(tmp_path)
    copies = tmp_path / "cache"
    late = memory("late heron100", 40)
    store.add([late], vectors(1, seed=8), "test")
    erased = [memory.id for memory in store.recent(2, ACTIVE)]
    assert len(_holding(copies, b"heron29")) == 2
    store.delete(erased)
    remove_copies(copies)
    assert not copies.exists()
    assert_same_answers(store)
    store.add([memory(f"more {n}", 500 + n) for n in range(1_100)], vectors(1_100, seed=6), "test")
    store.maintain_resident()
    assert _holding(copies, b"heron28")
    assert not _holding(copies, b"heron29")
    assert not _holding(copies, b"heron100")
    assert {each.id for each in store.recent(2_000, ACTIVE)} == set(store.scan(("id",))["id"].to_pylist())


def test_a_copy_that_is_made_while_something_is_erased_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryStore(str(tmp_path)).put([memory(f"note {n} heron{n}", n) for n in range(30)], vectors(30), "test")
    save = Segment.save

    def erase_meanwhile(segment: Segment, folder: Path) -> None:
        save(segment, folder)
        remove_copies(tmp_path / "cache")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Segment, "save", erase_meanwhile)
        store = resident(tmp_path)
    assert not _holding(tmp_path / "cache", b"heron")
    assert store.is_resident
    assert_same_answers(store)


def _holding(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_a_cache_that_cannot_be_written_leaves_the_table_readable(tmp_path: Path) -> None:
    (tmp_path / "tenant").touch()
    MemoryStore(Location("s3://bucket/memories")).keep_resident(Allowance(1 << 20), tmp_path / "tenant/folder/cache")


def test_a_store_that_finds_the_table_damaged_says_so(tmp_path: Path) -> None:
    filled = MemoryStore(str(tmp_path / "vectors"))
    filled.put([memory()], vectors(1), "test")
    stored, appends = to_arrow([memory()]), tmp_path / "vectors/cache/appends"
    appends.mkdir(parents=True)
    with pa.ipc.new_file(str(appends / "waiting-1.arrow"), stored.schema) as file:
        file.write_table(stored)
    (appends / "begun").touch()
    writer = MemoryStore(str(tmp_path / "vectors"))
    writer.keep_resident(Allowance(64 << 20, is_shared=True), tmp_path / "vectors/cache")
    for path in (tmp_path / "vectors/memories.lance/data").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        writer.add([memory()], vectors(1), "test")
