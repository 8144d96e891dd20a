"""Changed facts: the current one ranks first, and only outdated ones are marked."""

import json
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memory_assets import operations
from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.outdated import Outdated, StatementChange, find_outdated, list_doubted, list_replaced, strip_marks
from memory_assets.learn.brief import read_brief
from memory_assets.learn.briefing import renew_brief
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session
from memory_assets.models import NewMemory, RelationType, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.conflicts import decide_both_hold
from memory_assets.operations.prompt import recall_for_prompt
from memory_assets.operations.take_in import take_in
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import filled_once

_OLD = (
    "The ledger closes its books after the last carrier.\n\nReports go to finance by mail. The nightly import of the ledger runs on "
    "host beech."
)
_NEW = (
    "Two racks were emptied in autumn.\n\nThe power bill fell by a third. Since 2 September 2026 the nightly import of the ledger runs "
    "on host alder instead of beech."
)
_QUESTION = "on which host does the nightly import of the ledger run"


def test_a_sentence_that_another_file_replaces_is_not_told_and_what_replaced_it_is(tenant, write_silo):
    _two_files(write_silo)
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    renew_brief(tenant)
    brief = read_brief(tenant.folder)
    assert brief
    told = "\n".join(each.text for each in brief.lines)
    assert "runs on host alder instead of beech" in told
    assert "runs on host beech" not in told
    assert "The ledger closes its books" in told


def _two_files(write_silo):
    write_silo("ledger-runbook", _OLD)
    write_silo("hosts-of-autumn", _NEW)


def _refreshed(tenant):
    """Return the tenant as opened by a new process, with the graph of its current memories."""
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    return Tenant(tenant.settings, tenant.name)


@pytest.fixture
def ledger(tenant, write_silo):
    def fill():
        _two_files(write_silo)
        take_in(tenant)
        _refreshed(tenant)

    filled_once(tenant, "ledger", fill)
    return Tenant(tenant.settings, tenant.name)


def _named(tenant, title):
    return next(memory for memory in tenant.memories.recent(10, Filters()) if memory.title == title)


def test_an_outdated_sentence_is_marked_wherever_it_is_shown(ledger):
    newer, local = _named(ledger, "hosts-of-autumn"), LocalTime(UTC)
    mark = f"replaced by {newer.id} on 2026-09-02: Since 2 September 2026 the nightly import of the ledger runs on host alder"
    found = operations.search.search(ledger, _QUESTION)
    old = next(memory for memory in found.memories if memory.title == "ledger-runbook")
    (sentence,) = old.model_dump(mode="json")["outdated"]
    assert sentence == {
        "sentence": "The nightly import of the ledger runs on host beech.",
        "replaced_by": newer.id,
        "on": "2026-09-02T00:00:00+00:00",
        "by_sentence": "Since 2 September 2026 the nightly import of the ledger runs on host alder instead of beech.",
        "verdict": "replaced",
    }
    doubt = old.outdated[0].model_copy(update={"verdict": "perhaps replaced"})
    assert old.model_copy(update={"outdated": (*old.outdated, doubt)}).entry(local) == old.entry(local)
    assert [memory.title for memory in found.memories][:2] == ["hosts-of-autumn", "ledger-runbook"]
    shown = operations.show.show(ledger, old.id)
    called = Server(Session(ledger, None)).answer(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"query": _QUESTION}}}
    )
    assert called
    for text in (
        found.text(local),
        shown.text(local),
        called["result"]["content"][0]["text"],
        recall_for_prompt(ledger, _QUESTION, "s1").framed,
    ):
        assert text.count(mark) == 1, text
    for newest in (operations.search.search(ledger, ""), operations.show.recent(ledger)):
        assert newest.text(local).count(mark) == 1
    by_id = f"replaced by id {str(newer.id)[:6]}"
    told = operations.context.context(ledger, [_QUESTION], form="markdown").document
    assert told.count(by_id) == 1, told
    nodes = json.loads(operations.context.context(ledger, [_QUESTION], form="json").document)["nodes"]
    assert [each["replaced_by"] for node in nodes for each in node.get("outdated", ())] == [newer.id]


