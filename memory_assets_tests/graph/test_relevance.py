import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.graph.forgetting import forget
from memory_assets.graph.relevance import compute_scores, decay_cycle, explain, refresh_relevance
from memory_assets.models import Kind, RelationType, Source, State
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.consolidate import Decayed
from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.stores.relations import StatedRelation
from memory_assets_tests.conftest import examples
from memory_assets_tests.graph.conftest import DAY, World

MIDNIGHT = DAY.replace(hour=0)
A, B, C = 11, 22, 33


def score(world, number, now=DAY, **options):
    world.refresh()
    refresh_relevance(world.catalog, world.memories, now, **{"rate": 0.1, "archive_threshold": 0.2, **options})
    factors = explain(world.catalog, number)
    assert factors
    return factors


def test_the_score_is_the_seeds_product_factor_by_factor(world):
    world.put(A, days=10.5, importance=0.8, confidence=0.6)
    world.put(B, days=40)
    world.put(C, days=40)
    world.relations.state(StatedRelation(A, B, RelationType.RELATES_TO))
    world.relations.state(StatedRelation(C, A, RelationType.PART_OF, 0.2))
    factors = score(world, A)
    assert factors.decay == pytest.approx(math.exp(-0.1 * 10))
    assert factors.access == pytest.approx(0.3 + 0.3 * math.exp(-0.05 * 10))
    assert factors.density == pytest.approx(1 + 0.3 * math.log(3))
    assert factors.importance == pytest.approx(1.3)
    assert factors.confidence == pytest.approx(0.7 + 0.3 * 0.6)
    product = factors.decay * factors.access * factors.density * factors.importance * factors.confidence
    assert factors.relevance == pytest.approx(product)
    assert factors.fresh_because == "created or confirmed"


def test_a_fresh_memory_without_edges_starts_well_above_the_archive_threshold(world):
    world.put(A)
    assert score(world, A).relevance == pytest.approx(0.6)


def test_age_counts_at_the_earliest_from_when_the_store_first_saw_a_memory(world):
    world.put(A, days=700, updated_at=DAY - timedelta(days=10.5))
    seen = score(world, A)
    assert seen.decay == pytest.approx(math.exp(-0.1 * 10))
    assert seen.fresh_because == "first seen here"
    world.put(A, "another text", days=700, updated_at=DAY + timedelta(days=5))
    assert score(world, A, DAY + timedelta(days=10)).decay == pytest.approx(math.exp(-0.1 * 20))


def test_what_was_archived_before_first_sights_were_kept_does_not_look_new(world):
    world.put(A, days=200, state=State.ARCHIVED, updated_at=DAY)
    world.refresh()
    assert decay_cycle(world.tenant, DAY).woken == ()


def test_even_the_least_important_memory_starts_above_the_archive_threshold(world):
    world.put(A, days=700, updated_at=DAY, importance=0.0, confidence=0.0)
    assert score(world, A).relevance > world.settings.archive_threshold


def test_a_score_is_at_most_one(world):
    world.put(A, importance=1)
    for number in range(100, 103):
        world.put(number)
        world.relations.state(StatedRelation(A, number, RelationType.RELATES_TO))
    assert score(world, A).relevance == 1.0


def test_a_memory_linked_to_live_work_does_not_sink_and_a_weak_link_does_not_hold_it(world):
    world.put(A, days=100)
    world.put(B, days=0.5)
    world.put(C, days=100)
    world.relations.state(StatedRelation(B, A, RelationType.LEADS_TO, 0.9))
    world.relations.state(StatedRelation(B, C, RelationType.RELATES_TO, 0.3))
    held = score(world, A)
    assert held.relevance > 0.2
    assert held.fresh_because == f"activity of {B}"
    assert score(world, C).relevance < 0.01


def test_activity_is_passed_on_one_step_only(world):
    world.put(A, days=100)
    world.put(B, days=100)
    world.put(C)
    world.relations.state(StatedRelation(A, B, RelationType.RELATES_TO))
    world.relations.state(StatedRelation(B, C, RelationType.RELATES_TO))
    assert score(world, B).relevance > 0.2
    assert score(world, A).relevance < 0.01


def test_recall_makes_a_memory_and_what_it_is_linked_to_fresh_again(world):
    world.put(A, days=100)
    world.put(B, days=100)
    world.relations.state(StatedRelation(A, B, RelationType.RELATES_TO))
    world.refresh()
    AccessLog(world.tenant.state).record([A], DAY - timedelta(days=2))
    AccessLog(world.tenant.state).record([A], DAY - timedelta(days=1, hours=12))
    decay_cycle(world.tenant, DAY)
    recalled, linked = explain(world.catalog, A), explain(world.catalog, B)
    assert recalled and linked
    assert (recalled.accesses, recalled.fresh_because) == (2, "recalled")
    assert recalled.access == pytest.approx(0.3 + 0.3 * math.exp(-0.05 / (1 + math.log(3))))
    assert linked.fresh_at == recalled.fresh_at
    assert linked.access < recalled.access


