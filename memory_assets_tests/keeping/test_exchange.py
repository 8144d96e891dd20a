"""`memory export` and `memory import`: exported memories are imported unchanged."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.cli.main import cli
from memory_assets.ingest import direct
from memory_assets.learn.brief import read_brief
from memory_assets.learn.briefing import renew_brief
from memory_assets.models import Kind, NewMemory, RelationType, SecretPolicy, Source, State
from memory_assets.operations.changes import edit, forget, restore, supersede, tag
from memory_assets.operations.conflicts import decide_both_hold
from memory_assets.operations.context import context
from memory_assets.operations.erase import erase
from memory_assets.operations.exchange import export_lines, import_lines
from memory_assets.operations.relate import relate
from memory_assets.operations.show import recent
from memory_assets.operations.store import store
from memory_assets.operations.undo import undo
from memory_assets.stores.relations import StatedRelation
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import examples

WORDS = st.lists(
    st.sampled_from(["Alice", "Straße", "moved", "東京", "export", "DuckDB", "—", "'why'", '"May"', "Bob's"]),
    min_size=1,
    max_size=8,
)
TEXTS = WORDS.map(" ".join)
MOMENTS = st.datetimes(datetime(2001, 1, 1), datetime(2026, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001
MEMORIES = st.fixed_dictionaries(
    {
        "content": TEXTS,
        "kind": st.sampled_from(Kind),
        "title": st.just("") | TEXTS,
        "tags": st.lists(st.sampled_from(["billing", "home-lab", "export"]), unique=True),
        "created_at": MOMENTS,
        "session": st.sampled_from(["", "s1"]),
        "author": st.sampled_from(["", "Mira"]),
        "project": st.sampled_from(["", "/home/ada/billing"]),
        "importance": st.floats(0, 1, width=32),
        "confidence": st.floats(0, 1, width=32),
        "protected": st.booleans(),
        "state": st.sampled_from(State),
        "source": st.sampled_from(Source),
        "links": st.lists(st.sampled_from(["billing", "alice"]), unique=True),
        "external_id": st.sampled_from(["", "x-1"]),
        "metadata": st.dictionaries(st.sampled_from(["a", "b"]), st.integers() | TEXTS),
    }
)


def exported(tenant: Tenant) -> dict[int, dict[str, Any]]:
    """Lines by id, without when each row was written here."""
    lines = [json.loads(line) for text in export_lines(tenant) for line in text.splitlines()]
    return {line.pop("id"): {name: value for name, value in line.items() if name != "updated_at"} for line in lines}


def moved(tenant: Tenant) -> Tenant:
    """Return a new tenant that imported this one's export."""
    other = Tenant(tenant.settings, f"other-{uuid4().hex[:8]}")
    lines = [line.encode() for text in export_lines(tenant) for line in text.splitlines()]
    import_lines(other, "all.jsonl", lines, skip_invalid=False, on_fault=pytest.fail, on_progress=lambda _done, _total: None)
    return other


@pytest.mark.long
@settings(max_examples=examples(4))
@given(st.lists(MEMORIES, min_size=1, max_size=6), st.data())
def test_an_export_that_is_imported_into_a_new_tenant_is_equal(tenant: Tenant, given: list[dict[str, Any]], data: st.DataObject):
    first = Tenant(tenant.settings, f"first-{uuid4().hex[:8]}")
    lines = [{**each, "id": number, "created_at": each["created_at"].isoformat()} for number, each in enumerate(given, 1)]
    for number, line in enumerate(lines[1:], 2):
        if line["state"] is State.SUPERSEDED:
            line["superseded_by"] = data.draw(st.integers(1, len(lines)).filter(lambda other, number=number: other != number))
    import_lines(
        first,
        "lines.jsonl",
        [json.dumps(line, default=str).encode() for line in lines],
        skip_invalid=False,
        on_fault=pytest.fail,
        on_progress=lambda _done, _total: None,
    )
    ends = st.integers(1, len(lines))
    for source, target, kind in data.draw(st.lists(st.tuples(ends, ends, st.sampled_from(RelationType)), max_size=4)):
        if source != target:
            first.relations.state(StatedRelation(source, target, kind, 0.25, "because", "mcp"))
    assert exported(moved(first)) == exported(first)