def test_the_day_of_a_replacement_is_the_one_that_the_newer_text_names(tenant, write_silo):
    write_silo("staging", "The staging DB runs on heron since 2 March 2026.")
    write_silo("move", "On 14 June 2026 the staging DB moved from heron to otter.")
    take_in(tenant)
    tenant = _refreshed(tenant)
    old, newer = _named(tenant, "staging"), _named(tenant, "move")
    question = "where does the staging DB run"
    (outdated,) = operations.show.show(tenant, old.id).outdated
    assert (outdated.replaced_by, str(outdated.on)[:10]) == (newer.id, "2026-06-14")
    found = operations.search.search(tenant, question)
    told = next(memory for memory in found.memories if memory.id == old.id)
    assert told.replaced_on == outdated.on
    told_on = set(re.findall(r"replaced (?:by \d+ )?on (\S{10})", found.text(LocalTime(UTC))))
    told_on |= set(re.findall(r"replaced (?:by \d+ )?on (\S{10})", recall_for_prompt(tenant, question, "s1").framed))
    assert told_on == {"2026-06-14"}


def test_a_replacement_whose_time_is_guessed_has_no_day(tenant, write_silo):
    write_silo("staging", "The staging DB runs on heron since 2 March 2026.")
    write_silo("move", "The staging DB moved from heron to otter.")
    take_in(tenant)
    tenant = _refreshed(tenant)
    question = "where does the staging DB run"
    shown = operations.show.show(tenant, _named(tenant, "staging").id).text(LocalTime(UTC))
    found = operations.search.search(tenant, question).text(LocalTime(UTC))
    for text in (
        shown,
        found,
        recall_for_prompt(tenant, question, "s1").framed,
        operations.context.context(tenant, [question]).document,
    ):
        assert "replaced by" in text
        assert not re.search(r"replaced by (id )?\d+ on", text), text
    assert re.search("created .*, guessed", shown)


def test_a_passage_without_the_outdated_sentence_is_not_marked(tenant, write_silo):
    write_silo("ledger-runbook", _OLD.replace("Reports go to finance by mail.", "Reports go to finance by mail. " * 20))
    write_silo("hosts-of-autumn", _NEW)
    take_in(tenant)
    found = operations.search.search(_refreshed(tenant), "when are the books closed, after which carrier")
    old = next(memory for memory in found.memories if memory.title == "ledger-runbook")
    assert old.outdated
    assert "replaced by" not in found.text(LocalTime(UTC))
    assert found.memories[0].title == "ledger-runbook"


def test_what_is_forgotten_marks_nothing_from_that_moment_on(ledger):
    old, newer = _named(ledger, "ledger-runbook"), _named(ledger, "hosts-of-autumn")
    assert operations.show.show(ledger, old.id).outdated
    operations.changes.forget(ledger, newer.id)
    assert operations.show.show(ledger, old.id).outdated == ()
    assert all(memory.outdated == () for memory in operations.search.search(ledger, _QUESTION).memories)


def test_whoever_decides_that_both_hold_unmarks_the_sentence_and_undo_marks_it_again(ledger):
    old, newer = _named(ledger, "ledger-runbook"), _named(ledger, "hosts-of-autumn")
    decide_both_hold(ledger, old.id, newer.id, stated_by="test")
    ledger = _refreshed(ledger)
    assert operations.show.show(ledger, old.id).outdated == ()
    operations.undo.undo(ledger, old.id)
    ledger = _refreshed(ledger)
    assert operations.show.show(ledger, old.id).outdated


@pytest.mark.parametrize("kind", [RelationType.EVOLVED_INTO, RelationType.INVALIDATED_BY])
def test_who_confirms_a_replacement_keeps_its_mark(ledger, kind):
    old, newer, local = _named(ledger, "ledger-runbook"), _named(ledger, "hosts-of-autumn"), LocalTime(UTC)
    marked = operations.show.show(ledger, old.id).outdated
    operations.relate.relate(ledger, old.id, kind, newer.id, stated_by="test")
    ledger = _refreshed(ledger)
    assert operations.show.show(ledger, old.id).outdated == marked
    assert operations.show.recent(ledger).text(local).count(f"replaced by {newer.id}") == 1
    told = operations.context.context(ledger, [_QUESTION], form="markdown").document
    assert f"replaced by id {str(newer.id)[:6]}" in told
    assert "perhaps" not in told


