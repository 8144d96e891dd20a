"""A sync: creations, changes, links, removals, a person's decisions in Tana, and a missing or faulty Tana."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.errors import InvalidInputError
from memory_assets.settings import Settings, load_settings
from memory_assets.tana.activity import compare_mapping
from memory_assets.tana.changes import Report, SyncOptions
from memory_assets.tana.client import TanaClient
from memory_assets.tana.errors import TanaError
from memory_assets.tana.state import Mapping, SyncRecord
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.contract import RefusedError
from memory_assets_tests.tana.nodes import WORKSPACE, Value
from memory_assets_tests.tana.seeds import HOSTILE, SLOW_REVIEW, TEST_FIRST, counts, learning, mapping, proposal, write_seed
from memory_assets_tests.tana.stand_in import StandIn


def actions(report: Report) -> dict[str, str]:
    return {outcome.seed_id: outcome.action for outcome in report.outcomes}


def fail_imports(tana: StandIn, monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> None:
    """Make Tana answer every import that contains `text` with `status`."""
    real = tana.import_paste

    def import_paste(parent: str, content: str) -> dict[str, object]:
        if text in content:
            raise RefusedError(status, "Internal server error")
        return real(parent, content)

    monkeypatch.setattr(tana, "import_paste", import_paste)


def test_the_first_sync_makes_every_node_with_its_fields_and_links(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path
) -> None:
    unconfirmed = learning("ins_0001", "Not yet", confirmed=False)
    write_seed(seed, [TEST_FIRST, HOSTILE], [unconfirmed], [], [SLOW_REVIEW])
    before = seed.read_bytes()
    report = sync(tenant)
    assert actions(report) == {"pat_0001": "created", "pat_0002": "created", "prop_077": "created"}
    assert counts(workspace) == (2, 1) and seed.read_bytes() == before
    said = json.loads(settings.pai_mapping.read_text())
    assert list(said) == ["version", "workspace", "lastSync", "mappings"] and said["lastSync"].endswith("Z")
    first, hostile = (workspace.nodes[said["mappings"][key]] for key in ("pat_0001", "pat_0002"))
    expected = {
        "Type": ["pattern"],
        "Content": ["Ada Lovelace writes the failing test before the fix"],
        "Confidence": ["10"],
        "Source": ["session-0141"],
        "Confirmed At": ["2026-01-11"],
        "Seed Entry ID": ["pat_0001"],
        "Related People": ["Ada Lovelace"],
        "Related Projects": [],
    }
    assert {name: workspace.value(first, name) for name in expected} == expected
    assert hostile.name == "Atlas: use std::vector #here [[x]] - **not** a field:: see pat_0001"
    assert workspace.value(hostile, "Content") == [hostile.name]
    assert workspace.value(hostile, "Related Projects") == ["Atlas"]
    proposed = workspace.nodes[said["mappings"]["prop_077"]]
    assert [workspace.value(proposed, name) for name in ("Status", "Confidence", "Extracted From", "Decided At")] == [
        ["pending"],
        ["8.2"],
        ["session-0150"],
        [],
    ]
    assert not workspace.violations and not [tag for tag in workspace.tags.values() if tag.name == "here"]
    assert {attribute: 1 for node in (first, hostile) for attribute in [held.attribute for held in node.tuples]} == {
        held.attribute: sum(other.attribute == held.attribute for other in node.tuples)
        for node in (first, hostile)
        for held in node.tuples
    }


def test_a_second_sync_writes_nothing_and_an_edit_only_what_differs(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path
) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    sync(tenant)
    nodes, writes = len(workspace.nodes), workspace.writes
    assert set(actions(sync(tenant)).values()) == {"skipped"}
    assert (len(workspace.nodes), workspace.writes) == (nodes, writes)
    write_seed(seed, [learning("pat_0001", TEST_FIRST["content"], source="session-0200"), HOSTILE], [], [], [SLOW_REVIEW])
    assert actions(sync(tenant))["pat_0001"] == "updated"
    assert workspace.writes == writes + 1
    assert workspace.value(workspace.nodes[mapping(settings)["pat_0001"]], "Source") == ["session-0200"]


def test_links_go_beside_those_of_the_user_and_only_our_own_are_taken_away(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path
) -> None:
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    node = workspace.nodes[mapping(settings)["pat_0001"]]
    people = next(definition.id for definition in workspace.tags[node.tags[0]].fields if definition.name == "Related People")
    friend = workspace.add_node("Mary Somerville", workspace.tag_named("person"))
    workspace.set_option(node.id, people, friend.id, "append")
    write_seed(seed, [learning("pat_0001", "Grace Hopper writes the failing test before the fix")])
    sync(tenant)
    assert sorted(workspace.value(node, "Related People")) == ["Grace Hopper", "Mary Somerville"]
    workspace._put(node, people, None, "replace")
    write_seed(seed, [learning("pat_0001", "Grace Hopper writes the failing test before every fix")])
    sync(tenant)
    assert workspace.value(node, "Related People") == []


def test_a_value_that_a_person_typed_beside_our_links_is_never_removed(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path
) -> None:
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    node = workspace.nodes[mapping(settings)["pat_0001"]]
    (people,) = [held for held in node.tuples if workspace._field_name(held.attribute) == "Related People"]
    people.values.append(Value("Charles Babbage"))
    write_seed(seed, [learning("pat_0001", "Grace Hopper writes the failing test before the fix")])
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert workspace.value(node, "Related People") == ["Ada Lovelace", "Charles Babbage", "Grace Hopper"]
    assert "Outdated links stay in Tana beside a value" in said.stderr and '"Grace Hopper writes' in said.stderr
    write_seed(seed, [learning("pat_0001", "One writes the failing test before the fix")])
    sync(tenant)
    assert "Charles Babbage" in workspace.value(node, "Related People")
    del people.values[1]
    write_seed(seed, [learning("pat_0001", "One writes the failing test before every fix")])
    sync(tenant)
    assert workspace.value(node, "Related People") == []


def test_fields_that_the_workspace_spells_its_own_way_are_read_back(
    workspace: StandIn, tenant: Tenant, settings: Settings, seed: Path
) -> None:
    tag = workspace.add_tag("pai_learning")
    people = {"name": "relatedPeople", "dataType": "instance", "sourceTagId": workspace.tag_named("person"), "isMultiValue": True}
    for body in ({"name": "seedEntryId", "dataType": "plain"}, people):
        workspace.add_field(tag, body)
    CliRunner().invoke(cli, ["pai", "schema", "init"])
    write_seed(seed, [])
    sync(tenant)
    write_seed(seed, [TEST_FIRST])
    workspace.traps.lose_answers = 1
    sync(tenant)
    sync(tenant)
    assert counts(workspace) == (1, 0)
    assert compare_mapping(tenant, TanaClient.open(settings)) == ([], [])
    node = workspace.nodes[mapping(settings)["pat_0001"]]
    (grace,) = [person for person in workspace.live("person") if person.name == "Grace Hopper"]
    workspace.set_option(node.id, workspace.tags[tag].fields[1].id, grace.id, "append")
    write_seed(seed, [learning("pat_0001", "Grace Hopper writes the failing test before the fix")])
    sync(tenant)
    assert workspace.value(node, "relatedPeople") == ["Grace Hopper"]


def test_a_node_that_tana_fails_on_stops_no_sync(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    workspace.traps.index_lag = 0
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    workspace.traps.poison = {mapping(tenant.settings)["pat_0001"]}
    write_seed(seed, [TEST_FIRST, HOSTILE])
    assert actions(sync(tenant))["pat_0002"] == "created"
    workspace.traps.poison = {workspace.add_node("My own note", workspace.tag_named("pai_learning")).id}
    write_seed(seed, [TEST_FIRST, HOSTILE, learning("pat_0003", "Never deploy on a Friday")])
    assert actions(sync(tenant))["pat_0003"] == "created"


def test_entries_that_tana_fails_on_hold_up_no_others(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_imports(workspace, monkeypatch, 500, "Bad")
    write_seed(seed, [learning(f"pat_{number}", f"{'Bad' if number < 3 else 'Good'} lesson {number}") for number in range(5)])
    report = sync(tenant)
    assert list(actions(report).values()) == ["failed"] * 3 + ["created"] * 2
    assert (report.away, report.queued) == ("", {})


def test_only_answers_lost_in_a_row_end_a_sync_and_no_entry_is_told_as_failed_and_queued(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_imports(workspace, monkeypatch, 502, "Bad")
    spread = [learning(f"pat_{number}", f"{'Good' if number % 2 else 'Bad'} lesson {number}") for number in range(8)]
    write_seed(seed, spread)
    assert list(actions(sync(tenant)).values()) == ["failed", "created"] * 4
    write_seed(seed, spread + [learning(f"ins_{number}", f"Bad insight {number}") for number in range(3)])
    report = sync(tenant)
    assert report.away and report.queued.keys().isdisjoint(actions(report))


def test_what_left_seed_json_is_trashed_and_much_at_once_only_when_said(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    all_of_them = [learning(f"pat_{number:04}", f"Lesson {number} of twenty") for number in range(20)]
    write_seed(seed, all_of_them)
    sync(tenant)
    write_seed(seed, all_of_them[:18])
    assert sorted(actions(sync(tenant)).values()).count("trashed") == 2 and counts(workspace) == (18, 0)
    write_seed(seed, all_of_them[:9])
    assert len(sync(tenant).held_back) == 9 and counts(workspace) == (18, 0)
    seed.unlink()
    report = sync(tenant)
    assert len(report.held_back) == 18 and counts(workspace) == (18, 0)
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert said.exit_code == 1 and "add --yes" in said.output
    write_seed(seed, all_of_them[:9])
    sync(tenant, SyncOptions(take_out=True))
    assert counts(workspace) == (9, 0) and len(Mapping.load(tenant.settings.pai_mapping).nodes) == 9


def test_archived_instead_of_trashed_comes_back_with_its_entry(
    workspace: StandIn, monkeypatch: pytest.MonkeyPatch, seed: Path
) -> None:
    from memory_assets.settings import load_settings

    monkeypatch.setenv("MEMORY_TANA_LEAVING", "archive")
    tenant = Tenant(load_settings())
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    write_seed(seed, [HOSTILE])
    assert actions(sync(tenant))["pat_0001"] == "archived"
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    assert workspace.value(node, "Archived At") and not node.in_trash
    writes = workspace.writes
    sync(tenant)
    assert workspace.writes == writes
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    assert workspace.value(node, "Archived At") == [] and counts(workspace) == (2, 0)


def test_an_accepted_proposal_becomes_a_learning_of_its_own(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST], [], [], [SLOW_REVIEW])
    sync(tenant)
    write_seed(seed, [TEST_FIRST], [learning("prop_077", SLOW_REVIEW["content"])])
    assert actions(sync(tenant, SyncOptions(only="prop_077"))) == {"prop_077": "created"}
    assert counts(workspace) == (2, 0)
    (node,) = workspace.by_seed_id("pai_learning", "prop_077")
    assert workspace.value(node, "Type") == ["insight"] and mapping(tenant.settings)["prop_077"] == node.id
    orphan = proposal("prop_078", "Accepted, and its learning is missing", status="accepted", decidedAt="2026-02-01T08:00:00Z")
    write_seed(seed, [TEST_FIRST], [learning("prop_077", SLOW_REVIEW["content"])], [], [orphan])
    sync(tenant)
    (kept,) = workspace.by_seed_id("pai_proposal", "prop_078")
    assert workspace.value(kept, "Status") == ["accepted"] and workspace.value(kept, "Decided At") == ["2026-02-01"]


def test_while_tana_is_away_changes_wait_and_go_when_it_is_back(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    workspace.stop()
    write_seed(seed, [learning("pat_0001", "Writes it after the fix now"), HOSTILE])
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert said.exit_code == 0 and said.stderr.count("memory:") == 1 and "2 changes wait" in said.stderr
    assert SyncRecord.load(tenant.folder).queue == {"pat_0001": "update", "pat_0002": "create"}
    workspace.start()
    assert sorted(actions(sync(tenant)).values()) == ["created", "updated"]
    assert SyncRecord.load(tenant.folder).queue == {} and counts(workspace) == (2, 0)


def test_links_that_a_passing_fault_cost_are_made_up_for_at_the_next_sync(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [learning("pat_0001", "Grace Hopper and Ada Lovelace pair on Fridays")])
    workspace.traps.failing_searches = "grace"
    said = CliRunner().invoke(cli, ["pai", "sync"])
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    assert workspace.value(node, "Related People") == ["Ada Lovelace"]
    assert "links may be missing" in said.stderr and SyncRecord.load(tenant.folder).queue == {}
    workspace.traps.failing_searches = ""
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert workspace.value(node, "Related People") == ["Ada Lovelace", "Grace Hopper"]
    assert 'are made now: "Grace Hopper and Ada' in said.stderr
    writes = workspace.writes
    assert set(actions(sync(tenant)).values()) == {"skipped"} and workspace.writes == writes


def test_a_fault_of_tana_takes_no_link_away(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [learning("pat_0001", "Grace Hopper and Ada Lovelace pair on Fridays")])
    sync(tenant)
    workspace.traps.failing_searches = "grace"
    write_seed(seed, [learning("pat_0001", "Grace Hopper and Ada Lovelace pair on Mondays")])
    assert sync(tenant).unlinked == ["pat_0001"]
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    assert sorted(workspace.value(node, "Related People")) == ["Ada Lovelace", "Grace Hopper"]


@pytest.mark.parametrize("edits", ["restore", "leave"])
def test_a_mirrored_field_that_was_changed_in_tana_is_told_and_restored(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch, edits: str
) -> None:
    monkeypatch.setenv("MEMORY_TANA_EDITS", edits)
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    sync(tenant)
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    source = next(definition.id for definition in workspace.tags[node.tags[0]].fields if definition.name == "Source")
    workspace.set_content(node.id, source, "somebody else", "replace")
    workspace.update(node.id, "Another name", None)
    said = CliRunner().invoke(cli, ["pai", "sync"])
    told = "restored" if edits == "restore" else "left so"
    assert "Changed in Tana" in said.stderr and told in said.stderr and "(name, Source)" in said.stderr
    restored = (["session-0141"], TEST_FIRST["content"])
    left = (["somebody else"], "Another name")
    assert (workspace.value(node, "Source"), node.name) == (restored if edits == "restore" else left)
    writes = workspace.writes
    again = CliRunner().invoke(cli, ["pai", "sync"])
    assert workspace.writes == writes and ("Changed in Tana" in again.stderr) == (edits == "leave")


@pytest.mark.parametrize("moved_by", ["a person", "the settings"])
def test_an_edit_is_noticed_where_the_node_no_longer_lies_below_the_parent(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch, moved_by: str
) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    node, elsewhere = workspace.nodes[mapping(tenant.settings)["pat_0001"]], workspace.add_node("My own place")
    if moved_by == "a person":
        workspace.nodes[node.parent].children.remove(node.id)
        elsewhere.children.append(node.id)
        node.parent = elsewhere.id
    else:
        monkeypatch.setenv("MEMORY_TANA_PARENT", elsewhere.id)
    workspace.update(node.id, "Another name", None)
    assert sync(Tenant(load_settings())).edited == {"pat_0001": ["name"]}
    assert node.name == TEST_FIRST["content"]
    assert sync(Tenant(load_settings())).edited == {}


def test_an_edit_that_is_left_so_outlives_a_change_of_its_entry(
    workspace: StandIn, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TANA_EDITS", "leave")
    tenant = Tenant(load_settings())
    write_seed(seed, [TEST_FIRST])
    sync(tenant)
    node = workspace.nodes[mapping(tenant.settings)["pat_0001"]]
    source = next(definition.id for definition in workspace.tags[node.tags[0]].fields if definition.name == "Source")
    workspace.set_content(node.id, source, "typed by me", "replace")
    write_seed(seed, [learning("pat_0001", "One writes the failing test before the fix")])
    assert sync(tenant).edited == {"pat_0001": ["Source"]}
    assert (node.name, workspace.value(node, "Source")) == ("One writes the failing test before the fix", ["typed by me"])


def test_a_lost_mapping_makes_no_duplicate_while_the_index_lags(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    sync(tenant)
    nodes = mapping(tenant.settings)
    tenant.settings.pai_mapping.unlink()
    assert set(actions(sync(tenant)).values()) == {"skipped"}
    assert mapping(tenant.settings) == nodes and counts(workspace) == (2, 1)


def test_a_sync_names_what_it_made_by_what_it_says(workspace: StandIn, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST])
    said = CliRunner().invoke(cli, ["pai", "sync"]).stdout
    assert 'created   "Ada Lovelace writes the failing test before the fix" -> Ada Lovelace' in said and "pat_0001" not in said
    workspace.stop()
    assert CliRunner().invoke(cli, ["pai", "sync"]).stdout.startswith("Not synced: Tana is away, and nothing waits for it.")


def test_a_sync_that_tana_breaks_off_says_that_it_is_made_in_part(
    workspace: StandIn, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_imports(workspace, monkeypatch, 502, "Bad")
    write_seed(
        seed, [learning("pat_0", "Good lesson"), *(learning(f"pat_{number}", f"Bad lesson {number}") for number in (1, 2, 3))]
    )
    assert CliRunner().invoke(cli, ["pai", "sync"]).stdout.startswith("Synced in part: 4 entries: 1 created, 3 queued.")


def test_what_is_one_is_told_as_one(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST])
    workspace.stop()
    assert "1 change waits for it." in CliRunner().invoke(cli, ["pai", "sync"]).stderr
    assert "1 change would wait for it." in CliRunner().invoke(cli, ["pai", "sync", "--dry-run"]).stderr
    assert "1 change waits for Tana" in CliRunner().invoke(cli, ["doctor"]).output


def test_ids_that_tana_paste_would_not_take_are_kept_whole(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    ids = ["a::b [[c]]", "-#x", "__proto__", "ключ №1", 'q"uote']
    write_seed(seed, [learning(seed_id, f"Lesson {number} of five") for number, seed_id in enumerate(ids)])
    sync(tenant)
    assert all(len(workspace.by_seed_id("pai_learning", seed_id)) == 1 for seed_id in ids) and counts(workspace) == (5, 0)
    writes = workspace.writes
    assert set(actions(sync(tenant)).values()) == {"skipped"} and workspace.writes == writes
    said = CliRunner().invoke(cli, ["pai", "sync", "--entry", "nobody"])
    assert isinstance(said.exception, InvalidInputError) and "'nobody'" in str(said.exception)


def test_a_tana_that_hangs_counts_as_away(
    workspace: StandIn, tenant: Tenant, seed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_assets.tana.sync._HEALTH_TIMEOUT_SECONDS", 0.2)
    write_seed(seed, [TEST_FIRST])
    workspace.traps.latency = 30
    assert sync(tenant).queued == {"pat_0001": "create"}


def test_lost_answers_and_faults_of_tana_neither_lose_nor_double(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    CliRunner().invoke(cli, ["pai", "schema", "init"])
    workspace.traps.lose_answers = 3
    for _ in range(3):
        sync(tenant)
    assert counts(workspace) == (2, 1)
    writes = workspace.writes
    sync(tenant)
    assert workspace.writes == writes
    workspace.traps.statuses = [401]
    with pytest.raises(TanaError, match="token"):
        sync(tenant)


def test_what_a_user_trashed_stays_so_until_its_entry_changes(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    workspace.traps.index_lag = 0
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    workspace.trash(mapping(tenant.settings)["pat_0001"])
    writes = workspace.writes
    report = sync(tenant)
    assert report.trashed_in_tana == ["pat_0001"] and workspace.writes == writes
    write_seed(seed, [learning("pat_0001", "Something new was learned"), HOSTILE])
    sync(tenant)
    assert counts(workspace) == (2, 0)
    workspace.trash(mapping(tenant.settings)["pat_0002"])
    sync(tenant, SyncOptions(force=True))
    assert counts(workspace) == (2, 0)


def test_a_trashed_node_of_an_entry_that_cannot_be_read_is_not_said_to_come_back(
    workspace: StandIn, tenant: Tenant, seed: Path
) -> None:
    workspace.traps.index_lag = 0
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    workspace.trash(mapping(tenant.settings)["pat_0001"])
    write_seed(seed, [TEST_FIRST | {"confirmedAt": "never"}, HOSTILE])
    assert sync(tenant).trashed_in_tana == []


def test_a_reset_workspace_is_noticed_and_filled_again_only_when_said(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE], [], [], [SLOW_REVIEW])
    sync(tenant)
    workspace.reset()
    nodes = len(workspace.nodes)
    said = CliRunner().invoke(cli, ["pai", "sync"])
    assert "3 mappings are stale" in said.stderr and "--resync" in said.stderr and len(workspace.nodes) == nodes
    sync(tenant, SyncOptions(resync=True))
    assert counts(workspace) == (2, 1)
    workspace.add_workspace("ws_other", "other")
    moved = Tenant(tenant.settings.model_copy(update={"tana_workspace": "other"}))
    assert sync(moved).moved == WORKSPACE and counts(workspace) == (2, 1)


def test_nodes_that_stand_for_an_entry_already_are_taken_over(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    workspace.traps.index_lag = 0
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    nodes = set(mapping(tenant.settings).values())
    tenant.settings.pai_mapping.unlink()
    shutil.rmtree(tenant.folder)
    sync(tenant)
    assert set(mapping(tenant.settings).values()) == nodes and counts(workspace) == (2, 0)
    own = workspace.add_node("never deploy on a friday!", workspace.tag_named("pai_learning"))
    write_seed(seed, [TEST_FIRST, HOSTILE, learning("pat_0003", "Never deploy on a Friday.")])
    sync(tenant)
    assert mapping(tenant.settings)["pat_0003"] == own.id and counts(workspace) == (3, 0)
    assert workspace.value(own, "Seed Entry ID") == ["pat_0003"]


def test_an_own_tag_with_some_fields_gets_just_the_others(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    tag = workspace.add_tag("pai_learning")
    workspace.add_field(tag, {"name": "seedEntryId", "dataType": "plain"})
    said = CliRunner().invoke(cli, ["pai", "schema", "init", "--json"])
    made = json.loads(said.output)["made"]
    assert "#pai_learning" not in made and "#pai_learning Seed Entry ID" not in made and "#pai_learning Type" in made
    assert json.loads(CliRunner().invoke(cli, ["pai", "schema", "init", "--json"]).output)["made"] == []
    kinds = {definition.name: (definition.type, definition.multiple) for definition in workspace.tags[tag].fields}
    assert kinds["Type"] == ("options", False) and kinds["Confidence"] == ("number", False)
    assert kinds["Confirmed At"] == ("date", False) and kinds["Related People"] == ("instance", True)


def test_a_seed_that_is_broken_in_part_loses_nothing_in_tana(workspace: StandIn, tenant: Tenant, seed: Path) -> None:
    write_seed(seed, [TEST_FIRST, HOSTILE])
    sync(tenant)
    write_seed(seed, [TEST_FIRST | {"confirmedAt": "never"}, HOSTILE])
    report = sync(tenant)
    assert report.refused and counts(workspace) == (2, 0) and "pat_0001" in mapping(tenant.settings)
    write_seed(seed, [{"content": "no id"}, HOSTILE])
    assert sync(tenant).held_back == ["pat_0001"] and counts(workspace) == (2, 0)
    seed.write_text("{", encoding="utf-8")
    said = CliRunner().invoke(cli, ["pai", "sync"], standalone_mode=False)
    assert "cannot be read" in str(said.exception) and counts(workspace) == (2, 0)
