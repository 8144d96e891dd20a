import re

import numpy as np
import pytest

from memory_assets.graph.picture import draw, layout, read_picture
from memory_assets.graph.relevance import refresh_relevance
from memory_assets_tests.graph.conftest import DAY

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture
def drawn(world):
    world.put(11, "This led to [[b]].", title=HOSTILE, links=("b",), names=[("Redis", "TOOL")])
    world.put(22, title="b", names=[("Redis", "TOOL")])
    world.put(33, days=50)
    world.refresh()
    refresh_relevance(world.catalog, world.memories, DAY, rate=0.1, archive_threshold=0.2)
    return draw(read_picture(world.catalog, 100), f"Memory of {HOSTILE}")


def test_the_page_holds_all_it_needs(drawn):
    assert "Plotly.newPlot" in drawn
    assert not re.search(r"<(?:script|link)[^>]+(?:src|href)=", drawn)


def test_hostile_text_stays_text(drawn):
    assert "<script>alert" not in drawn
    assert "<img src=x" not in drawn
    assert drawn.count("</script>") == drawn.count("<script")


def test_search_and_filter_stand_above_the_picture(drawn):
    assert 'id="find"' in drawn
    assert 'id="least"' in drawn


def test_nodes_carry_kind_and_relevance_and_edges_their_type(world, drawn):
    picture = read_picture(world.catalog, 100)
    shown = dict(zip(picture.ids, zip(picture.kinds, picture.relevance, strict=True), strict=True))
    assert shown[11][1] > shown[33][1]
    assert "entity" in {kind for kind, _ in shown.values()}
    assert {"LEADS_TO", "RELATES_TO", "mentions"} == {edge[2] for edge in picture.edges}


def test_the_limit_keeps_the_most_relevant(world, drawn):
    assert set(read_picture(world.catalog, 2).ids) == {11, 22}


def test_an_empty_graph_is_drawn_too(world):
    assert "0 nodes" in draw(read_picture(world.catalog, 10), "empty")


def test_the_layout_is_repeatable_and_pulls_the_connected_together():
    edges = [(a, b, 1.0) for group in (range(10), range(10, 20)) for a in group for b in group if a < b]
    where = layout(20, edges)
    assert np.array_equal(where, layout(20, edges))
    assert np.isfinite(where).all()
    middles = where[:10].mean(axis=0), where[10:].mean(axis=0)
    assert np.linalg.norm(where[:10] - middles[0], axis=1).mean() < np.linalg.norm(middles[0] - middles[1])
    assert layout(0, []).shape == (0, 2)
    assert layout(1, []).shape == (1, 2)
