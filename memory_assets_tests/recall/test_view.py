from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.errors import NewerStoreError, StoreBusyError
from memory_assets.models import Kind, Memory, Source, State
from memory_assets.recall import view
from memory_assets.recall.scoring import NARROWEST, Weights, closeness, recency, scaled_bm25, scaled_cosine, trust_in_words
from memory_assets.recall.timeline import Timeline, read_timeline
from memory_assets.recall.view import current_view, read_graph
from memory_assets.settings import load_settings
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.resident.memories import Allowance
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import examples
from memory_assets_tests.recall.conftest import START

FRACTIONS = st.lists(st.one_of(st.floats(-1, 1), st.just(float("nan"))), max_size=30)


def contents(timeline: Timeline) -> list[tuple[object, ...]]:
    """Return a timeline's data of each memory by id, with the ids of its neighbours."""
    ids = np.sort(timeline.ids())
    rows = timeline.rows(ids)
    beside = [
        np.where(found >= 0, timeline.columns["id"][found], -1) for step in (-1, 1) for found in [timeline.neighbour(rows, step)]
    ]
    columns = (timeline.columns["created"], timeline.columns["importance"], timeline.columns["active"])
    said = [column[rows].tolist() for column in columns] + [found.tolist() for found in beside]
    names = [timeline.authors.names[code] if code >= 0 else "" for code in timeline.columns["author"][rows].tolist()]
    return [(len(timeline), timeline.all_active), *zip(ids.tolist(), names, *said, strict=True)]


