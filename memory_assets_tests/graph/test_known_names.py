import json

import pytest

from memory_assets.graph import known_names
from memory_assets.graph.known_names import project_name, refresh_known_names
from memory_assets.ingest.scans import refresh_source
from memory_assets.language.gazetteer import load_gazetteer
from memory_assets.models import Source
from memory_assets.stores.layout import read_known_names


@pytest.mark.parametrize(
    ("project", "name"),
    [
        ("/home/mira/work/Atlas", "atlas"),
        ("/home/mira/src/skiff.v2_rs/", "skiff.v2_rs"),
        ("C:\\Users\\mira\\code\\portal", "portal"),
        ("/home/mira", ""),
        ("C:\\Users\\mira\\Desktop", ""),
        ("-home-mira-lab", ""),
        ("", ""),
    ],
)
def test_a_project_is_named_by_the_last_part_of_its_folder(project, name):
    assert project_name(project) == name


def test_projects_active_projects_and_people_that_two_memories_mention_are_known(world):
    world.settings.pai_seed.parent.mkdir(parents=True, exist_ok=True)
    world.settings.pai_seed.write_text(json.dumps({"state": {"activeProjects": ["Kaiklang", 3, " "]}}), encoding="utf-8")
    refresh_source(world.tenant, Source.PAI_SEED)
    assert read_known_names(world.tenant.state) == {}
    world.put(1, names=[("Priya Vendakar", "PERSON"), ("Once Seen", "PERSON")], project="/home/mira/work/atlas")
    world.put(2, names=[("Priya", "PERSON")])
    world.refresh()
    assert refresh_known_names(world.tenant)
    assert read_known_names(world.tenant.state) == {"Priya Vendakar": "PERSON", "atlas": "PROJECT", "Kaiklang": "PROJECT"}
    assert not refresh_known_names(world.tenant)


def test_of_many_people_those_are_known_that_most_memories_mention(world, monkeypatch):
    monkeypatch.setattr(known_names, "_MAX_PEOPLE", 1)
    for number in range(1, 6):
        world.put(number, names=[("Priya Vendakar", "PERSON"), *[("Ana Lind", "PERSON")] * (number < 3)])
    world.refresh()
    refresh_known_names(world.tenant)
    assert read_known_names(world.tenant.state) == {"Priya Vendakar": "PERSON"}


def test_a_name_that_becomes_known_stands_for_itself_so_that_no_other_name_is_compared_anew():
    known = {"Priya Vendakar": "PERSON", "atlas": "PROJECT"}
    assert load_gazetteer([], known).canonical == load_gazetteer([], {}).canonical


def test_a_damaged_file_or_seed_is_no_obstacle(world):
    world.settings.pai_seed.parent.mkdir(parents=True, exist_ok=True)
    world.settings.pai_seed.write_text("[1]", encoding="utf-8")
    world.put(1, project="/home/mira/work/atlas")
    world.refresh()
    refresh_known_names(world.tenant)
    path = world.tenant.folder / "known_names.json"
    path.write_text("{", encoding="utf-8")
    assert read_known_names(world.tenant.state) == {}
    assert refresh_known_names(world.tenant)
    assert read_known_names(world.tenant.state) == {"atlas": "PROJECT"}