def test_history_states_relations_and_equal_times_come_back(tenant: Tenant):
    old = store(tenant, NewMemory("Alice owns the export.", Source.CLI, session="s")).id
    new = edit(tenant, old, "Bob owns the export.", source=Source.CLI).id
    tied = datetime.now(UTC) - timedelta(days=3)
    others = [store(tenant, NewMemory(f"Fact {n}", Source.CLI, session="s", created_at=tied)).id for n in range(3)]
    tenant.memories.transition(others[:1], [State.ACTIVE], State.FORGOTTEN)
    tenant.memories.transition(others[1:2], [State.ACTIVE], State.ARCHIVED)
    relate(tenant, new, RelationType.RELATES_TO, others[2], note="noted", stated_by=Source.CLI)
    other = moved(tenant)
    assert exported(other) == exported(tenant)
    (history,) = other.memories.get([old])
    assert (history.state, history.superseded_by) == (State.SUPERSEDED, new)
    assert other.relations.scan().to_pylist() == tenant.relations.scan().to_pylist()
    version = other.relations.version
    lines = [line.encode() for text in export_lines(tenant) for line in text.splitlines()]
    again = import_lines(other, "x", lines, skip_invalid=False, on_fault=pytest.fail, on_progress=lambda _done, _total: None)
    assert (again.added, again.updated, other.relations.version) == (0, 0, version)


def lines_of(tenant: Tenant) -> list[str]:
    return [line for text in export_lines(tenant) for line in text.splitlines()]


def taken_in(tenant: Tenant, lines: list[str]) -> tuple[int, int, int]:
    done = import_lines(
        tenant,
        "x",
        [line.encode() for line in lines],
        skip_invalid=False,
        on_fault=pytest.fail,
        on_progress=lambda _done, _total: None,
    )
    return done.added, done.updated, done.unchanged


@pytest.mark.parametrize("line", ['{"id": 7, "superseded_by": 8}', '{"id": 7, "state": "superseded", "superseded_by": 7}'])
def test_a_line_that_is_replaced_and_holds_is_refused(tenant: Tenant, line: str):
    faults: list[str] = []
    lines = [(line[:-1] + ', "content": "The dock is open."}').encode()]
    done = import_lines(tenant, "x", lines, skip_invalid=True, on_fault=faults.append, on_progress=lambda _done, _total: None)
    assert (done.added, done.refused) == (0, 1) and "x line 1, superseded_by: leave it out" in faults[0]


def test_a_line_of_the_future_is_refused_as_a_text_is_that_is_stored(tenant: Tenant):
    faults: list[str] = []
    lines = [b'{"content": "The dock is open.", "created_at": "2199-01-01T00:00:00Z"}']
    done = import_lines(tenant, "x", lines, skip_invalid=True, on_fault=faults.append, on_progress=lambda _done, _total: None)
    assert (done.added, done.refused) == (0, 1) and "created_at: 2199-01-01 lies in the future" in faults[0]


@pytest.mark.parametrize(
    "line",
    [{"created_at": "0001-01-01T00:00:00+01:00"}, {"created_at": "9999-12-31T23:59:59-05:00", "pipeline": "x"}],
)
def test_a_time_that_stands_for_none_is_refused(tenant: Tenant, line: dict[str, str]):
    faults: list[str] = []
    lines = [json.dumps({"content": "The dock is open.", **line}).encode()]
    done = import_lines(tenant, "x", lines, skip_invalid=True, on_fault=faults.append, on_progress=lambda _done, _total: None)
    assert (done.added, done.refused) == (0, 1) and "is no year of a memory" in faults[0]


def test_a_file_with_a_byte_order_mark_is_imported(tenant: Tenant):
    assert taken_in(tenant, ['\ufeff{"content": "The dock is open."}', '{"content": "The crane fell."}']) == (2, 0, 0)


