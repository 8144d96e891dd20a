"""The sample home changes its mind in several places: what holds is found first, and only what is outdated is marked."""

import pytest

from memory_assets.graph.edges import refresh_graph
from memory_assets.learn.brief import read_brief
from memory_assets.learn.briefing import renew_brief
from memory_assets.operations.conflicts import conflicts
from memory_assets.operations.take_in import take_in
from memory_assets.recall.search import search

_REPLACED = {
    ("carrier-portal-deadline", "carrier-portal-deadline"),
    ("user-role", "user-role"),
    ("mongodb-for-atlas", "postgres-decision"),
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
            JOIN graph_nodes old ON old.id = e.source_id JOIN graph_nodes new ON new.id = e.target_id
            WHERE origin = 'claims' AND e.type <> 'RELATES_TO'
        """).fetchall()
    assert set(found) == _REPLACED


def test_a_sentence_that_another_file_replaces_is_not_told_and_what_replaced_it_is(tenant, write_silo):
    write_silo(
        "ledger-runbook",
        "The ledger closes its books after the last carrier.\n\nReports go to finance by mail. The nightly import of the ledger runs on "
        "host beech.",
    )
    write_silo(
        "hosts-of-autumn",
        "Two racks were emptied in autumn.\n\nThe power bill fell by a third. Since 2 September 2026 the nightly import of the ledger runs "
        "on host alder instead of beech.",
    )
    take_in(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    renew_brief(tenant)
    brief = read_brief(tenant.folder)
    assert brief
    told = "\n".join(each.text for each in brief.lines)
    assert "runs on host alder instead of beech" in told
    assert "runs on host beech" not in told
    assert "The ledger closes its books" in told