def test_a_second_pass_on_the_same_day_writes_nothing(world):
    world.put(A, days=3)
    world.refresh()
    assert decay_cycle(world.tenant, MIDNIGHT + timedelta(hours=1)).written == 1
    stamp = world.catalog.path.read_bytes()
    assert decay_cycle(world.tenant, MIDNIGHT + timedelta(hours=20)).written == 0
    assert world.catalog.path.read_bytes() == stamp
    assert decay_cycle(world.tenant, MIDNIGHT + timedelta(days=1)).written == 1


def test_a_dry_run_changes_nothing(world):
    world.put(A, days=3)
    world.refresh()
    AccessLog(world.tenant.state).record([A], DAY)
    stamp = world.catalog.path.read_bytes()
    assert decay_cycle(world.tenant, DAY, dry_run=True).written == 1
    assert world.catalog.path.read_bytes() == stamp


def test_an_archived_memory_that_is_recalled_comes_back_and_an_idle_one_does_not(world):
    for number in (A, B):
        world.put(number, days=200, state=State.ARCHIVED)
    world.refresh()
    AccessLog(world.tenant.state).record([A], DAY)
    assert decay_cycle(world.tenant, DAY, dry_run=True).woken == decay_cycle(world.tenant, DAY).woken == (A,)
    assert [memory.state for memory in world.memories.get([A, B])] == [State.ACTIVE, State.ARCHIVED]
    assert explain(world.catalog, A)
    assert explain(world.catalog, B) is None


def test_an_archived_memory_comes_back_with_the_one_that_it_replaces(world):
    world.put(A, kind=Kind.USER, days=200)
    for number in (B, C):
        world.put(number, days=200, state=State.ARCHIVED)
    for old, new in ((A, B), (B, C)):
        world.relations.state(StatedRelation(old, new, RelationType.INVALIDATED_BY))
    world.refresh()
    assert decay_cycle(world.tenant, DAY).woken == (B, C)


@pytest.mark.parametrize(("kind", "woken"), [("EVOLVED_INTO", (B, C)), ("RELATES_TO", ())])
def test_an_archived_memory_comes_back_with_the_one_that_it_surely_replaces_a_later_statement_of(world, kind, woken):
    world.put(A, kind=Kind.USER, days=200)
    for number in (B, C):
        world.put(number, days=200, state=State.ARCHIVED)
    world.refresh()
    decay_cycle(world.tenant, DAY)
    with world.catalog.write() as connection:
        for old, new in ((A, B), (B, C)):
            row = (old, 1, "The office is in Bremen.", new, 0, "The office is in Oldenburg.", DAY, kind, 0.9, 0.9)
            connection.execute(f"INSERT INTO graph_changes VALUES ({', '.join('?' * len(row))}, '')", row)
    assert decay_cycle(world.tenant, DAY).woken == woken


def test_only_active_memories_have_a_score(world):
    world.put(A)
    for number, state in enumerate((State.SUPERSEDED, State.FORGOTTEN, State.VANISHED, State.ARCHIVED), start=100):
        world.put(number, state=state, days=300)
    score(world, A)
    assert world.query("SELECT id FROM relevance_scores") == [(A,)]


def test_a_memory_dated_in_the_future_has_no_negative_age(world):
    world.put(A, days=-5)
    assert score(world, A).decay == 1.0


def test_what_is_to_be_woken_is_named_again_where_a_pass_ended_before_it_was(world):
    world.put(A, days=200)
    world.put(B, days=200, state=State.ARCHIVED)
    world.relations.state(StatedRelation(A, B, RelationType.RELATES_TO))
    world.refresh()

    def woken():
        return refresh_relevance(world.catalog, world.memories, DAY, rate=0.01, archive_threshold=0.2).woken

    assert woken() == ()
    AccessLog(world.tenant.state).record([A], DAY)
    fold_accesses(world.catalog, AccessLog(world.tenant.state), DAY)
    assert woken() == (B,)
    assert woken() == (B,)
    assert decay_cycle(world.tenant, DAY).woken == (B,)
    assert decay_cycle(world.tenant, DAY).woken == ()


