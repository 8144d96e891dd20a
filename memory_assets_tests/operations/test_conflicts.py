"""Two contradictory memories stay listed until a person decides, and the decision survives every run."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memory_assets.learn import briefing
from memory_assets.learn.brief import parse_brief, read_brief
from memory_assets.learn.briefing import renew_brief
from memory_assets.mcp.tools import Session
from memory_assets.models import NewMemory, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.changes import forget, supersede
from memory_assets.operations.conflicts import conflicts, decide_both_hold
from memory_assets.operations.show import show
from memory_assets.operations.store import store
from memory_assets.operations.take_in import take_in
from memory_assets.operations.undo import undo
from memory_assets.tenants import Tenant
from memory_assets_tests.graph.conftest import World, world  # noqa: F401 - a fixture

A, B = 11, 22
_TEXTS = "The boat is moored in Hoorn.", "The boat is moored in Enkhuizen."


def contradicting(world: World) -> World:  # noqa: F811
    for number, text in zip((A, B), _TEXTS, strict=True):
        world.put(number, text, vector=[1.0, *[0.0] * 15], days=2 - number / 100)
    world.refresh()
    return world


def listed(world: World) -> list[tuple[int, int, str]]:  # noqa: F811
    return [(each.older.id, each.newer.id, each.differs) for each in conflicts(world.tenant).conflicts]


def test_two_values_of_one_day_are_told_with_what_differs(world):  # noqa: F811
    assert listed(world) == []
    contradicting(world)
    assert listed(world) == [(A, B, "Hoorn -> Enkhuizen")]
    said = conflicts(world.tenant, str(B)).text(LocalTime.of(world.settings))
    assert "Hoorn -> Enkhuizen" in said
    assert f"supersede {A} {B}" in said
    assert show(world.tenant, A).contradicted_by == [B]


def test_only_the_first_contradictions_are_listed_and_all_are_counted(world):  # noqa: F811
    contradicting(world)
    for number, text in zip((33, 44), ("The choir meets on Tuesday.", "The choir meets on Thursday."), strict=True):
        world.put(number, text, vector=[0.0, 1.0, *[0.0] * 14], days=2 - number / 100)
    world.refresh()
    found = conflicts(world.tenant, limit=1)
    assert (len(found.conflicts), found.count) == (1, 2)
    assert "And 1 more, listed once these are decided." in found.text(LocalTime.of(world.settings))
    assert "more, listed" not in conflicts(world.tenant).text(LocalTime.of(world.settings))


def test_a_contradiction_of_later_sentences_is_listed_too(world):  # noqa: F811
    for number, text, aside in ((A, _TEXTS[0], "Ropes are blue."), (B, _TEXTS[1], "Chairs come from Kiel.")):
        world.put(number, f"{aside} {text}", vector=[1.0, *[0.0] * 15], days=2 - number / 100)
    world.refresh()
    assert listed(world) == [(A, B, "Hoorn -> Enkhuizen")]
    decide_both_hold(world.tenant, str(A), str(B), stated_by=Source.CLI)
    assert listed(world) == []


def test_both_hold_names_what_the_reader_can_call(world):  # noqa: F811
    found = conflicts(contradicting(world).tenant)
    assert f"Both hold: relate {A} RELATES_TO {B}\n" in Session(world.with_settings(mcp_tools="all"), None).text(found)
    in_a_shell = replace(LocalTime.of(world.settings), program="memory ")
    assert f"Both hold: memory conflicts --both-hold {A} {B}\n" in found.text(in_a_shell)


@contextmanager
def held(world: World) -> Iterator[None]:  # noqa: F811
    """Let another process hold the catalog."""
    holding = (
        f"import duckdb, time; held = duckdb.connect({str(world.tenant.catalog.path)!r}); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holding], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.kill()


def test_a_memory_is_shown_while_another_process_writes_the_graph(world):  # noqa: F811
    contradicting(world)
    with held(world):
        shown = show(world.tenant, A)
    assert (shown.content, shown.is_graph_busy, shown.contradicted_by) == (_TEXTS[0], True, [])
    assert "another process writes the graph" in shown.text(LocalTime.of(world.settings))
    assert show(world.tenant, A).contradicted_by == [B]


def test_what_a_file_says_is_changed_there_and_the_advice_says_so(tenant, write_silo):
    path = write_silo("gateway", "The invoice gateway is owned by Greta and runs on port 8080.")
    take_in(tenant)
    stored = store(tenant, NewMemory("The invoice gateway is owned by Greta and runs on port 9090.", Source.CLI))
    said = stored.text(LocalTime.of(tenant.settings))
    assert f"The new one replaces it: change it in {path}" in said
    assert "supersede" not in said


@pytest.mark.parametrize(
    ("old", "new", "undecided"),
    [
        (("", "The threshold is 44 bar for valve 2."), ("", "The threshold is 11 bar for valve 9."), 0),
        (("", "Linie 12 fährt alle 20 Minuten."), ("", "Linie 15 fährt alle 10 Minuten."), 0),
        (("trial-run-31", "Follow up with Jette about the lifts."), ("trial-run-32", "Follow up with Ruben about the lifts."), 0),
        (("lifts", "Follow up with Jette about the lifts."), ("elevators", "Follow up with Ruben about the lifts."), 1),
        (("", "The board meets in room 12."), ("", "The board meets in room 14."), 1),
    ],
)
def test_two_of_a_series_do_not_contradict_each_other(world, old, new, undecided):  # noqa: F811
    for number, (title, text) in ((A, old), (B, new)):
        world.put(number, text, title=title, vector=[1.0, *[0.0] * 15])
    world.refresh()
    assert len(listed(world)) == undecided
    assert (show(world.tenant, A).outdated == show(world.tenant, B).outdated == ()) == (not undecided)


def test_both_hold_is_kept_by_runs_and_taken_back_by_undo(world):  # noqa: F811
    contradicting(world)
    decide_both_hold(world.tenant, A, B, stated_by=Source.CLI)
    assert listed(world) == []
    world.refresh()
    assert listed(world) == []
    assert world.edges("claims") == set()
    undo(world.tenant, A)
    world.refresh()
    assert listed(world) == [(A, B, "Hoorn -> Enkhuizen")]


def test_supersede_and_forget_decide(world):  # noqa: F811
    contradicting(world)
    supersede(world.tenant, A, B)
    assert listed(world) == []
    undo(world.tenant, A)
    world.refresh()
    assert len(listed(world)) == 1
    forget(world.tenant, B)
    assert listed(world) == []


def test_the_brief_tells_what_is_undecided_and_what_holds_in_place_of_the_outdated(world):  # noqa: F811
    contradicting(world)
    world.put(33, "The choir meets on Tuesday at seven.", vector=[0.0, 1.0, *[0.0] * 14], days=1, importance=1.0)
    world.put(44, "The choir now meets on Thursday at seven.", vector=[0.0, 1.0, *[0.0] * 14], importance=0.1)
    world.refresh()
    renew_brief(world.tenant)
    brief = read_brief(world.tenant.folder)
    assert brief
    lines = {each.id: each.text for each in brief.lines}
    assert f"undecided: {B} says otherwise" in lines[A]
    assert f"undecided: {A} says otherwise" in lines[B]
    assert "Thursday" in lines[44]
    assert 33 not in lines


def test_a_session_is_told_only_the_newer_of_what_is_surely_but_not_certainly_replaced(world):  # noqa: F811
    world.put(A, "Ben lives in Hamburg.", vector=[1.0, *[0.0] * 15], days=30)
    world.put(B, "Ben says he has moved to Berlin.", vector=[1.0, *[0.0] * 15])
    world.refresh()
    assert world.edges("claims") == {(A, B, "RELATES_TO")}
    renew_brief(world.tenant)
    brief = read_brief(world.tenant.folder)
    assert brief
    assert [each.id for each in brief.lines] == [B]


def test_a_session_is_told_of_a_contradiction_until_it_is_decided_and_again_once_that_is_taken_back(world):  # noqa: F811
    contradicting(world)
    renew_brief(world.tenant)

    def undecided() -> dict[int, bool]:
        brief = read_brief(world.tenant.folder)
        assert brief
        return {each.id: "undecided" in each.text for each in brief.lines}

    assert undecided() == {A: True, B: True}
    decisions = {
        lambda: supersede(world.tenant, A, B): {B: False},
        lambda: forget(world.tenant, B): {A: False},
        lambda: decide_both_hold(world.tenant, A, B, stated_by=Source.CLI): {A: False, B: False},
    }
    for decide, told in decisions.items():
        decide()
        assert undecided() == told
        renew_brief(world.tenant)
        assert undecided() == told
        undo(world.tenant, B)
        assert undecided() == {A: True, B: True}


def test_a_forgotten_memory_leaves_the_brief_while_another_process_holds_the_catalog(world, caplog):  # noqa: F811
    contradicting(world)
    renew_brief(world.tenant)
    with held(world):
        forget(world.tenant, A)
    brief = read_brief(world.tenant.folder)
    assert brief
    assert [(each.id, "undecided" in each.text) for each in brief.lines] == [(B, True)]
    assert "contradictions in the brief were not updated" in caplog.text
    assert "not written" not in caplog.text


def test_a_change_updates_the_brief_once_and_asks_for_its_own_contradictions_alone(world, monkeypatch):  # noqa: F811
    for number, text in zip((33, 44), ("The choir meets on Tuesday.", "The choir meets on Thursday."), strict=True):
        world.put(number, text, vector=[0.0, 1.0, *[0.0] * 14], days=2 - number / 100)
    contradicting(world)
    renew_brief(world.tenant)
    asked, read = [], []
    monkeypatch.setattr(briefing, "find_undecided", lambda tenant, pairs: asked.extend(map(sorted, pairs)) or set())
    monkeypatch.setattr(briefing, "parse_brief", lambda content: read.append(content) or parse_brief(content))
    forget(world.tenant, B)
    assert asked
    assert all(pair == [A, B] for pair in asked)
    assert len(read) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The error budget was tightened to 0.2 % a month.", "Anke says the error budget is 0.3 % a month."),
        ("The boat is moored in Hoorn.", "I heard that the boat is now moored in Enkhuizen."),
        ("Die Chorprobe ist am Dienstag um sieben.", "Laut Bernd ist die Chorprobe jetzt am Donnerstag um sieben."),
    ],
)
def test_what_somebody_else_says_replaces_nothing_and_is_undecided(world, old, new):  # noqa: F811
    world.put(A, old, vector=[1.0, *[0.0] * 15], days=30)
    world.put(B, new, vector=[1.0, *[0.0] * 15])
    world.refresh()
    assert [each[:2] for each in listed(world)] == [(A, B)]


def test_what_a_person_says_of_himself_replaces_what_was(world):  # noqa: F811
    world.put(A, "Ben lives in Hamburg.", vector=[1.0, *[0.0] * 15], days=30)
    world.put(B, "Ben says he has moved from Hamburg to Berlin.", vector=[1.0, *[0.0] * 15])
    world.refresh()
    assert listed(world) == []
    assert (A, B, "EVOLVED_INTO") in world.edges("claims")


def test_a_store_advises_to_replace_the_earlier_statement_also_where_that_is_the_new_one(tenant: Tenant) -> None:
    said = NewMemory("Bob owns the billing export.", Source.CLI, created_at=datetime(2026, 3, 2, tzinfo=UTC))
    known = store(tenant, said).id
    earlier = store(tenant, replace(said, content="Alice owns the billing export.", created_at=datetime(2025, 3, 2, tzinfo=UTC)))
    later = store(tenant, replace(said, content="Carol owns the billing export.", created_at=datetime(2026, 9, 2, tzinfo=UTC)))
    assert f"It is later and replaces the new one: supersede {earlier.id} {known}" in earlier.text(LocalTime.of(tenant.settings))
    assert f"The new one replaces it: supersede {later.echoes[0].id} {later.id}" in later.text(LocalTime.of(tenant.settings))
