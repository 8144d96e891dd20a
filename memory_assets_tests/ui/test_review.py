"""Proposals and contradictions that are decided on, and the neighbourhood of memories."""

import json
import re
import shutil
from pathlib import Path

import pytest

from memory_assets.learn.journal import Status
from memory_assets.models import RelationType
from memory_assets.operations import learn
from memory_assets.operations.relate import relate
from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import Site, Visitor, remember

_SEEN = re.compile(r'name="(seen LP-\d+)" value="([^"]+)"')


@pytest.fixture
def reviewer(site: Site, sample: Tenant) -> Visitor:
    """A browser of the sample home, of which nothing was decided."""
    shutil.rmtree(sample.folder / "learn", ignore_errors=True)
    for report in site.settings.pai_learning_dir.glob("*.md"):
        report.unlink()
    learn.check(sample)
    return site.visitor(sample)


def statuses(tenant: Tenant) -> dict[str, Status]:
    return {each.id: each.status for each in learn.review(tenant, look=False).proposals}


def test_many_proposals_are_decided_at_once_beside_what_the_silo_says(sample: Tenant, reviewer: Visitor) -> None:
    page = reviewer.get("/review").text
    assert "The silo says" in page
    assert "Before calling a query in Atlas done" in page
    seen = dict(_SEEN.findall(page))
    first, second, third = list(statuses(sample))[:3]
    reviewer.post("/review/decide", decision="accept", id=[first, second], **seen)
    assert [statuses(sample)[each] for each in (first, second, third)] == [Status.ACCEPTED, Status.ACCEPTED, Status.PENDING]
    assert reviewer.post("/review/decide", decision="accept").status_code == 400
    assert reviewer.post("/review/decide", decision="eat", id=third).status_code == 400
    assert reviewer.post("/review/decide", decision="accept", id="LP-999").status_code == 409


def test_a_decision_on_what_somebody_changed_is_refused(sample: Tenant, reviewer: Visitor) -> None:
    seen = dict(_SEEN.findall(reviewer.get("/review").text))
    first = next(iter(statuses(sample)))
    learn.reword(sample, first, "Another description\n\nAnother body")
    for path, fields in (
        ("/review/decide", {"decision": "reject", "id": first}),
        (f"/review/{first}/edit", {"description": "mine"}),
    ):
        refused = reviewer.post(path, **fields, **seen)
        assert refused.status_code == 409
        assert "It says now: Another description" in refused.text
    assert statuses(sample)[first] is Status.PENDING
    seen = dict(_SEEN.findall(reviewer.get("/review").text))
    assert reviewer.post(f"/review/{first}/edit", description="Mine", body="Body", **seen).status_code == 200
    assert next(each for each in learn.review(sample, look=False).proposals if each.id == first).description == "Mine"


def test_opening_the_review_writes_nothing_into_other_peoples_folders(site: Site, sample: Tenant, reviewer: Visitor) -> None:
    folders = (site.settings.claude_projects_dir, site.settings.pai_learning_dir)

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}

    before = files()
    for path in ("/review", "/review/apply", "/review/applied"):
        assert reviewer.get(path).status_code == 200
    assert files() == before


def test_a_memory_without_silos_shows_its_contradictions_alone(tenant: Tenant, visitor: Visitor) -> None:
    one, other = remember(tenant, "The export runs at two."), remember(tenant, "The export runs at three.")
    page = visitor.get("/review")
    assert "The silos belong to another memory." in page.text
    done = visitor.post("/conflicts", older=one, newer=other, decision="both")
    assert "Both hold." in done.text
    assert [row["note"] for row in tenant.relations.of(one).to_pylist()] == ["both hold"]
    visitor.post("/conflicts", older=one, newer=other, decision="newer")
    assert tenant.memories.get([one])[0].superseded_by == other
    assert visitor.post("/conflicts", older=one, newer=other, decision="eat").status_code == 400
    assert visitor.post("/conflicts", older="x", newer=other, decision="both").status_code == 400


def test_the_graph_shows_a_neighbourhood_within_its_bounds(site: Site, sample: Tenant) -> None:
    visitor = site.visitor(sample)

    def drawn(address: str) -> dict[str, list[dict[str, object]]]:
        page = visitor.get(address).text
        return json.loads(page.partition('id="graph-data">')[2].partition("</script>")[0])

    whole = drawn("/graph?q=billing+export&steps=2&most=200")
    assert {each["step"] for each in whole["nodes"]} == {0, 1, 2}
    assert len(drawn("/graph?q=billing+export&steps=3&most=60")["nodes"]) <= 60
    links = drawn("/graph?q=billing+export&steps=2&type=RELATES_TO&least=80")
    assert {each["type"] for each in links["edges"]} == {"RELATES_TO"}
    assert min(float(str(each["confidence"])) for each in links["edges"]) >= 0.8
    two = [int(str(each["id"])) for each in whole["nodes"][:2]]
    assert {each["id"] for each in drawn(f"/graph?steps=0&id={two[0]}&id={two[1]}")["nodes"]} == set(two)
    for address in ("/graph?steps=9", "/graph?id=x", "/graph?most=7", "/graph?least=-1", f"/graph?id={'9' * 30}"):
        assert visitor.get(address).status_code == 400, address


def test_a_stated_relation_is_drawn_after_the_next_build(tenant: Tenant, visitor: Visitor) -> None:
    one, other = remember(tenant, "Alice sails."), remember(tenant, "Bob rows.")
    relate(tenant, one, RelationType.LEADS_TO, other, stated_by="cli")
    assert "Nothing of it is in the graph." in visitor.get(f"/graph?id={one}").text
    assert "Nothing, as of the last" in visitor.get(f"/memories/{one}/joined").text