NUMBERS = st.sampled_from(range(1, 7))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NUMBERS, st.sampled_from([0, 40, 90, 200]), st.sampled_from([0.1, 0.5, 0.9]), st.sets(NUMBERS)),
        st.tuples(st.just("move"), NUMBERS, st.sampled_from([State.ACTIVE, State.ARCHIVED, State.FORGOTTEN])),
        st.tuples(st.just("delete"), NUMBERS),
        st.tuples(st.just("recall"), st.lists(NUMBERS, min_size=1, max_size=2)),
        st.tuples(st.just("relate"), NUMBERS, NUMBERS, st.sampled_from([0.3, 0.8])),
        st.tuples(st.just("build")),
    ),
    min_size=6,
    max_size=10,
)


@settings(max_examples=examples(2))
@given(STEPS)
def test_scoring_what_a_change_concerns_gives_the_scores_of_scoring_all(tmp_path_factory, steps):
    world = World(tmp_path_factory.mktemp("scores"))
    for number in range(1, 7):
        world.put(number, days=30 * number, title=f"m{number}", state=State.ARCHIVED if number > 4 else State.ACTIVE)
    world.refresh()
    for step in steps:
        change(world, *step)
        outcome = decay_cycle(world.tenant, DAY)
        everything = compute_scores(world.catalog, world.memories, DAY, world.settings.decay_rate)
        with world.catalog.read() as connection:
            connection.register("everything", everything)
            active = "FROM everything WHERE state = 'active'"
            names = ", ".join(name for name in everything.column_names if name not in {"state", "protected", "first_seen"})
            held = connection.execute(f"SELECT {names} FROM relevance_scores ORDER BY id").fetchall()
            assert held == connection.execute(f"SELECT {names} {active} ORDER BY id").fetchall(), step
            seen = connection.execute("SELECT id, seen_at FROM memory_first_seen ORDER BY id").fetchall()
            assert seen == connection.execute("SELECT id, first_seen FROM everything ORDER BY id").fetchall(), step
            below = connection.execute(f"SELECT id {active} AND lasting < 0.2").fetchall()
            assert not connection.execute("FROM everything WHERE state = 'archived' AND lasting >= 0.2").fetchall()
        assert (outcome.scored, outcome.below_archive, sum(outcome.histogram)) == (len(held), len(below), len(held))


def change(world, kind, *what):
    match kind, *what:
        case "put", number, days, importance, links:
            world.put(
                number, days=days, title=f"m{number}", importance=importance, links=tuple(f"m{link}" for link in sorted(links))
            )
        case "move", number, state:
            world.memories.transition([number], tuple(State), state)
        case "delete", number:
            world.memories.delete([number])
        case "recall", numbers:
            AccessLog(world.tenant.state).record(numbers, DAY - timedelta(days=len(numbers)))
        case "relate", source, target, confidence if source != target:
            world.relations.state(StatedRelation(source, target, RelationType.RELATES_TO, confidence))
        case _:
            world.refresh()


def test_likeness_and_what_a_cycle_joined_are_no_signs_of_life(world):
    alike = [1.0, *[0.0] * 15]
    world.put(A, "told twice", days=100, vector=alike)
    world.put(B, "told twice", days=0.5, vector=alike, source=Source.HTTP)
    world.put(C, days=100)
    world.refresh()
    with world.catalog.write() as connection:
        connection.execute(
            "INSERT INTO creative_links SELECT least($1, $2), greatest($1, $2), 'SHARES_THEME', 0.9, '2026-W22', now()", [B, C]
        )
        connection.execute(
            "INSERT INTO graph_edges BY NAME SELECT $1 AS source_id, $2 AS target_id, 'SHARES_THEME' AS type, 0.9 AS confidence, "
            "0.9 AS similarity, 'creative' AS origin, 0 AS evidence_id, 'found in sleep' AS note",
            [B, C],
        )
    assert world.edges("same text", "creative") == {(A, B, "REINFORCES"), (B, C, "SHARES_THEME")}
    for number in (A, C):
        faded = score(world, number)
        assert (faded.edges, faded.fresh_because) == (1, "created or confirmed")
        assert faded.relevance < 0.01


def test_decay_and_forget_say_why_they_count_differently(world):
    for number, days, protected in ((A, 200, False), (B, 200, True), (C, 25, False)):
        world.put(number, days=days, protected=protected)
    world.with_settings(decay_rate=0.1)
    world.refresh()
    decayed = decay_cycle(world.tenant, DAY)
    assert (decayed.below_archive, decayed.protected, decayed.recent) == (3, 1, 1)
    left = forget(world.tenant, DAY, dry_run=True)
    assert ([memory.id for memory, _ in left.archived], left.protected, left.recent) == ([A], 1, 1)
    why = "of those below the threshold, 1 are protected and 1 showed a sign of life within 30 days, so they stay"
    told = Decayed.of(decayed, dry_run=True, archive_threshold=0.2, grace_days=30.0)
    assert why in told.text(LocalTime.of(world.settings))