def test_the_search_for_secrets_tells_how_far_it_is(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(direct, "_CHUNK", 1)
    lines = [b'{"content": "The dock is open."}', b'{"content": "The crane fell."}']
    done: list[tuple[int, int]] = []
    ways: dict[str, Any] = {"on_fault": pytest.fail, "on_progress": lambda *_: None, "on_check": lambda *at: done.append(at)}
    import_lines(tenant, "x", lines, skip_invalid=False, **ways)
    assert done == [(0, 2), (1, 2), (2, 2)]


def test_a_fault_of_a_line_names_its_field_and_is_one_sentence(tenant: Tenant):
    faults: list[str] = []
    wrong = [{"content": " "}, {"content": "The dock is open.", "relations": [{"target_id": 3, "type": "NOPE"}]}]
    lines = [json.dumps(each).encode() for each in wrong]
    import_lines(tenant, "x", lines, skip_invalid=True, on_fault=faults.append, on_progress=lambda _done, _total: None)
    assert faults[0] == "x line 1, content is empty or blank: write at least one visible character."
    assert faults[1].startswith("x line 2, relations.0.type: Input should be")


@pytest.mark.parametrize("guessed", [None, 7, "created_at", ["created_at"]])
def test_metadata_of_any_form_is_told_in_briefs_and_contexts(tenant: Tenant, guessed: object):
    line = {"content": "The early bird is an owl.", "metadata": {"guessed": guessed}}
    assert taken_in(tenant, [json.dumps(line)]) == (1, 0, 0)
    renew_brief(tenant)
    brief = read_brief(tenant.folder)
    assert brief and "owl" in brief.lines[0].text
    assert "owl" in context(tenant, ["early bird"]).document


def test_a_time_outside_of_the_calendar_from_an_earlier_release_is_read_and_can_be_erased(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory_assets.operations.exchange.EARLIEST", datetime.min.replace(tzinfo=timezone(timedelta(hours=14))))
    line = json.dumps({"content": "The dock is open.", "created_at": "0001-01-01T00:00:00+01:00"})
    assert taken_in(tenant, [line]) == (1, 0, 0)
    (memory,) = recent(tenant).memories
    assert memory.created_at == datetime.fromtimestamp(0, UTC)
    erase(tenant, [memory.id], confirm=True)
    assert len(tenant.memories) == 0


def test_tags_that_were_removed_do_not_come_back_with_an_export(tenant: Tenant):
    number = store(tenant, NewMemory("Bruno tested the boiler of Lagos.", Source.CLI, tags=("heating",))).id
    assert tag(tenant, number, remove=["Lagos", "boiler"]).tags == ["heating", "bruno"]
    other = moved(tenant)
    assert exported(other) == exported(tenant)
    (kept,) = other.memories.get([number])
    assert not {"lagos", "lago", "boiler"} & set(kept.tags)


def test_a_text_that_another_machine_masked_stays_whole_where_it_came_from(tenant: Tenant):
    here = Tenant(tenant.settings.model_copy(update={"secrets": SecretPolicy.ALLOW}))
    said = "The password of the router is tr0ub4dor&3x."
    number = store(here, NewMemory(said, Source.CLI, title="Router with password: tr0ub4dor&3x")).id
    there = moved(tenant)
    assert "tr0ub4dor" not in str(there.memories.get([number]))
    tag(there, number, add=["urgent"])
    assert taken_in(here, lines_of(there)) == (0, 1, 0)
    (kept,) = here.memories.get([number])
    assert (kept.content, kept.title) == (said, "Router with password: tr0ub4dor&3x")
    assert "urgent" in kept.tags
    edited = [line.replace("router", "modem") for line in lines_of(there)]
    assert taken_in(here, edited) == (0, 1, 0)
    assert here.memories.get([number])[0].content == "The password of the modem is [secret: password]."


def test_two_machines_bring_each_other_what_they_forgot_and_replaced(tenant: Tenant):
    numbers = [store(tenant, NewMemory(f"Bruno tested boiler {n} of Lagos.", Source.CLI)).id for n in range(4)]
    there = moved(tenant)
    edited = edit(tenant, numbers[0], "Bruno replaced boiler 0.", source=Source.CLI).id
    forget(tenant, numbers[1])
    forget(there, numbers[2])
    tag(there, numbers[3], add=["urgent"])
    before = lines_of(there)
    assert taken_in(there, lines_of(tenant))[0] == 1
    taken_in(tenant, before)
    for each in (tenant, there):
        states = {memory.id: (memory.state, memory.superseded_by) for memory in each.memories.get([*numbers, edited])}
        assert states == {
            numbers[0]: (State.SUPERSEDED, edited),
            numbers[1]: (State.FORGOTTEN, None),
            numbers[2]: (State.FORGOTTEN, None),
            numbers[3]: (State.ACTIVE, None),
            edited: (State.ACTIVE, None),
        }
    undo(tenant, numbers[1])
    taken_in(tenant, lines_of(there))
    (back,) = tenant.memories.get([numbers[1]])
    assert back.state is State.ACTIVE


def test_a_memory_is_superseded_by_an_import_only_if_the_newer_one_is_there(tenant: Tenant):
    number = store(tenant, NewMemory("Bruno tested the boiler of Lagos.", Source.CLI)).id
    there = moved(tenant)
    edit(tenant, number, "Bruno replaced the boiler.", source=Source.CLI)
    (line,) = [line for line in lines_of(tenant) if json.loads(line)["id"] == number]
    taken_in(there, [line])
    (kept,) = there.memories.get([number])
    assert kept.state is State.ACTIVE


def states_of(tenant: Tenant, *numbers: int) -> list[State]:
    return [memory.state for memory in tenant.memories.get(numbers)]


def test_two_machines_that_supersede_the_other_way_round_lose_neither_text(tenant: Tenant):
    mira, bo, eve = (store(tenant, NewMemory(f"The rota begins with {name}.", Source.CLI)).id for name in ("Mira", "Bo", "Eve"))
    there = moved(tenant)
    supersede(tenant, mira, bo)
    supersede(tenant, bo, eve)
    supersede(there, eve, mira)
    here = lines_of(tenant)
    taken_in(tenant, lines_of(there))
    taken_in(there, here)
    assert states_of(tenant, mira, bo, eve) == [State.SUPERSEDED, State.SUPERSEDED, State.ACTIVE]
    assert states_of(there, mira, bo, eve) == [State.ACTIVE, State.SUPERSEDED, State.SUPERSEDED]


def test_what_was_forgotten_before_an_older_export_was_imported_leaves_recall(tenant: Tenant):
    number = store(tenant, NewMemory("Mira keeps the key of the vault.", Source.CLI)).id
    before = lines_of(tenant)
    forget(tenant, number)
    there = Tenant(tenant.settings, f"there-{uuid4().hex[:8]}")
    taken_in(there, before)
    taken_in(there, lines_of(tenant))
    assert states_of(there, number) == [State.FORGOTTEN]


def test_what_was_restored_is_not_forgotten_again_by_its_own_echo(tenant: Tenant):
    old, new = (store(tenant, NewMemory(f"Mira keeps key {n} of the vault.", Source.CLI)).id for n in range(2))
    there, empty = moved(tenant), Tenant(tenant.settings, f"empty-{uuid4().hex[:8]}")
    forget(tenant, old)
    edited = edit(tenant, new, "Bo keeps key 1 of the vault.", source=Source.CLI).id
    before = lines_of(tenant)
    restore(tenant, old)
    undo(tenant, edited)
    for each in (there, empty):
        taken_in(each, before)
        taken_in(tenant, lines_of(each))
    assert states_of(tenant, old, new, edited) == [State.ACTIVE, State.ACTIVE, State.FORGOTTEN]


def test_an_edit_that_was_taken_back_there_is_taken_back_here(tenant: Tenant):
    number = store(tenant, NewMemory("Mira keeps the key of the vault.", Source.CLI)).id
    edited = edit(tenant, number, "Bo keeps the key of the vault.", source=Source.CLI).id
    there = moved(tenant)
    undo(tenant, edited)
    for _ in range(2):
        taken_in(there, lines_of(tenant))
        assert states_of(there, number, edited) == [State.ACTIVE, State.FORGOTTEN]
    taken_in(tenant, lines_of(there))
    assert states_of(tenant, number, edited) == [State.ACTIVE, State.FORGOTTEN]


def test_a_relation_that_was_taken_back_returns_only_if_it_is_stated_anew(tenant: Tenant):
    one, other = (store(tenant, NewMemory(f"{name} keeps the key of the vault.", Source.CLI)).id for name in ("Mira", "Bo"))
    decide_both_hold(tenant, one, other, stated_by="cli")
    there = moved(tenant)
    undo(tenant, one)
    taken_in(tenant, lines_of(there))
    assert tenant.relations.scan().num_rows == 0
    relate(there, one, RelationType.RELATES_TO, other, note="both hold since May", stated_by="cli")
    taken_in(tenant, lines_of(there))
    assert tenant.relations.scan()["note"].to_pylist() == ["both hold since May"]


def test_an_export_that_is_imported_where_it_came_from_changes_nothing(tenant: Tenant):
    numbers = [store(tenant, NewMemory(f"Bruno tested boiler {n} of Lagos.", Source.CLI)).id for n in range(4)]
    newer = edit(tenant, numbers[0], "Bruno replaced the boiler.", source=Source.CLI).id
    tag(tenant, numbers[1], add=["urgent"])
    lines = lines_of(tenant)
    forget(tenant, numbers[2])
    tag(tenant, numbers[3], add=["late"])
    before, version = exported(tenant), tenant.memories.version
    assert taken_in(tenant, lines) == (0, 0, 5)
    assert (exported(tenant), tenant.memories.version) == (before, version)
    changed = [line.replace("boiler 3", "boiler 33") for line in lines]
    assert taken_in(tenant, changed) == (0, 1, 4)
    (late,) = tenant.memories.get([numbers[3]])
    assert late.content == "Bruno tested boiler 33 of Lagos."
    assert "late" in late.tags
    undo(tenant, numbers[3])
    assert "late" not in tenant.memories.get([numbers[3]])[0].tags
    assert tenant.memories.get([newer])[0].metadata["revises"] == numbers[0]


def test_relations_to_memories_that_are_not_there_are_left_out(tenant: Tenant, tmp_path: Path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"content": "One.", "id": 1, "relations": [{"target_id": 2, "type": "RELATES_TO"}]}\n')
    assert CliRunner().invoke(cli, ["import", str(file)]).exit_code == 0
    assert len(tenant.relations) == 0


def test_an_export_makes_no_folders(tenant: Tenant, tmp_path: Path):
    for line in (["export", str(tmp_path / "nowhere" / "x.jsonl")], ["graph", str(tmp_path / "nowhere" / "x.html")]):
        done = CliRunner().invoke(cli, line)
        assert done.exit_code
        assert "there is no folder" in f"{done.output} {done.exception}"
    assert not (tmp_path / "nowhere").exists()
