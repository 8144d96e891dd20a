"""The sample home, taken in once: what the runs report, and what holds of its changed facts."""

import json
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.defs.build import build_defs
from memory_assets.defs.resources import MemoryResource
from memory_assets.operations.conflicts import conflicts
from memory_assets.recall.search import search
from memory_assets.tenants import Tenant
from memory_assets_tests.defs.conftest import metadata, run
from memory_assets_tests.learn.conftest import tree

_REPLACED = {
    ("carrier-portal-deadline", "carrier-portal-deadline"),
    ("user-role", "user-role"),
    ("mongodb-for-atlas", "postgres-decision"),
    ("mongodb-for-atlas", "Jonas, Tomasz and Leila decided on 8 April"),
    ("The staging database of Atlas is reset eve", "The staging database of Atlas is no longer"),
    ("The staging database of Atlas is reset eve", "weekly-report-2026-w38"),
    ("billing-export", "billing-export-handover"),
    ("redis-settlement-cache", "redis-cache-removed"),
}
_PERHAPS = {
    ("format-on-save-off", "Format on save is on in all repositories s"),
    ("Switches format on save off, because it ma", "Format on save is on in all repositories s"),
    ("format-on-save-again", "Format on save is on in all repositories s"),
    ("The 40 s aggregation came from a $lookup o", "settlement-aggregation-slow"),
}
"""The last two say the same."""


@pytest.mark.long
def test_runs_pass_every_check_say_what_was_refused_call_outdated_what_is_and_change_no_file_of_others(
    sample_home: Path, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    files = tree(sample_home)
    result = run(instance)
    assert result.success
    assert (metadata(result, "silo_files")["refused"], metadata(result, "relevance_scores")["written"]) == (3, 122)
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} >= {"every_key_is_unique", "no_edge_dangles", "scores_within_bounds"}
    unmet = {each.check_name for each in evaluations if not each.passed}
    assert unmet == {f"no_file_of_{name}_is_refused" for name in ("silo_files", "seed_entries", "learning_entries")}
    assert {each.severity for each in evaluations if not each.passed} == {dg.AssetCheckSeverity.WARN}
    again = run(instance)
    added = f"{metadata(result, 'memories')['added']} added"
    tags = instance.get_run_by_id(result.run_id)
    assert tags and tags.tags["memories"].startswith(added)
    assert metadata(result, "memories")["last_change"].startswith(f"{metadata(result, 'memories')['added']} added")
    for asset in ("silo_files", "memory_entries", "memories", "graph_edges", "relevance_scores"):
        first, second = metadata(result, asset), metadata(again, asset)
        for name in ("last_change", "last_changed_at", "look"):
            assert first.get(name) == second.get(name), (asset, name)
        assert first["last_change"], asset
    assert metadata(again, "memories")["added"] == metadata(again, "extracted_features")["analysed"] == 0
    assert metadata(again, "memories")["lance_version"] == metadata(result, "memories")["lance_version"]
    look_at_what_holds(tenant)
    assert metadata(run(instance, "creative"), "creative_links")["dagster/partition_row_count"]
    everything = build_defs(MemoryResource()).resolve_implicit_global_asset_job_def()
    result = everything.execute_in_process(instance=instance, partition_key="main", raise_on_error=False)
    assert result.success
    before, after = metadata(again, "graph_edges"), metadata(result, "graph_edges")
    assert after["dagster/partition_row_count"] == before["dagster/partition_row_count"]
    assert after["edges_of_sleep_cycles"] > before["edges_of_sleep_cycles"] == 0
    assert metadata(result, "proposals")["dagster/partition_row_count"] == 0
    assert {each.severity for each in result.get_asset_check_evaluations() if not each.passed} == {dg.AssetCheckSeverity.WARN}
    assert tree(sample_home) == files


def look_at_what_holds(tenant: Tenant) -> None:
    """Check that the current facts are found first, and that the graph calls outdated what is."""

    def memory(*arguments: str) -> str:
        return CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout

    refused = memory("status", "--refused")
    assert "weekly-report-2026-w38.md" in refused
    assert "mend:" in refused
    found = json.loads(memory("search", "why did we leave MongoDB", "--limit", "3", "--json"))["memories"]
    assert "postgres-decision" in [hit["title"] for hit in found]
    for question, answer in (
        ("when is the carrier portal due", "16 October"),
        ("is the staging database reset at night", "no longer reset"),
        ("what does Atlas store its shipments in", "PostgreSQL"),
        ("Which database does Atlas use", "PostgreSQL"),
    ):
        hits = search(tenant, question)
        assert answer in hits[0].memory.content, question
        outdated = [hit for hit in hits if hit.memory.title == "mongodb-for-atlas"]
        assert all(hit.replaced_by and "PostgreSQL" in hit.replaced_by.content for hit in outdated)
    assert conflicts(tenant).conflicts == []
    with tenant.catalog.read() as connection:
        replaced = connection.execute("""
            SELECT old.label[:42], new.label[:42], e.type = 'RELATES_TO' FROM graph_edges e
            JOIN graph_nodes old ON old.id = e.source_id JOIN graph_nodes new ON new.id = e.target_id
            WHERE origin = 'claims'
        """).fetchall()
    assert {(old, new) for old, new, is_perhaps in replaced if not is_perhaps} == _REPLACED
    assert {(old, new) for old, new, is_perhaps in replaced if is_perhaps} >= _PERHAPS
