"""A workspace is read in small requests, and nodes that left it leave the catalog."""

import time

import dagster as dg
import pytest

from memory_assets.tana.client import TanaClient
from memory_assets.tana.formats import read_node
from memory_assets.tana.reading import Reading, read_about, read_workspace
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.contract import RefusedError
from memory_assets_tests.tana.nodes import Tuple, Value
from memory_assets_tests.tana.stand_in import StandIn


def names(tenant: Tenant) -> set[str]:
    with tenant.catalog.read() as connection:
        return {row[0] for row in connection.execute("SELECT name FROM tana_nodes").fetchall()}


def told_of(tana: StandIn) -> set[str]:
    """Return the names of nodes that a person wrote and did not trash."""
    return {node.name for node in tana.nodes.values() if node.tags and not node.in_trash}


def delay(tana: StandIn, monkeypatch: pytest.MonkeyPatch, nodes: set[str]) -> None:
    """Make Tana answer too late whenever it is asked for one of `nodes`."""
    real = tana.answer

    def answer(method: str, target: str, authorization: str, body: bytes) -> tuple[int, object]:
        if any(f"/nodes/{node}?" in target for node in nodes):
            time.sleep(1)
        return real(method, target, authorization, body)

    monkeypatch.setattr(tana, "answer", answer)


@pytest.fixture
def read(tenant: Tenant, client: TanaClient):
    def once(most: int = 3_000) -> Reading:
        return read_workspace(tenant, client, most=most)

    return once


def test_a_workspace_is_read_with_fields_links_and_without_its_trash(tana: StandIn, tenant: Tenant, read):
    tana.populate(30)
    gone = tana.add_node("Old plan")
    tana.trash(gone.id)
    talk = tana.add_node('About <span data-inlineref-node="n1">Ada</span>')
    talk.children.append(tana.add_node("A point", parent=talk.id).id)
    done = read()
    assert done.nodes == done.read == len(names(tenant))
    assert not done.waiting
    assert {"person 0", "project 1", "Day 2", "About Ada", "A point"} <= names(tenant)
    assert "Old plan" not in names(tenant)
    with tenant.catalog.read() as connection:
        links = connection.execute("SELECT relation, count(*) FROM tana_links GROUP BY relation").fetchall()
        fields = connection.execute("SELECT name, value FROM tana_fields").fetchall()
        undated = connection.execute("SELECT count(*) FROM tana_nodes WHERE created IS NULL AND children IS NOT NULL").fetchone()
    assert dict(links)["FIELD"] == len(fields) == 29
    assert dict(links)["REFERENCE"] >= 1
    assert ("Related", "person 0") in fields
    assert undated == (0,)
    assert not tana.violations


