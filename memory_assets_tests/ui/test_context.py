"""The context of a topic with its omissions, and the next session's brief."""

import re

from memory_assets.graph.edges import refresh_graph
from memory_assets.hook_settings import read_hook_settings
from memory_assets.learn.session_start import Hook, session_start
from memory_assets.models import Kind, RelationType, Source
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.changes import edit
from memory_assets.operations.context import context
from memory_assets.operations.relate import relate
from memory_assets.operations.session import preview, tell_at_start
from memory_assets.stores.layout import kept_entries
from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import Visitor, remember, remember_all


def test_a_document_is_shown_with_what_was_left_out(tenant: Tenant, visitor: Visitor) -> None:
    remember_all(
        tenant,
        [
            f"The billing export of week {number} failed on carrier {number * 7} " + f"with code {number} again. " * 30
            for number in range(24)
        ],
    )
    page = visitor.get("/context?topic=billing+export&budget=500").text
    assert "of 500 tokens" in page
    assert re.search(r"budget: it takes \d+ tokens, \d+ were left|of its words are in", page)
    large = visitor.get("/context?topic=billing+export&budget=16000&lens=debugging").text
    assert large.count(">nothing</td>") < page.count(">nothing</td>")
    assert visitor.get("/context?topic=x&lens=nonsense").status_code == 400
    assert visitor.get("/context?topic=x&budget=7").status_code == 400
    assert not (tenant.folder / "contexts").exists()


def test_each_text_that_was_left_out_has_its_own_reason(tenant: Tenant) -> None:
    def reasons(topic: str, lens: str = "general") -> dict[str, str]:
        found = context(tenant, [topic], offline=True, explain=True, lens=lens).found
        return {each.id: each.reason for each in found if each.told != "text"}

    old = remember(tenant, "The billing export of Atlas runs at two.")
    edit(tenant, old, "The billing export of Atlas runs at three.", source=Source.CLI)
    first = remember(tenant, "The billing export of Atlas needs the carrier list.")
    again = remember(tenant, "The billing export of Atlas needs the carrier list!")
    remember(tenant, "Bob Miller owns the billing export of Atlas.")
    other = remember(tenant, "Bob Miller sails to Lyon.")
    relate(tenant, first, RelationType.REINFORCES, other, stated_by="cli")
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    found = reasons("billing export of Atlas")
    assert found[str(old)] == "superseded by The billing export of Atlas runs at three."
    assert "said by The billing export of Atlas needs the carrier list" in (found.get(str(again)) or found[str(first)])
    assert str(other) not in found
    planned = reasons("billing export of Atlas", lens="meeting-prep")
    assert planned.get(str(other)) in (None, "the lens meeting-prep does not follow REINFORCES")


def test_a_line_is_switched_off_for_sessions_alone(tenant: Tenant, visitor: Visitor, monkeypatch) -> None:
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tenant.settings.data_dir))
    number = remember(tenant, "Prefers short answers.", kind=Kind.USER)
    remember(tenant, "Sings alto.", kind=Kind.USER)
    start = lambda: session_start(read_hook_settings(tenant.name), Hook())  # noqa: E731
    page = visitor.get("/session").text
    assert "Prefers short answers." in page
    assert "Prefers short answers." in start()
    done = visitor.post(f"/session/{number}", told="off").text
    assert "no session begins with it" in done
    assert "Prefers" not in start()
    assert "Sings alto." in start()
    remember(tenant, "Sails in summer.", kind=Kind.USER)
    assert "Prefers" not in start()
    assert "untold.json" in kept_entries(tenant.state, tenant.folder)
    assert [each.id for each in preview(tenant).switched_off] == [number]
    visitor.post(f"/session/{number}", told="on")
    assert "Prefers short answers." in start()
    assert visitor.post("/session/12345", told="off").status_code == 404


def test_a_preview_is_what_a_session_in_the_project_is_told(tenant: Tenant, monkeypatch) -> None:
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tenant.settings.data_dir))
    for number in range(16):
        decision = (
            f"Decision {number}: the atlas build keeps cache {number} for a week, {'as it was kept before, ' * 8}and no longer."
        )
        remember(tenant, decision, kind=Kind.PROJECT, project="/srv/atlas")
    remember(tenant, "The borealis build is slow.", kind=Kind.PROJECT, project="/srv/borealis")
    found = preview(tenant, "/srv/atlas")
    told = session_start(read_hook_settings(tenant.name), Hook(directory="/srv/atlas"))
    lines = [line.text for section in found.sections for line in section.told]
    assert lines
    assert all(line in told for line in lines)
    assert told.count("Decision") == len(lines)
    assert found.sections[2].left_out
    assert "borealis" not in found.text(LocalTime.of(tenant.settings))


def test_a_newer_version_of_a_line_that_is_off_is_told(tenant: Tenant) -> None:
    number = remember(tenant, "Prefers short answers.", kind=Kind.USER)
    tell_at_start(tenant, number, told=False)
    newer = edit(tenant, number, "Prefers long answers.", source=Source.CLI).id
    assert [line.id for section in preview(tenant).sections for line in section.told] == [newer]
