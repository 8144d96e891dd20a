"""The curation group counts, proposes and nudges, and never applies."""

import dagster as dg

from memory_assets.learn.curation import Curation
from memory_assets.tenants import Tenant
from memory_assets_tests.conftest import WriteSilo
from memory_assets_tests.defs.conftest import metadata, run
from memory_assets_tests.ingest.runs import ingest
from memory_assets_tests.learn.conftest import tree


def test_the_queue_is_counted_and_proposals_wait_for_a_person(
    write_silo: WriteSilo, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    write_silo("owner", "Priya owns the billing export.")
    write_silo("plan", "Show the plan first.", kind="feedback", slug="-home-ada-lab")
    silos = tree(tenant.settings.claude_projects_dir)

    result = run(instance, "propose")

    assert result.success
    assert tree(tenant.settings.claude_projects_dir) == silos
    counted = metadata(result, "silo_backlog")
    assert counted["nudge"].startswith("2 un-ingested memories across 2 silos: ")
    assert counted["by_type"] == {"feedback": 1, "project": 1}
    assert metadata(result, "proposals")["pending"] == 1
    assert metadata(result, "canonical_entries")["dagster/partition_row_count"] == 0

    Curation(tenant).apply()
    again = run(instance, "backlog")
    assert metadata(again, "silo_backlog")["dagster/partition_row_count"] == 1
    assert metadata(again, "canonical_entries")["project"] == 1
    assert all(check.passed for check in again.get_asset_check_evaluations())


def test_what_a_check_has_read_is_remembered_by_the_next_run(write_silo: WriteSilo, tenant: Tenant) -> None:
    write_silo("owner", "Priya owns the billing export.")
    ingest(tenant)
    write_silo("port", "The service listens on 8931.")
    Curation(tenant).check()
    ingest(tenant)
    assert {memory["title"] for memory in tenant.memories.scan(("title",)).to_pylist()} == {"owner", "port"}