def test_a_memory_is_marked_as_a_whole_if_only_a_stated_relation_replaces_it(tenant):
    now, local = datetime(2026, 9, 2, tzinfo=UTC), LocalTime(UTC)
    old, newer = (
        operations.store.store(tenant, NewMemory(text, Source.CLI, created_at=now)).id
        for text in ("Mira waters the plants. She has a key.", "A robot looks after all greenery.")
    )
    operations.relate.relate(tenant, old, RelationType.EVOLVED_INTO, newer, stated_by="test")
    tenant = _refreshed(tenant)
    (outdated,) = operations.show.show(tenant, old).outdated
    assert (outdated.sentence, outdated.replaced_by, outdated.on) == ("", newer, now)
    assert operations.show.show(tenant, newer).outdated == ()
    mark = f"replaced by {newer} on 2026-09-02: A robot looks after all greenery."
    for text in (operations.show.show(tenant, old).text(local), operations.show.recent(tenant).text(local)):
        assert text.count(mark) == 1, text
    told = operations.context.context(tenant, ["who waters the plants"], form="markdown").document
    assert "replaced by id" in told
    assert "perhaps" not in told
    operations.undo.undo(tenant, old)
    reopened = Tenant(tenant.settings, tenant.name)
    assert not any(hit.replaced_by for hit in operations.search.search(reopened, "waters plants").memories)
    assert operations.show.show(_refreshed(tenant), old).outdated == ()


@pytest.mark.parametrize("edited", [0, 1])
def test_a_relation_that_is_taken_back_replaces_nothing_though_one_end_was_edited_meanwhile(tenant, edited):
    ends = [
        operations.store.store(tenant, NewMemory(text, Source.CLI)).id
        for text in ("Mira waters the plants. She has a key.", "A robot looks after all greenery.")
    ]
    operations.relate.relate(tenant, ends[0], RelationType.EVOLVED_INTO, ends[1], stated_by="test")
    tenant = _refreshed(tenant)
    text = tenant.memories.get([ends[edited]])[0].content
    newer = operations.changes.edit(tenant, ends[edited], f"{text} Daily.", source=Source.CLI).id
    tenant = _refreshed(tenant)
    assert any(hit.replaced_by for hit in operations.search.search(tenant, "waters plants").memories)
    operations.undo.undo(tenant, ends[1 - edited])
    reopened = Tenant(tenant.settings, tenant.name)
    assert not any(hit.replaced_by for hit in operations.search.search(reopened, "waters plants").memories)
    older = newer if edited == 0 else ends[0]
    assert operations.show.show(reopened, older).outdated == operations.show.show(_refreshed(tenant), older).outdated == ()


def test_of_three_values_the_oldest_names_the_newest_and_the_second_one_if_that_is_forgotten(tenant, write_silo):
    write_silo("ledger-runbook", _OLD)
    write_silo(
        "hosts-of-autumn",
        "Two racks were emptied.\n\nSince 2 September 2026 the nightly import of the ledger runs on host alder.",
    )
    write_silo(
        "hosts-of-winter", "Snow fell early.\n\nSince 4 November 2026 the nightly import of the ledger runs on host maple."
    )
    take_in(tenant)
    tenant = _refreshed(tenant)
    first, second, third = (_named(tenant, name) for name in ("ledger-runbook", "hosts-of-autumn", "hosts-of-winter"))
    assert [each.replaced_by for each in operations.show.show(tenant, first.id).outdated] == [third.id]
    texts = [strip_marks(each.content.rpartition("\n\n")[2]).rpartition("mail. ")[2] for each in (first, second, third)]
    steps = [(first.id, texts[0], second.id, texts[1]), (second.id, texts[1], third.id, texts[2])]
    chain = list_replaced([StatementChange(*step, third.created_at, "replaced") for step in steps])
    assert [each.replaced_by for each in find_outdated(chain, {}, [first], tenant.memories.get)[first.id]] == [third.id]
    operations.changes.forget(tenant, third.id)
    assert [each.replaced_by for each in operations.show.show(tenant, first.id).outdated] == [second.id]


