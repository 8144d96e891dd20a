"""Dry runs of the sleep cycles as pages, and running one."""

import html
from datetime import UTC, datetime

from memory_assets import operations
from memory_assets.models import State
from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import Visitor, remember, remember_all


def test_a_dry_run_is_shown_and_writes_nothing(tenant: Tenant, visitor: Visitor) -> None:
    remember_all(tenant, [f"Alice tuned the retry loop of the billing export, round {number}." for number in range(6)])
    before = tenant.memories.version
    for cycle in ["decay", "creative", "forget"]:
        page = visitor.get(f"/sleep?cycle={cycle}")
        assert page.status_code == 200, cycle
        assert f"What {cycle} would do now" in page.text, cycle
        assert tenant.memories.version == before, cycle
        if tenant.catalog.exists:
            with tenant.catalog.read() as connection:
                assert connection.execute("SELECT count(*) FROM relevance_scores").fetchone() == (0,), cycle


def test_a_cycle_runs_and_tells_what_it_did(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice tuned the retry loop.")
    visitor.get("/sleep")
    done = visitor.post("/sleep/decay")
    assert "1 memory scored, 1 scores changed" in done.text
    with tenant.catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM relevance_scores").fetchone() == (1,)
    for cycle in ("creative", "cluster"):
        done = visitor.post(f"/sleep/{cycle}")
        assert (done.status_code, 'role="status"' in done.text) == (200, True)


def test_the_clusters_of_the_last_cycle_are_shown_and_none_are_computed(tenant: Tenant, visitor: Visitor) -> None:
    remember_all(tenant, [f"Alice tuned the retry loop of the billing export, round {number}." for number in range(6)])
    assert "It has found no clusters yet" in visitor.get("/sleep?cycle=cluster").text
    page = visitor.post("/sleep/cluster").text
    (found,) = operations.consolidate.list_clusters(tenant, 5)
    assert len(found.members) == 6
    for part in ("What cluster found last", found.label, found.summary, "6 members", f"/ui/memories/{found.members[0]}"):
        assert part in html.unescape(page)


def test_forget_archives_what_has_faded(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice tuned the retry loop.", created_at=datetime(2015, 1, 1, tzinfo=UTC))
    with tenant.catalog.write() as connection:
        connection.execute("INSERT INTO memory_first_seen VALUES ($1, $2)", [number, datetime(2015, 1, 1, tzinfo=UTC)])
    remember_all(tenant, [f"Bob noted reading {each} of the pump." for each in range(12)])
    page = visitor.get("/sleep?cycle=forget").text
    assert f"/ui/memories/{number}" in page
    assert "Relevance by creation" in page
    visitor.post("/sleep/forget")
    assert tenant.memories.get([number])[0].state is State.ARCHIVED


def test_an_unknown_cycle_is_refused(visitor: Visitor) -> None:
    assert visitor.get("/sleep?cycle=dream").status_code == 404
    assert visitor.post("/sleep/dream").status_code == 404
