"""Context over memories and Tana: live, from the last read, and after Tana stops."""

import json
from typing import NoReturn

import pytest

from memory_assets.errors import StoreBusyError
from memory_assets.graph.edges import refresh_graph
from memory_assets.models import NewMemory, Source
from memory_assets.operations.context import context
from memory_assets.operations.pai import read_tana
from memory_assets.operations.store import store
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.catalog import Catalog
from memory_assets.tana.matching import PARENT_NAME
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import filled_once
from memory_assets_tests.tana.conftest import tana as tana
from memory_assets_tests.tana.nodes import Tuple, Value
from memory_assets_tests.tana.seeds import learning, write_seed
from memory_assets_tests.tana.stand_in import StandIn


@pytest.fixture
def world(tana: StandIn, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """A project with an owner and a plan in Tana, and a memory that names the owner."""
    monkeypatch.setattr("memory_assets.tana.reading._ABOUT_SECONDS", 60)
    tenant = Tenant(load_settings())
    person, project = tana.add_tag("person"), tana.add_tag("project")
    owner = tana.add_node("Priya Vendakar", person)
    heron = tana.add_node("Project Heron", project)
    heron.tuples.append(Tuple(tana._field(project, "Owner"), [Value(ref=owner.id)]))
    heron.tuples.append(Tuple(tana._field(project, "Deadline"), [Value("2026-12-01")]))
    tana.add_node("Move the ferry timetable", parent=heron.id)
    tana.trash(tana.add_node("Heron draft, old", parent=heron.id).id)

    def remember() -> None:
        store(tenant, NewMemory("Priya Vendakar wants minutes in writing.", Source.CLI))
        refresh_graph(tenant.catalog, tenant.memories, tenant.relations)

    filled_once(tenant, "context of Tana", remember)
    return tenant


def told(tenant: Tenant, topic: str, **asked) -> tuple[dict, dict[str, dict]]:
    found = json.loads(context(tenant, [topic], form="json", **asked).document)
    return found["meta"], {node["name"]: node for node in found["nodes"]}


def test_live_and_as_last_read_tell_the_same_project(tana: StandIn, world: Tenant):
    read_tana(world)
    tellings = {}
    for offline in (False, True):
        meta, nodes = told(world, "Project Heron", offline=offline)
        assert ("live Tana" in meta["backend"]) is not offline
        assert nodes["Project Heron"]["fields"] == {"Owner": ["Priya Vendakar"], "Deadline": ["2026-12-01"]}
        assert "Move the ferry timetable" in nodes["Project Heron"]["content"]
        assert not any("draft" in name or "draft" in node["content"] for name, node in nodes.items())
        assert "Priya Vendakar wants minutes in writing." in json.dumps(list(nodes.values()))
        tellings[offline] = set(nodes)
    assert {"Project Heron", "Priya Vendakar"} <= tellings[False] & tellings[True]
    assert not tana.violations


def test_the_node_that_the_topic_names_stands_before_the_entity_of_its_name(tana: StandIn, world: Tenant):
    read_tana(world)
    found = json.loads(context(world, ["Priya Vendakar"], form="json", offline=True).document)["nodes"]
    assert [(node["name"], node["category"]) for node in found[:2]] == [("Priya Vendakar", "tana"), ("Priya Vendakar", "entity")]


def test_the_option_of_a_field_is_told_as_its_value_alone(tana: StandIn, world: Tenant):
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    option = tana.add_node("in review")
    heron.tuples.append(Tuple(tana._field(tana.tag_named("project"), "Status"), [Value(ref=option.id)]))
    read_tana(world)
    for offline in (False, True):
        _, nodes = told(world, "Project Heron", offline=offline)
        assert nodes["Project Heron"]["fields"]["Status"] == ["in review"]
        assert "in review" not in nodes


def test_a_child_is_told_once_unless_it_says_more_than_its_parent_or_answers_better(tana: StandIn, world: Tenant):
    ferry = "Move the ferry timetable"
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    tana.add_node("Heron budget", tana.tag_named("project"), parent=heron.id)
    read_tana(world)
    _, nodes = told(world, "Project Heron", offline=True)
    assert ferry in nodes["Project Heron"]["content"] and ferry not in nodes and "Heron budget" in nodes
    assert next(iter(told(world, ferry, offline=True)[1])) == ferry


def test_a_mirrored_learning_is_no_node_of_a_context(tana: StandIn, world: Tenant):
    adopted, made = "Project Heron waits for Priya Vendakar", "Project Heron is planned on paper"
    tana.add_node(adopted, tana.add_tag("pai_learning"))
    read_tana(world)
    assert adopted in told(world, "Project Heron", offline=True)[1]
    write_seed(world.settings.pai_seed, [learning("pat_1", adopted), learning("pat_2", made)])
    sync(world)
    assert adopted not in told(world, "Project Heron", offline=True)[1]
    read_tana(world)
    for offline in (False, True):
        _, nodes = told(world, "Project Heron", offline=offline)
        assert "Project Heron" in nodes and not {adopted, made, PARENT_NAME} & nodes.keys()


def test_live_tana_sees_what_was_not_read_yet(tana: StandIn, world: Tenant):
    read_tana(world)
    tana.add_node("Heron launch party", tana.tag_named("project"))
    assert "Heron launch party" not in told(world, "Heron launch party", offline=True)[1]
    assert "Heron launch party" in told(world, "Heron launch party")[1]
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    assert next(iter(told(world, heron.id)[1])) == "Project Heron"


def test_live_tana_is_asked_about_the_topics_alone_and_tells_their_links(tana: StandIn, world: Tenant):
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    for number in range(200):
        tana.add_node(f"Unrelated errand {number}")
    for topic in (heron.id, "Project Heron", "What is due for Heron?"):
        world.catalog.reset()
        before = len(tana.requests)
        _, nodes = told(world, topic)
        assert nodes["Project Heron"]["fields"] == {"Owner": ["Priya Vendakar"], "Deadline": ["2026-12-01"]}
        assert "Priya Vendakar" in nodes and "Move the ferry timetable" in nodes["Project Heron"]["content"]
        assert len(tana.requests) - before < 20


def test_a_slow_tana_is_not_waited_for(tana: StandIn, world: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory_assets.tana.reading._ABOUT_SECONDS", 0)
    assert "Project Heron" not in told(world, "Project Heron")[1]
    assert not any(request.startswith("GET /nodes/n") for request in tana.requests)


def test_a_topic_that_tana_does_not_hold_leaves_the_catalog_alone(tana: StandIn, world: Tenant):
    read_tana(world)
    stamp = world.catalog.stamp
    assert "live Tana" in told(world, "Lighthouses")[0]["backend"]
    assert world.catalog.stamp == stamp


def test_a_node_that_is_gone_is_not_told_by_its_id(tana: StandIn, world: Tenant):
    read_tana(world)
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    del tana.nodes[heron.id]
    assert "Project Heron" not in told(world, heron.id)[1]


def test_a_node_that_was_trashed_after_the_reading_is_not_told(tana: StandIn, world: Tenant):
    read_tana(world)
    ferry = next(node for node in tana.nodes.values() if node.name == "Move the ferry timetable")
    tana.trash(ferry.id)
    for topic in (ferry.name, ferry.id):
        assert ferry.name not in told(world, topic)[1]
    assert ferry.name not in told(world, ferry.name, offline=True)[1]


def test_a_node_in_the_trash_does_not_come_back_by_its_id_or_a_link(tana: StandIn, world: Tenant):
    heron = next(node for node in tana.nodes.values() if node.name == "Project Heron")
    keeper, note = tana.add_node("Ada Quixote", tana.tag_named("person")), tana.add_node("Launch word", parent=heron.id)
    heron.tuples.append(Tuple(tana._field(tana.tag_named("project"), "Keeper"), [Value(ref=keeper.id)]))
    tana.trash(keeper.id)
    tana.trash(note.id)
    for topic in (heron.id, "Project Heron", keeper.id, note.id):
        assert not {keeper.name, note.name} & told(world, topic)[1].keys()
    with world.catalog.read() as connection:
        rows = connection.execute("SELECT name FROM tana_nodes").fetchall()
    assert ("Project Heron",) in rows and ("Priya Vendakar",) in rows
    assert not {(keeper.name,), (note.name,)} & set(rows)


def test_a_locked_catalog_is_told_as_it_was_last_read(tana: StandIn, world: Tenant, monkeypatch: pytest.MonkeyPatch):
    read_tana(world)
    told(world, "Project Heron", offline=True)

    def locked(_catalog: Catalog) -> NoReturn:
        raise StoreBusyError("The catalog is locked.")

    monkeypatch.setattr(Catalog, "write", locked)
    meta, nodes = told(world, "Project Heron")
    assert "Tana as read on" in meta["backend"] and "Project Heron" in nodes
    assert any("The last reading answers instead." in warning for warning in meta["warnings"])


def test_when_tana_is_away_the_last_reading_answers_and_says_so(tana: StandIn, world: Tenant):
    read_tana(world)
    tana.stop()
    meta, nodes = told(world, "Project Heron")
    assert "Tana as read on" in meta["backend"]
    assert any("The last reading answers instead." in warning for warning in meta["warnings"])
    assert nodes["Project Heron"]["fields"]["Deadline"] == ["2026-12-01"]


def test_tana_that_goes_away_or_fails_midway_spoils_nothing(tana: StandIn, world: Tenant):
    read_tana(world)
    tana.traps.statuses.extend([200, 200] + [503] * 200)
    meta, nodes = told(world, "Project Heron")
    assert "Project Heron" in nodes
    assert any("The last reading answers" in warning for warning in meta["warnings"])
    tana.traps.statuses.clear()
    tana.traps.poison.add(next(node.id for node in tana.nodes.values() if node.name == "Move the ferry timetable"))
    assert "Project Heron" in told(world, "Project Heron")[1]


def test_another_tenant_does_not_see_the_tana_of_the_settings(tana: StandIn, world: Tenant):
    other = Tenant(world.settings, "guest")
    store(other, NewMemory("The guest keeps bees.", Source.CLI))
    before = len(tana.requests)
    assert told(other, "Project Heron")[1] == {}
    assert len(tana.requests) == before


def test_a_context_of_a_tenant_that_is_not_there_yet_asks_nobody_and_makes_no_folder(tana: StandIn, settings: Settings):
    tana.add_node("Project Heron")
    tenant = Tenant(load_settings(data_dir=settings.data_dir / "new"))
    before = len(tana.requests)
    found = context(tenant, ["Project Heron"])
    assert any("not asked, because nothing is remembered yet" in each for each in found.warnings)
    assert (len(tana.requests), tenant.folder.exists()) == (before, False)