def test_what_holds_comes_before_the_memory_that_its_outdated_sentence_made_a_hit(tenant, write_silo):
    write_silo("import-on-beech", "Reports go to finance by mail.\n\nThe nightly import of the ledger runs on host beech.")
    write_silo(
        "autumn",
        f"Two racks were emptied in autumn.\n\nThe power bill fell by a third. {_NEW.rpartition('third. ')[2]} "
        + "Snow fell. " * 30,
    )
    take_in(tenant)
    found = operations.search.search(_refreshed(tenant), "nightly ledger import on host beech")
    assert [memory.title for memory in found.memories][:2] == ["autumn", "import-on-beech"]


def test_what_is_contradicted_or_perhaps_replaced_is_marked_so_and_what_is_decided_is_not_said_again(tenant):
    now = datetime(2026, 9, 2, tzinfo=UTC)
    tea, milk, oats = (
        operations.store.store(tenant, NewMemory(text, Source.CLI, created_at=now)).id
        for text in ("Tea stands on the shelf. It is green.", "Milk stands on the shelf.", "Oats stand in the jar.")
    )
    memories = tenant.memories.get([tea, milk, oats])
    shelf = (tea, "Tea stands on the shelf."), (milk, "Milk stands on the shelf.")
    green = (tea, "It is green."), (oats, "Oats stand in the jar.")

    def marked(*changes: StatementChange) -> dict[int, list[tuple[str, str]]]:
        doubted = list_doubted(changes)
        found = find_outdated(list_replaced(changes), doubted, memories, tenant.memories.get)
        return {number: [(each.sentence, each.line(UTC)) for each in told] for number, told in found.items()}

    contradicted = StatementChange(*shelf[0], *shelf[1], now, "contradicted")
    assert marked(contradicted) == {
        tea: [(shelf[0][1], f"contradicted by {milk} on 2026-09-02: Milk stands on the shelf.")],
        milk: [(shelf[1][1], f"contradicted by {tea} on 2026-09-02: Tea stands on the shelf.")],
    }
    likely = StatementChange(*green[0], *green[1], now, "perhaps replaced", 0.7)
    assert marked(likely) == {tea: [(green[0][1], f"perhaps replaced by {oats} on 2026-09-02: Oats stand in the jar.")]}
    assert marked(likely._replace(probability=0.6)) == {}
    assert marked(likely, StatementChange(*green[0], *shelf[1], now, "replaced")) == {
        tea: [(green[0][1], f"replaced by {milk} on 2026-09-02: Milk stands on the shelf.")]
    }
    memories = [memories[0], memories[2]]
    operations.changes.forget(tenant, milk)
    assert marked(contradicted) == {}


def test_hearsay_is_marked_where_it_is_found(tenant):
    fact, hearsay = (
        operations.store.store(tenant, NewMemory(text, Source.CLI, created_at=datetime(2026, 9, day, tzinfo=UTC))).id
        for day, text in (
            (1, "The error budget was tightened to 0.2 % a month."),
            (9, "Anke says the error budget is 0.3 % a month."),
        )
    )
    found = operations.search.search(_refreshed(tenant), "how large is the error budget").text(LocalTime(UTC))
    assert f"contradicted by {hearsay} on 2026-09-09: Anke says" in found
    assert f"contradicted by {fact} on 2026-09-01: The error budget" in found


def test_the_day_of_a_replacement_is_shown_in_the_readers_zone():
    outdated = Outdated(sentence="A", replaced_by=1, on=datetime(2026, 10, 31, 23, tzinfo=UTC), by_sentence="B")
    assert outdated.line(ZoneInfo("Europe/Berlin")) == "replaced by 1 on 2026-11-01: B"
