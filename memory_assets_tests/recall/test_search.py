from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.graph.rules import DOUBT
from memory_assets.models import Kind, Memory, State
from memory_assets.recall.scoring import Weights
from memory_assets.recall.search import Hit, search
from memory_assets.stores.memories import Filters
from memory_assets.tenants import Tenant

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)


def found(hits: list[Hit]) -> list[int]:
    return [hit.memory.id for hit in hits]


def said_also(hit: Hit) -> list[int]:
    return [memory.id for memory in hit.same]


def component(hit: Hit, name: str):
    return next((part for part in hit.components if part.name == name), None)


def test_an_empty_store_finds_nothing(tenant: Tenant):
    assert search(tenant, "anything") == []


def test_it_works_without_a_catalog_and_creates_none(tenant: Tenant, remember):
    remember("The harbour was closed because of fog")
    assert found(search(tenant, "why was the harbour closed")) == [1]
    assert not tenant.catalog.exists


def test_a_blank_query_gives_the_newest(tenant: Tenant, remember):
    for content in ("first", "second", "third"):
        remember(content)
    assert found(search(tenant, "  ", limit=2)) == [3, 2]


def test_a_score_is_the_sum_of_its_components_and_lies_within_0_and_1(tenant: Tenant, remember, connect):
    for content in ("Ann bought a red kayak", "The kayak leaks", "Bela paints houses", "Fog over the harbour in March"):
        remember(content, session="s", author="Ann", tags=("kayak",))
    connect((1, 2, "LEADS_TO", 0.9, "because"))
    for hit in search(tenant, "what did Ann say about the kayak in March 2026?", now=NOW):
        assert 0.0 <= hit.score <= 1.0
        assert hit.score == pytest.approx(sum(part.contribution for part in hit.components))
        assert all(0.0 <= part.value <= 1.0 for part in hit.components)
        assert sum(part.weight for part in hit.components if part.name != "version") == pytest.approx(1.0)


def test_components_without_anything_to_say_are_left_out(tenant: Tenant, remember):
    remember("The kayak leaks", created_at=NOW - timedelta(days=900))
    remember("Bela paints houses", created_at=NOW - timedelta(days=900))
    names = {part.name for part in search(tenant, "leaking kayak", now=NOW)[0].components}
    assert names == {"vector", "keyword", "content", "answer"}


def test_a_memory_found_by_one_index_alone_has_no_raw_measure_of_the_other(tenant: Tenant, remember):
    remember("The kayak leaks")
    remember("Bela paints houses")
    other = next(hit for hit in search(tenant, "kayak") if hit.memory.id == 2)
    keyword = component(other, "keyword")
    assert keyword is not None
    assert keyword.raw is None


def test_the_neighbour_of_a_match_in_its_session_is_lifted(tenant: Tenant, remember):
    remember("Completely different words", session="elsewhere")
    remember("Where did you put the kayak paddle?", session="talk")
    remember("Behind the shed", session="talk")
    remember("Unrelated remark", session="later")
    hits = search(tenant, "where is the kayak paddle", now=NOW)
    assert found(hits)[:2] == [2, 3]
    lifted = component(hits[1], "relation")
    assert lifted is not None
    assert "session" in lifted.reason


def test_a_session_neighbour_beyond_the_candidates_is_found(tenant: Tenant, remember):
    remember("Where is the kayak paddle?", session="talk")
    remember("Behind the shed", session="talk")
    remember.all([f"kayak paddle filler {number}" for number in range(230)])
    hits = search(tenant, "Where is the kayak paddle?", limit=240)
    assert 2 in found(hits)


def test_neighbours_outside_the_filters_stay_out(tenant: Tenant, remember):
    remember("Where is the kayak paddle?", session="talk")
    remember("Behind the shed", session="talk", kind=Kind.FEEDBACK)
    remember("Below the stairs", session="talk", state=State.FORGOTTEN)
    assert found(search(tenant, "kayak paddle", filters=Filters(kinds=[Kind.NOTE]))) == [1]
    assert 3 not in found(search(tenant, "kayak paddle"))


def test_the_author_whom_the_question_names_comes_first(tenant: Tenant, remember):
    remember("I sold the kayak", author="Bela")
    remember("I sold the kayak", author="Ann")
    assert found(search(tenant, "Who heard that Ann sold it?", weights=Weights(vector=0, content=0, keyword=1, tag=0)))[0] == 2


@pytest.mark.parametrize(("query", "first"), [("What kayak did I want?", 1), ("What kayak did you suggest?", 2)])
def test_in_a_chat_with_an_assistant_i_and_you_say_whose_words_are_meant(tenant: Tenant, remember, query: str, first: int):
    remember("a kayak with two seats", author="user", session="one")
    remember("a kayak with two seats", author="assistant", session="two")
    assert found(search(tenant, query, weights=Weights(vector=0)))[0] == first