def test_neighbours_are_those_before_and_after_in_the_same_session(tenant: Tenant, remember):
    remember("b", session="one", created_at=datetime(2026, 1, 2, tzinfo=UTC))
    remember("a", session="one", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    remember("c", session="two", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    remember("d", created_at=datetime(2026, 1, 1, tzinfo=UTC))
    remember("e", created_at=datetime(2026, 1, 2, tzinfo=UTC))
    timeline = read_timeline(tenant.memories, None)
    rows = timeline.rows(np.array([1, 2, 3, 4, 5, 77]))
    before, after = timeline.neighbour(rows, -1), timeline.neighbour(rows, 1)
    assert [int(timeline.columns["id"][row]) if row >= 0 else None for row in before] == [2, None, None, None, None, None]
    assert [int(timeline.columns["id"][row]) if row >= 0 else None for row in after] == [None, 1, None, None, None, None]


def test_what_changed_is_taken_in_without_reading_everything_again(tenant: Tenant, remember):
    remember("a", session="one", author="Ann")
    first = read_timeline(tenant.memories, None)
    remember("b", session="one", author="Bela")
    tenant.memories.transition([1], State, State.ARCHIVED)
    second = read_timeline(tenant.memories, first)
    whole = read_timeline(tenant.memories, None)
    assert contents(second) == contents(whole)
    assert [second.authors.names[code] for code in second.columns["author"][second.rows(np.array([1, 2]))]] == ["Ann", "Bela"]
    assert second.columns["active"][second.rows(np.array([1, 2]))].tolist() == [False, True]
    assert read_timeline(tenant.memories, second) is second


def test_deleted_rows_leave_the_timeline(tenant: Tenant, remember):
    remember("a")
    remember("b")
    known = read_timeline(tenant.memories, None)
    tenant.memories.table.delete("id = 1")
    assert read_timeline(tenant.memories, known).ids().tolist() == [2]


def test_rows_written_with_an_old_time_are_not_missed(tenant: Tenant, remember):
    remember("a")
    known = read_timeline(tenant.memories, None)
    remember("b", updated_at=datetime.now(UTC) - timedelta(days=300))
    assert sorted(read_timeline(tenant.memories, known).ids().tolist()) == [1, 2]


STEPS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(["put", "put", "put old", "archive", "delete"]),
        st.sampled_from(["", "one", "two"]),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.parametrize("in_memory", [False, True])
@settings(max_examples=examples(4))
@given(steps=STEPS)
def test_a_timeline_that_follows_the_feed_is_the_one_that_is_read_at_once(tmp_path_factory, in_memory, steps):
    tenant = Tenant(load_settings(data_dir=tmp_path_factory.mktemp("followed")), "test")
    store, elsewhere = tenant.memories, Tenant(tenant.settings, "test").memories
    vector = np.ones((1, 8), np.float32) / np.sqrt(8)
    if in_memory:
        store.keep_resident(Allowance(1 << 20), tenant.folder / "cache")
    followed = read_timeline(store, None)
    for number, work, session, minute, here in steps:
        writer = store if here else elsewhere
        if work == "delete":
            writer.delete([number])
        elif work == "archive" and writer.get([number]):
            writer.transition([number], State, State.ARCHIVED)
        elif work.startswith("put"):
            moment = datetime.now(UTC) - timedelta(days=300 * (work == "put old" and not writer.get([number])))
            created = START + timedelta(minutes=minute)
            made = Memory(number, "text", Kind.NOTE, Source.CLI, "", created, moment, session=session, author=f"author {minute}")
            writer.put([made], vector, "test")
        if in_memory:
            store.maintain_resident()
        followed = read_timeline(store, followed)
    assert contents(followed) == contents(read_timeline(elsewhere, None))
    assert read_timeline(store, followed) is followed


def test_the_graph_is_read_again_when_the_catalog_has_changed(tenant: Tenant, remember, connect):
    remember("a")
    remember("b")
    assert read_graph(tenant.catalog, None).empty
    connect((1, 2, "LEADS_TO", 0.5, "why"))
    graph = read_graph(tenant.catalog, None)
    assert graph.types.names == ["LEADS_TO"]
    assert graph.note(0) == "why"
    assert read_graph(tenant.catalog, graph) is graph
    connect((2, 1, "RELATES_TO", 0.5, ""))
    assert len(read_graph(tenant.catalog, graph).edges) == 2


def test_a_locked_catalog_leaves_the_graph_that_was_last_read(tenant: Tenant, connect, monkeypatch):
    connect((1, 2, "LEADS_TO", 0.5, "why"))
    graph = read_graph(tenant.catalog, None)

    def locked(*_args, **_kwargs):
        raise StoreBusyError("another process writes")

    monkeypatch.setattr(Catalog, "_connect", locked)
    stale = replace(graph, stamp=())
    assert read_graph(tenant.catalog, stale) is stale
    assert read_graph(tenant.catalog, None).empty


def test_a_catalog_of_a_newer_release_lets_only_the_first_request_read_the_timeline(tenant: Tenant, remember, monkeypatch):
    remember("a")
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    reads: list[int] = []

    def counting(*given: Any) -> Timeline:
        reads.append(1)
        return read_timeline(*given)

    monkeypatch.setattr(view, "read_timeline", counting)
    for _ in range(3):
        with pytest.raises(NewerStoreError):
            current_view(tenant)
    assert reads == [1]


def test_two_tenants_have_views_of_their_own(tenant: Tenant, remember):
    remember("a")
    other = Tenant(tenant.settings, "other")
    assert current_view(tenant, fresh=True).timeline.ids().tolist() == [1]
    assert current_view(other, fresh=True).timeline.ids().tolist() == []


def test_rare_words_weigh_more(tenant: Tenant, remember):
    remember.all(["common words" + (" rare" if number == 3 else "") for number in range(20)])
    terms = current_view(tenant, fresh=True).terms
    assert terms.idf("never") > terms.idf("rare") > terms.idf("common") > 0


@given(FRACTIONS)
def test_scaled_cosines_lie_within_0_and_1_and_keep_their_order(values: list[float]):
    cosine = np.array(values, float)
    scaled = scaled_cosine(cosine)
    assert ((scaled >= 0) & (scaled <= 1 + 1e-12)).all()
    known = ~np.isnan(cosine)
    assert (np.diff(scaled[known][np.argsort(cosine[known])]) >= -1e-12).all()
    assert (scaled[~known] == 0).all()


def test_almost_equal_cosines_are_not_stretched_apart():
    assert scaled_cosine(np.array([0.50, 0.51])).tolist() == pytest.approx([1 - 0.95 * 0.01 / NARROWEST, 1.0])


def test_bm25_is_relative_to_the_best():
    assert scaled_bm25(np.array([2.0, 8.0, np.nan])).tolist() == [0.25, 1.0, 0.0]
    assert scaled_bm25(np.array([np.nan])).tolist() == [0.0]


def test_full_text_counts_little_where_no_text_covers_the_question():
    assert trust_in_words(np.array([0.1, 0.5])) == 0.5
    assert trust_in_words(np.array([])) == 0.0


def test_closeness_is_1_within_an_interval_and_falls_outside():
    day = 86_400_000_000
    values = closeness(np.array([0, 5 * day, 10 * day - 1, 10 * day, 30 * day]), 0, 10 * day)
    assert values[:3].tolist() == [1.0, 1.0, 1.0]
    assert 1.0 > values[3] > values[4] > 0.0


@settings(max_examples=30)
@given(st.integers(0, 10**16), st.integers(0, 10**16))
def test_recency_never_leaves_0_and_1(created: int, now: int):
    assert 0.0 <= float(recency(np.array([created]), now)[0]) <= 1.0


def test_weights_come_from_the_settings(tmp_path):
    assert Weights.of(load_settings(data_dir=tmp_path)) == Weights()
    assert Weights.of(load_settings(data_dir=tmp_path, weight_tag=0.7)).tag == 0.7
