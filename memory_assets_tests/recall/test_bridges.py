import pytest

from memory_assets.models import State
from memory_assets.recall.bridges import BACKWARDS, DAMPING, SHARED_ENTITY
from memory_assets.recall.search import search, search_with_bridges
from memory_assets.tenants import Tenant


def paths(tenant: Tenant, query: str, **options) -> list[list[int]]:
    return [[place.id for place in bridge.path] for bridge in search_with_bridges(tenant, query, **options)[1]]


@pytest.fixture
def story(remember, connect) -> None:
    """An incident, its cause, the decision and the migration, and an aside."""
    for content in (
        "Outage of the shop",
        "Cause was the document store",
        "Decision for PostgreSQL",
        "Migration is done",
        "An aside",
    ):
        remember(content)
    connect(
        (1, 2, "LEADS_TO", 0.9, "the outage led to the analysis"),
        (2, 3, "LEADS_TO", 0.8, "because of that"),
        (3, 4, "LEADS_TO", 1.0, "decided, then done"),
        (4, 1, "RELATES_TO", 0.5, "closes the circle"),
    )


def test_a_bridge_follows_outgoing_edges_and_gives_the_reason_of_each_hop(tenant: Tenant, story):
    hits, bridges, *_ = search_with_bridges(tenant, "outage of the shop")
    assert [place.id for place in bridges[0].path] == [1, 2, 3, 4]
    assert [hop.type for hop in bridges[0].hops] == ["LEADS_TO"] * 3
    assert [hop.reason for hop in bridges[0].hops] == ["the outage led to the analysis", "because of that", "decided, then done"]
    assert bridges[0].score == pytest.approx(hits[0].score * 0.9 * 0.8 * 1.0 * DAMPING**3)


def test_a_bridge_never_visits_a_place_twice(tenant: Tenant, story):
    for path in paths(tenant, "outage of the shop", depth=10):
        assert len(path) == len(set(path))


def test_depth_and_number_are_bounded(tenant: Tenant, story):
    assert all(len(path) <= 2 for path in paths(tenant, "outage of the shop", depth=1))
    assert len(paths(tenant, "outage of the shop", bridges=1)) == 1
    assert paths(tenant, "outage of the shop", bridges=0) == []


def test_a_path_within_a_better_one_is_not_shown(tenant: Tenant, story):
    found = paths(tenant, "outage of the shop")
    assert not any(set(one) < set(other) for one in found for other in found)


def test_a_path_that_differs_in_its_end_alone_is_not_shown_again(tenant: Tenant, story, connect):
    connect((3, 5, "LEADS_TO", 0.9, "an aside of the decision"))
    assert [path for path in paths(tenant, "outage of the shop") if path[:3] == [1, 2, 3]] == [[1, 2, 3, 4]]


def test_edges_are_not_followed_backwards(tenant: Tenant, remember, connect):
    remember("The shop is open")
    remember("Something led here")
    connect((2, 1, "LEADS_TO", 1.0, ""))
    assert [1, 2] not in paths(tenant, "shop open")


def test_weak_edges_end_a_path(tenant: Tenant, remember, connect):
    remember("The shop is open")
    remember("Barely related")
    connect((1, 2, "RELATES_TO", 0.01, ""))
    assert paths(tenant, "shop open") == []


def test_two_memories_that_name_the_same_rare_thing_are_bridged(tenant: Tenant, remember, mention):
    remember("The shop hired Bela Tarkovich")
    remember("Mr Tarkovich plays the cello")
    mention(1000, "Bela Tarkovich", 1, 2)
    hop = search_with_bridges(tenant, "whom did the shop hire")[1][0].hops[0]
    assert (hop.source, hop.target, hop.type) == (1, 2, SHARED_ENTITY)
    assert "Bela Tarkovich" in hop.reason


def test_a_thing_that_everybody_names_bridges_nothing(tenant: Tenant, remember, mention):
    remember.all([f"The shop, part {number}" for number in range(30)])
    mention(1000, "Shop", *range(1, 31))
    assert paths(tenant, "shop") == []


def test_neighbourhood_and_likeness_are_no_reasons(tenant: Tenant, remember, connect):
    remember("The shop is open")
    remember("The shop is open again")
    connect((1, 2, "OCCURRED_BEFORE", 1.0, ""), origin="session")
    connect((1, 2, "REINFORCES", 1.0, ""), origin="similar")
    assert paths(tenant, "shop open") == []


def test_paths_lead_through_active_memories_only(tenant: Tenant, story):
    tenant.memories.transition([2], State, State.FORGOTTEN)
    assert all(2 not in path for path in paths(tenant, "outage of the shop"))


def test_an_explanation_in_the_order_of_events_comes_first(tenant: Tenant, remember, connect):
    remember("Earlier thing")
    remember("The shop is open")
    remember("Later thing")
    connect((2, 1, "RELATES_TO", 1.0, ""), (2, 3, "RELATES_TO", 1.0, ""))
    assert BACKWARDS < 1
    assert paths(tenant, "shop open") == [[2, 3], [2, 1]]


def test_hits_are_those_of_a_search_without_bridges(tenant: Tenant, story):
    with_bridges = [(hit.memory.id, hit.score) for hit in search_with_bridges(tenant, "decision")[0]]
    assert with_bridges == [(hit.memory.id, pytest.approx(hit.score, abs=1e-4)) for hit in search(tenant, "decision")]


def test_a_blank_query_and_an_empty_graph_have_no_bridges(tenant: Tenant, remember):
    remember("The shop is open")
    assert paths(tenant, "  ") == []
    assert paths(tenant, "shop") == []
