import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_assets.recall import graph_view
from memory_assets.recall.graph_view import GraphView, read_graph
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.graph_builds import record_build

NODES = st.integers(1, 6)
STEPS = st.lists(
    st.tuples(
        st.sets(NODES, min_size=1, max_size=3),
        st.lists(st.tuples(NODES, st.sampled_from(["LEADS_TO", "RELATES_TO"]), st.sampled_from(["why", ""])), max_size=4),
        st.lists(NODES, max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def contents(graph: GraphView) -> list[object]:
    nodes = np.arange(1, 20)
    columns = graph.edges.columns
    found: list[object] = []
    for look_up in (graph.edges.outgoing, graph.edges.incoming):
        places, rows = look_up(nodes)
        edges = zip(
            places.tolist(),
            columns["source"][rows].tolist(),
            columns["target"][rows].tolist(),
            [graph.types.names[code] for code in columns["type"][rows]],
            [graph.note(row) for row in rows.tolist()],
            strict=True,
        )
        found.append(sorted(edges))
    for look_up in (graph.mentions.outgoing, graph.mentions.incoming):
        places, rows = look_up(nodes)
        ends = (graph.mentions.columns[name][rows].tolist() for name in ("source", "target"))
        found.append(sorted(zip(places.tolist(), *ends, strict=True)))
    found += [graph.mentions.incoming_counts(nodes).tolist(), [graph.label(node) for node in nodes.tolist()], graph.empty]
    return found


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, most_outdated=st.sampled_from([0, 1_000]))
def test_a_graph_that_follows_the_builds_is_the_one_that_is_read_at_once(tmp_path_factory, steps, most_outdated):
    catalog = Catalog(str(tmp_path_factory.mktemp("graph") / "catalog.duckdb"), 5)
    followed = read_graph(catalog, None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graph_view, "_MOST_OUTDATED", most_outdated)
        for number, (sources, edges, entities, told) in enumerate(steps):
            with catalog.write() as connection:
                for source in sources:
                    connection.execute("DELETE FROM graph_edges WHERE source_id = $1", [source])
                    connection.execute("DELETE FROM graph_mentions WHERE memory_id = $1", [source])
                    for target, kind, note in edges:
                        connection.execute(
                            "INSERT OR IGNORE INTO graph_edges (source_id, target_id, type, origin, note) VALUES (?, ?, ?, 'x', ?)",
                            [source, target, kind, note],
                        )
                    for entity in entities:
                        connection.execute("INSERT OR IGNORE INTO graph_mentions VALUES (?, ?)", [source, entity + 10])
                for entity in entities:
                    connection.execute(
                        "INSERT OR REPLACE INTO graph_nodes (id, kind, label) VALUES (?, 'entity', ?)",
                        [entity + 10, f"name {number}"],
                    )
                nodes = [*sources, *(entity + 10 for entity in entities)]
                record_build(connection, pa.table({"node": nodes}) if told else None)
            followed = read_graph(catalog, followed)
        assert contents(followed) == contents(read_graph(catalog, None))


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
