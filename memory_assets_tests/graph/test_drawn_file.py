"""The file that `memory graph` writes; test_browser.py opens one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from memory_assets.graph.relevance import refresh_relevance
from memory_assets.models import State
from memory_assets.operations.graph import draw_graph
from memory_assets_tests.graph.conftest import DAY, World

HOSTILE = '</script><script>alert(1)</script><!-- $data <img src=x onerror="alert(2)">'


@pytest.fixture
def drawn(world: World, tmp_path: Path) -> str:
    world.put(11, "This led to [[b]].", title=HOSTILE, links=("b",), names=[("Redis", "TOOL")])
    world.put(22, title="b", names=[("Redis", "TOOL")])
    world.put(33, days=50)
    world.refresh()
    refresh_relevance(world.catalog, world.memories, DAY, rate=0.1, archive_threshold=0.2)
    return draw(world, tmp_path)


def draw(world: World, folder: Path, limit: int = 100) -> str:
    draw_graph(world.tenant, folder / "graph.html", limit)
    return (folder / "graph.html").read_text(encoding="utf-8")


def data(page: str) -> dict[str, Any]:
    return json.loads(page.partition('id="graph-data">')[2].partition("</script>")[0])


def test_the_file_holds_all_it_needs(drawn: str) -> None:
    assert 'getContext("2d")' in drawn
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", drawn)


def test_hostile_text_stays_text(drawn: str) -> None:
    assert drawn.count("<script") == drawn.count("</script>") == 2
    assert "<!-- " not in drawn
    assert HOSTILE in {each["label"] for each in data(drawn)["nodes"]}


def test_nodes_carry_kind_and_relevance_and_edges_their_type(drawn: str) -> None:
    nodes = {each["id"]: each for each in data(drawn)["nodes"]}
    assert nodes[11]["relevance"] > nodes[33]["relevance"]
    assert {each["kind"] for each in nodes.values()} == {"note", "TOOL"}
    assert {each["type"] for each in data(drawn)["edges"]} == {"LEADS_TO", "RELATES_TO", "MENTIONS"}


def test_the_limit_keeps_the_most_relevant(world: World, drawn: str, tmp_path: Path) -> None:
    assert {each["id"] for each in data(draw(world, tmp_path, limit=2))["nodes"]} == {11, 22}


def test_what_was_forgotten_since_the_last_build_is_not_drawn(world: World, drawn: str, tmp_path: Path) -> None:
    world.memories.transition([22], State, State.FORGOTTEN)
    found = data(draw(world, tmp_path))
    assert 22 not in {each["id"] for each in found["nodes"]}
    assert 22 not in {end for each in found["edges"] for end in (each["source"], each["target"])}


def test_an_empty_graph_is_drawn_too(world: World, tmp_path: Path) -> None:
    page = draw(world, tmp_path)
    assert "0 nodes, 0 edges" in page
    assert data(page) == {"nodes": [], "edges": []}
