"""Decisions on proposals and contradictions, and the neighbourhood of memories."""

import html
import json
import re
import shutil
from pathlib import Path

import httpx
import pytest

from memory_assets.learn.curation import Curation
from memory_assets.learn.journal import Status
from memory_assets.models import RelationType
from memory_assets.operations import learn
from memory_assets.operations.changes import tag
from memory_assets.operations.relate import relate
from memory_assets.tenants import Tenant
from memory_assets_tests.learn.conftest import write
from memory_assets_tests.ui.site import Site, Visitor, remember

_SEEN = re.compile(r'name="(seen LP-\d+)" value="([^"]+)"')
_FIELDS = re.compile(r'name="((?:seen|text) LP-\d+)" value="([^"]+)"|<textarea name="([^"]+)"[^>]*>([^<]*)</textarea>')


def fields(page: str) -> dict[str, str]:
    """Return what a browser sends of the proposals on a page on which nobody typed."""
    return {name or area: html.unescape(value or text) for name, value, area, text in _FIELDS.findall(page)}


@pytest.fixture
def reviewer(site: Site, sample: Tenant) -> Visitor:
    """A visitor of the sample home, without any decisions."""
    shutil.rmtree(sample.folder / "learn", ignore_errors=True)
    for report in site.settings.pai_learning_dir.glob("*.md"):
        report.unlink()
    learn.check(sample)
    return site.visitor(sample)


def statuses(tenant: Tenant) -> dict[str, Status]:
    return {each.id: each.status for each in Curation(tenant).decisions().proposals}


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


def test_a_deeper_look_proposes_to_make_one_of_entries_that_passed_through(site: Site, sample: Tenant, reviewer: Visitor) -> None:
    project = site.settings.pai_learning_dir / "PROJECT"
    made = [project / f"project_{name}.md" for name in ("moorings", "mooring")]
    for path, text in zip(
        made, ("The mooring of the ferry is checked in May.", "In May the ferry's mooring is checked."), strict=True
    ):
        write(path, path.stem, text, "project")
    try:
        reviewer.post("/review/check")
        assert "Older entries say" not in reviewer.get("/review").text
        reviewer.post("/review/deeper")
        assert "Older entries say" in reviewer.get("/review").text
    finally:
        for path in made:
            path.unlink()


def test_a_decision_on_what_somebody_changed_is_refused(sample: Tenant, reviewer: Visitor) -> None:
    seen = dict(_SEEN.findall(reviewer.get("/review").text))
    first = next(iter(statuses(sample)))
    learn.reword(sample, first, "Another description\n\nAnother body")
    for fields in (
        {"decision": "reject", "id": first},
        {"decision": "edit", f"text {first}": "x", f"description {first}": "mine"},
    ):
        refused = reviewer.post("/review/decide", **fields, **seen)
        assert refused.status_code == 409
        assert "It says now: Another description" in refused.text
    assert statuses(sample)[first] is Status.PENDING
    seen = dict(_SEEN.findall(reviewer.get("/review").text))


def test_texts_of_many_proposals_are_saved_with_one_decision(sample: Tenant, reviewer: Visitor) -> None:
    page = reviewer.get("/review").text
    sent = dict(_SEEN.findall(page)) | dict(re.findall(r'name="(text LP-\d+)" value="([^"]+)"', page))
    before = {each.id: each for each in learn.review(sample, look=False).proposals}
    for each in before.values():
        sent |= {f"description {each.id}": each.description, f"body {each.id}": each.body.replace("\n", "\r\n")}
    assert reviewer.post("/review/decide", decision="edit", **sent).status_code == 400
    first, second, third = list(before)[:3]
    unfit = {f"description {first}": "Mine", f"description {second}": "Rings\x07"}
    refused = reviewer.post("/review/decide", decision="edit", **{**sent, **unfit})
    assert (refused.status_code, "a control character" in refused.text) == (400, True)
    assert learn.review(sample, look=False).proposals == list(before.values())
    mine = {f"description {first}": "Mine", f"body {second}": "Other\r\nbody"}
    page = reviewer.post("/review/decide", decision="accept", id=third, **{**sent, **mine}).text
    assert f"{first}, {second}: saved what you wrote." in page
    after = {each.id: each for each in learn.review(sample, look=False).proposals}
    assert (after[first].description, after[second].body) == ("Mine", "Other\nbody")
    assert [after[each].status for each in (first, second, third)] == [Status.PENDING, Status.PENDING, Status.ACCEPTED]
    assert after[third].description == before[third].description