def test_a_second_reading_costs_what_changed(tana: StandIn, tenant: Tenant, read, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory_assets.tana.reading._MAX_REREAD", 60)
    tana.populate(80)
    for node in tana.nodes.values():
        node.edited = 0.0
    first = read()
    requests = len(tana.requests)
    tana.update(tana.live("project")[5].id, "Project Heron", None)
    new = tana.add_node("Brand new", tana.tag_named("task"))
    gone = tana.live("person")[3]
    tana.trash(gone.id)
    second = read()
    assert {"Project Heron", "Brand new"} <= names(tenant)
    assert new.id
    assert second.read <= 65 < first.read
    assert len(tana.requests) - requests < 100
    read()
    assert told_of(tana) <= names(tenant)
    assert gone.name not in names(tenant)


@pytest.mark.parametrize("is_edit", [True, False])
def test_a_node_whose_parent_is_unread_leaves_the_catalog_with_the_next_reading_after_it_was_trashed(
    tana: StandIn, tenant: Tenant, client: TanaClient, read, is_edit: bool
):
    parent = tana.add_node("Journal", edited_days_ago=200)
    read()
    note = tana.add_node("Launch word", parent=parent.id, edited_days_ago=0 if is_edit else 200)
    read_about(tenant, client, [note.name])
    assert note.name in names(tenant)
    with tenant.catalog.write() as connection:  # its parent's turn comes later
        connection.execute("UPDATE tana_nodes SET read_at = now() + INTERVAL 1 DAY WHERE id = $1", [parent.id])
        connection.execute("DELETE FROM tana_links WHERE target = $1", [note.id])
    tana.trash(note.id)
    done = read()
    assert note.name not in names(tenant) and "Journal" in names(tenant)
    assert done.gone == 1


def test_what_is_stopped_goes_on_where_it_was(tana: StandIn, tenant: Tenant, read):
    tana.populate(60)
    assert read(most=20).waiting > 0
    counts = [read(most=20).nodes for _ in range(6)]
    assert counts == sorted(counts)
    assert told_of(tana) <= names(tenant)


def test_a_reading_ends_in_time_however_slow_tana_is(tana: StandIn, tenant: Tenant, client: TanaClient):
    tana.populate(100)
    tana.traps.latency = 0.1
    hurried = Tenant(tenant.settings.model_copy(update={"tana_read_seconds": 1.5}))
    begun = time.monotonic()
    done = read_workspace(hurried, client)
    assert time.monotonic() - begun < 20
    assert 0 < done.read < 100
    assert "MEMORY_TANA_READ_SECONDS (1.5)" in done.notes[0]
    tana.traps.latency = 0.0
    while read_workspace(tenant, client).waiting:
        pass
    assert told_of(tana) <= names(tenant)


def test_a_node_that_tana_fails_on_is_skipped_and_reported(tana: StandIn, tenant: Tenant, read):
    tana.populate(30)
    bad = tana.live("task")[2]
    tana.traps.poison.add(bad.id)
    done = read()
    assert list(done.skipped) == [bad.id]
    assert {node.name for node in tana.live("task")} <= names(tenant)
    with tenant.catalog.read() as connection:
        (row,) = connection.execute("SELECT id, tags FROM tana_nodes WHERE skipped IS NOT NULL").fetchall()
    assert row == (bad.id, ["task"])


@pytest.mark.parametrize("fault", ["too slow", "rejected"])
def test_a_node_that_tana_does_not_answer_for_holds_up_no_other(
    tana: StandIn, tenant: Tenant, client: TanaClient, read, monkeypatch: pytest.MonkeyPatch, fault: str
):
    tana.populate(30)
    bad = tana.live("task")[2].id
    if fault == "too slow":
        client.service.timeout = 0.5
        delay(tana, monkeypatch, {bad})
    else:
        real = tana.read

        def rejecting(node_id: str, depth: float) -> dict[str, object]:
            if node_id == bad:
                raise RefusedError(400, "cannot read this node")
            return real(node_id, depth)

        monkeypatch.setattr(tana, "read", rejecting)
    done = read()
    assert (list(done.skipped), done.waiting, done.notes) == ([bad], 0, [])
    assert told_of(tana) <= names(tenant)


def test_a_reading_stops_after_several_nodes_without_an_answer_and_keeps_the_others(
    tana: StandIn, tenant: Tenant, client: TanaClient, read, monkeypatch: pytest.MonkeyPatch
):
    tana.populate(80, ("person",))
    client.service.timeout = 0.5
    delay(tana, monkeypatch, {node.id for node in tana.live("person")})
    done = read()
    assert "Stopped after" in done.notes[0] and "took too long" in done.notes[0]
    assert 8 <= len(done.skipped) < 16 < done.read
    monkeypatch.undo()
    client.service.timeout = 15
    while read().waiting:
        pass
    assert told_of(tana) <= names(tenant)


def test_tana_that_goes_away_midway_leaves_what_was_read(tana: StandIn, tenant: Tenant, read):
    tana.populate(40)
    read(most=10)
    known = names(tenant)
    tana.traps.statuses.extend([200, 200] + [503] * 100)
    done = read()
    assert "Stopped after" in done.notes[0]
    assert known <= names(tenant)
    tana.traps.statuses.clear()
    assert not read().waiting


def test_values_of_fields_are_kept_in_order(tana: StandIn, tenant: Tenant, read):
    tag = tana.add_tag("meeting")
    node = tana.add_node("Kickoff", tag)
    node.tuples.append(Tuple(tana._field(tag, "Agenda"), [Value("scope"), Value("dates")]))
    read()
    with tenant.catalog.read() as connection:
        rows = connection.execute("SELECT value FROM tana_fields WHERE name = 'Agenda' ORDER BY place").fetchall()
    assert rows == [("scope",), ("dates",)]


def test_the_asset_reads_what_the_token_opens_and_says_when_tana_is_away(
    tana: StandIn, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    from memory_assets.defs.assets.tana import tana_graph
    from memory_assets.defs.resources import MemoryResource

    def materialised() -> dict[str, object]:
        with dg.build_asset_context(partition_key="main") as context:
            done = tana_graph(context, memory=MemoryResource())
        return dict(done.metadata or {})  # pyright: ignore[reportAttributeAccessIssue]

    tenant.state.claim()
    tana.populate(20)
    assert materialised()["dagster/partition_row_count"] == len(names(tenant)) > 20
    tana.stop()
    assert "What was read before stays." in str(materialised()["note"])
    monkeypatch.delenv("MEMORY_TANA_TOKEN")
    tenant.settings.pai_seed.parent.mkdir(parents=True, exist_ok=True)
    tenant.settings.pai_seed.write_text("{", encoding="utf-8")
    assert "set MEMORY_TANA_TOKEN" in str(materialised()["note"])
    assert len(names(tenant)) > 20


def test_a_line_separator_in_a_name_begins_no_node_and_no_field():
    held = read_node("- One\u2028- **Seed Entry ID**: pat_9999\x85- Two <!-- node-id: a1 -->\n  - Child <!-- node-id: b2 -->")
    assert [child.id for child in held.children] == ["b2"]
    assert (held.id, held.fields) == ("a1", {})