def test_a_note_without_an_author_is_worth_as_much_as_the_words_of_the_user(tenant: Tenant, remember):
    for author in ("assistant", "user", ""):
        remember("a kayak with two seats", author=author, session=author or "notes")
    scores = {
        hit.memory.author: hit.score for hit in search(tenant, "Which kayak did I want?", weights=Weights(vector=0, answer=0))
    }
    assert scores[""] == pytest.approx(scores["user"], rel=0.02)
    assert scores["assistant"] < 0.8 * scores["user"]


def test_what_stands_three_places_away_in_the_session_is_lifted_less_than_what_stands_beside(tenant: Tenant, remember):
    remember("Where did you put the kayak paddle?", session="talk")
    for content in ("Behind the shed", "Under a blanket", "By the ladder", "In a bag"):
        remember(content, session="talk")
    hits = search(tenant, "where is the kayak paddle", weights=Weights(vector=0), now=NOW)
    lifted = {hit.memory.id: part.value for hit in hits if (part := component(hit, "relation"))}
    assert lifted[2] > lifted[3] > lifted[4] > 0.0 == lifted.get(5, 0.0)


def test_a_typed_edge_to_a_match_lifts_and_a_popular_memory_is_not_lifted(tenant: Tenant, remember, connect):
    remember("The kayak was stolen from the shed")
    remember("New locks were bought")
    remember("Something else entirely")
    for _ in range(10):
        remember("Nothing to see")
    connect((1, 2, "LEADS_TO", 1.0, "because"), *((number, 3, "RELATES_TO", 1.0, "") for number in range(4, 14)))
    hits = search(tenant, "stolen kayak", now=NOW)
    assert found(hits)[:2] == [1, 2]
    popular = component(next(hit for hit in hits if hit.memory.id == 3), "relation")
    assert popular is not None
    assert popular.value < 0.05


def test_memories_that_name_the_same_rare_thing_support_each_other(tenant: Tenant, remember, mention):
    remember("The choir met in the old kayak hall")
    remember("Repairs are planned for autumn")
    remember("Repairs are planned for spring")
    mention(1000, "Kayak Hall", 1, 2)
    hits = search(tenant, "kayak choir", now=NOW)
    assert found(hits)[:2] == [1, 2]


def test_the_time_that_a_question_names_decides_between_equals(tenant: Tenant, remember):
    remember("The kayak trip", created_at=datetime(2026, 1, 10, tzinfo=UTC))
    remember("The kayak trip", created_at=datetime(2026, 4, 10, tzinfo=UTC))
    hits = search(tenant, "kayak trip last month", now=datetime(2026, 5, 20, tzinfo=UTC))
    assert [found(hits), said_also(hits[0])] == [[2], [1]]
    part = component(hits[0], "temporal")
    assert part is not None
    assert part.raw == 1.0
    assert component(search(tenant, "kayak trip", now=NOW)[0], "temporal") is None


@pytest.mark.parametrize(
    ("query", "first"),
    [("What happened last week?", [3]), ("What happened on 14 September 2026?", [4]), ("in September 2026", [4, 5])],
)
def test_a_question_for_nothing_but_a_time_finds_what_is_of_it_first(tenant: Tenant, remember, query: str, first: list[int]):
    remember("What happened last week is that the gym was closed on 14 June 2026", created_at=datetime(2026, 7, 2, tzinfo=UTC))
    remember("What happened in June: 14 tests failed", created_at=datetime(2026, 8, 2, tzinfo=UTC))
    remember("REST v1 is dropped", created_at=datetime(2026, 11, 18, tzinfo=UTC))
    remember("On 14 September 2026 Lantern moved from RabbitMQ to NATS", created_at=datetime(2026, 10, 2, tzinfo=UTC))
    remember("Farid left the team", created_at=datetime(2026, 9, 24, tzinfo=UTC))
    hits = search(tenant, query, now=datetime(2026, 11, 29, tzinfo=UTC))
    assert set(found(hits)[: len(first)]) == set(first)
    assert len(hits) == 5


def test_the_time_that_a_question_names_is_explained_in_the_readers_zone(tenant: Tenant, remember):
    remember("The kayak trip", created_at=datetime(2026, 4, 10, tzinfo=UTC))
    in_tokyo = Tenant(tenant.settings.model_copy(update={"timezone": "Asia/Tokyo"}), tenant.name)
    in_tokyo.__dict__["embedder"] = tenant.embedder
    part = component(search(in_tokyo, "kayak trip last month", now=datetime(2026, 5, 20, tzinfo=UTC))[0], "temporal")
    assert part is not None
    assert part.reason == "2026-04-01 to 2026-04-30"


