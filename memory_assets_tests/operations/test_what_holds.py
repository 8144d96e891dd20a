"""The sample home changes its mind in several places: what holds is found first, and only what is outdated is marked."""

import pytest

from memory_assets.graph.edges import refresh_graph
from memory_assets.operations.conflicts import conflicts
from memory_assets.operations.take_in import take_in
from memory_assets.recall.search import search

_REPLACED = {
    ("carrier-portal-deadline", "carrier-portal-deadline"),
    ("user-role", "user-role"),
    ("mongodb-for-atlas", "postgres-decision"),
    ("mongodb-for-atlas", "postgres-migration"),
    ("mongodb-for-atlas", "Jonas, Tomasz and Leila decided on 8 April"),
    ("The staging database of Atlas is reset eve", "The staging database of Atlas is no longer"),
}


@pytest.fixture
def home(tenant, sample_home, loaded_pipeline):
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)
    return tenant


def test_what_holds_comes_first_and_nothing_else_is_called_outdated(home):
    for question, answer in (
        ("when is the carrier portal due", "16 October"),
        ("is the staging database reset at night", "no longer reset"),
        ("what does Atlas store its shipments in", "PostgreSQL"),
        ("Which database does Atlas use", "PostgreSQL"),
    ):
        hits = search(home, question)
        assert answer in hits[0].memory.content, question
        outdated = [hit for hit in hits if hit.memory.title == "mongodb-for-atlas"]
        assert all(hit.replaced_by and "PostgreSQL" in hit.replaced_by.content for hit in outdated)
    assert conflicts(home).conflicts == []
    with home.catalog.read() as connection:
        found = connection.execute("""
            SELECT old.label[:42], new.label[:42] FROM graph_edges e
            JOIN graph_nodes old ON old.id = e.source_id JOIN graph_nodes new ON new.id = e.target_id WHERE origin = 'claims'
        """).fetchall()
    assert set(found) == _REPLACED
