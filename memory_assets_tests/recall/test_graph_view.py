import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.recall.view import ranges, read_graph
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.graph_builds import record_build


def test_what_is_written_beside_the_graph_does_not_make_it_be_read_again(tmp_path):
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 5)
    with catalog.write() as connection:
        connection.execute("INSERT INTO graph_edges (source_id, target_id, type, origin) VALUES (1, 2, 'LEADS_TO', 'stated')")
        record_build(connection)
    graph = read_graph(catalog, None)
    with catalog.write() as connection:
        connection.execute("INSERT INTO memory_access VALUES (1, now(), 1)")
    again = read_graph(catalog, graph)
    assert again.stamp != graph.stamp
    assert again.edges is graph.edges


def test_a_catalog_that_was_made_anew_is_not_taken_for_the_old_one(tmp_path):
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 5)
    graph = None
    for target in (2, 3):
        catalog.path.unlink(missing_ok=True)
        with catalog.write() as connection:
            connection.execute(
                "INSERT INTO graph_edges (source_id, target_id, type, origin) VALUES (1, ?, 'LEADS_TO', 'stated')", [target]
            )
            record_build(connection)
        graph = read_graph(catalog, graph)
        assert graph.edges.columns["target"].tolist() == [target]


@given(st.lists(st.integers(0, 9), max_size=40), st.lists(st.integers(0, 9), max_size=10))
def test_ranges_gives_every_place_of_every_wanted_key(keys: list[int], wanted: list[int]):
    keys.sort()
    places, found = ranges(np.array(keys, np.int64), np.array(wanted, np.int64))
    expected = [(place, at) for place, key in enumerate(wanted) for at, each in enumerate(keys) if each == key]
    assert list(zip(places.tolist(), found.tolist(), strict=True)) == expected