def test_texts_of_any_length_are_decided_on(sample: Tenant, reviewer: Visitor) -> None:
    learn.reword_all(sample, dict.fromkeys(statuses(sample), f"Long\n\n{'ä' * 7_000}"))
    page = reviewer.get("/review").text
    shown = re.findall(r'name="id" value="(LP-\d+)"', page)
    rest = len(statuses(sample)) - len(shown)
    assert f"And {rest} more" in page
    decided = reviewer.post("/review/decide", decision="defer", id=shown, **fields(page))
    assert decided.status_code == 200
    assert {statuses(sample)[each] for each in shown} == {Status.DEFERRED}
    assert f'name="id" value="{shown[0]}"' not in decided.text


def test_a_text_that_nobody_edited_is_not_saved(sample: Tenant, reviewer: Visitor) -> None:
    first, second = list(statuses(sample))[:2]
    learn.reword(sample, first, "Write \u2068Ä\u2069 first\n\nBefore\u2028the name")
    page = reviewer.get("/review").text
    assert "saved what you wrote" not in reviewer.post("/review/decide", decision="defer", id=second, **fields(page)).text
    found = {each.id: each for each in learn.review(sample, look=False).proposals}
    assert (found[first].description, found[first].body) == ("Write \u2068Ä\u2069 first", "Before\u2028the name")
    assert found[second].status is Status.DEFERRED


def test_a_note_for_two_proposals_is_refused_before_anything_is_saved(sample: Tenant, reviewer: Visitor) -> None:
    first, second = list(statuses(sample))[:2]
    sent = fields(reviewer.get("/review").text) | {f"description {first}": "Mine"}
    refused = reviewer.post("/review/decide", decision="defer", id=[first, second], note="later", **sent)
    said = refused.text.partition('role="alert">')[2].partition("</p>")[0]
    assert (refused.status_code, "A note belongs to one decision" in said, "--" in said) == (400, True, False)
    page = reviewer.post("/review/decide", decision="defer", id=[first, second], **sent).text
    assert f"{first}: saved what you wrote." in page


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

    def decide(decision: str, **fields: object) -> httpx.Response:
        shown = {"seen older": tenant.memories.get([one])[0], "seen newer": tenant.memories.get([other])[0]}
        seen = {name: memory.updated_at.isoformat() for name, memory in shown.items()}
        return visitor.post("/conflicts", **{"older": one, "newer": other, "decision": decision, **seen, **fields})

    done = decide("both")
    assert "Both hold." in done.text
    assert [row["note"] for row in tenant.relations.of(one).to_pylist()] == ["both hold"]
    decide("newer")
    assert tenant.memories.get([one])[0].superseded_by == other
    assert decide("eat").status_code == 400
    assert decide("both", older="x").status_code == 400
    assert decide("both", **{"seen older": ""}).status_code == 400


@pytest.mark.parametrize("changed", ["older", "newer"])
def test_a_contradiction_is_not_decided_once_one_of_the_two_changed(tenant: Tenant, visitor: Visitor, changed: str) -> None:
    numbers = {"older": remember(tenant, "The export runs at two."), "newer": remember(tenant, "The export runs at three.")}
    seen = {f"seen {name}": tenant.memories.get([number])[0].updated_at.isoformat() for name, number in numbers.items()}
    tag(tenant, numbers[changed], add=["night"])
    for decision in ("newer", "both", "forget older", "forget newer"):
        refused = visitor.post("/conflicts", decision=decision, **numbers, **seen)
        assert (refused.status_code, "nothing of yours was saved" in refused.text) == (409, True), decision
        assert "runs at two" in refused.text
        assert "runs at three" in refused.text
    assert [each.state for each in tenant.memories.get(numbers.values())] == ["active", "active"]
    assert tenant.relations.scan().num_rows == 0


def test_the_graph_shows_a_neighbourhood_within_its_bounds(site: Site, sample: Tenant) -> None:
    visitor = site.visitor(sample)

    def drawn(address: str) -> dict[str, list[dict[str, object]]]:
        page = visitor.get(address).text
        assert 'id="graph-data"' in page, page
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


def test_another_tenant_reaches_no_silo(site: Site, sample: Tenant, reviewer: Visitor, visitor: Visitor) -> None:
    assert "proposals</h2>" in reviewer.get("/review").text
    first = next(iter(statuses(sample)))
    asked = [visitor.get("/review/apply")]
    asked += [visitor.post(f"/review/{path}", decision="accept", id=first) for path in ("check", "decide", "apply", "undo")]
    for each in asked:
        assert (each.status_code, "tenant" in each.text) == (400, True), each.url
        assert str(site.settings.claude_projects_dir) not in each.text
    assert set(statuses(sample).values()) == {Status.PENDING}