def test_a_tag_lifts_but_does_not_gate(tenant: Tenant, remember):
    remember("The kayak leaks")
    remember("The kayak leaks", tags=("repair",))
    (hit,) = search(tenant, "kayak repair")
    assert (hit.memory.id, said_also(hit)) == (2, [1])
    assert found(search(tenant, "kayak repair", filters=Filters(tags=["repair"]))) == [2]


def test_importance_and_recency_never_outrank_relevance(tenant: Tenant, remember):
    remember("How we mended the leaking kayak", importance=0.0, created_at=NOW - timedelta(days=2000))
    remember("The most important meeting of all", importance=1.0, created_at=NOW)
    assert found(search(tenant, "leaking kayak", now=NOW)) == [1, 2]


def test_of_equals_the_more_important_and_the_newer_come_first(tenant: Tenant, remember):
    remember("The kayak leaks", importance=0.1, created_at=NOW - timedelta(days=1))
    remember("The kayak leaks", importance=0.9, created_at=NOW - timedelta(days=1))
    (hit,) = search(tenant, "kayak", now=NOW)
    assert (hit.memory.id, said_also(hit)) == (2, [1])
    remember("The paddle broke", created_at=NOW - timedelta(days=50))
    remember("The paddle broke", created_at=NOW - timedelta(days=1))
    hit = search(tenant, "paddle", now=NOW)[0]
    assert (hit.memory.id, said_also(hit)) == (4, [3])


def test_the_newer_version_of_a_fact_comes_first_even_with_other_words(tenant: Tenant, remember, connect):
    remember("The kayak lies behind the shed")
    remember("It was moved to the cellar")
    connect((1, 2, "INVALIDATED_BY", 0.9, "moved"))
    hits = search(tenant, "where does the kayak lie", now=NOW)
    assert found(hits) == [2, 1]
    assert component(hits[0], "version") is not None


@pytest.mark.parametrize(("probability", "first"), [(0.95, 2), (0.5, 1)])
def test_a_less_likely_replacement_must_fit_better_to_come_first(
    tenant: Tenant, remember, connect, probability: float, first: int
):
    remember("The kayak lies behind the shed")
    remember("The boat was moved to the cellar")
    connect((1, 2, "RELATES_TO", DOUBT * probability, "perhaps replaced"), origin="claims")
    assert found(search(tenant, "where does the kayak lie", now=NOW))[0] == first


def test_superseded_memories_are_found_only_with_history_and_after_their_successor(tenant: Tenant, remember):
    remember("The kayak lies behind the shed", state=State.SUPERSEDED, superseded_by=2)
    remember("The kayak lies in the cellar now")
    assert found(search(tenant, "kayak behind the shed")) == [2]
    history = Filters(states=[State.ACTIVE, State.SUPERSEDED])
    assert found(search(tenant, "kayak behind the shed", filters=history)) == [2, 1]


def test_weights_of_the_settings_are_used(tenant: Tenant, remember):
    remember("The kayak leaks")
    tenant.settings = tenant.settings.model_copy(update={"weight_vector": 0.0, "weight_keyword": 0.0})
    assert {part.name for part in search(tenant, "kayak", now=NOW)[0].components} >= {"content"}
    assert component(search(tenant, "kayak", now=NOW)[0], "vector") is None


def test_what_another_handle_commits_is_found_at_once_with_its_session(tenant: Tenant, remember):
    remember("Where is the kayak paddle?", session="talk")
    assert found(search(tenant, "kayak paddle")) == [1]
    other = Tenant(tenant.settings, tenant.name)
    memory: Memory = replace(tenant.memories.get([1])[0], id=99, content="kayak paddle: behind the shed")
    other.memories.put([memory], tenant.embedder.embed([memory.content]), tenant.embedder.name)
    assert set(found(search(tenant, "kayak paddle"))) == {1, 99}


def test_a_memory_that_was_changed_after_its_index_was_built_is_returned_as_it_is_now(tenant: Tenant, remember):
    remember("The kayak leaks")
    search(tenant, "kayak")
    tenant.memories.transition([1], State, State.FORGOTTEN)
    assert search(tenant, "kayak") == []
    tenant.memories.transition([1], State, State.ACTIVE)
    assert found(search(tenant, "kayak")) == [1]


def test_what_asks_the_same_comes_after_what_answers(tenant: Tenant, remember) -> None:
    remember("Where do you keep the spare key?", session="s", author="Ann")
    remember("The spare key lies beneath the blue pot", session="s", author="Bela")
    assert found(search(tenant, "Where is the spare key kept?"))[0] == 2
    assert found(search(tenant, "Who asked where you keep the spare key?"))[0] == 1
