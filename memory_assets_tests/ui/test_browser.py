"""The pages in a real browser: by keyboard, without a violation of WCAG AA that axe finds, wide and narrow, light and dark."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import axe_playwright_python
import pytest
from playwright.sync_api import Dialog, Page, expect

from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import FRESH_SECONDS, Site, remember

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENS: tuple[tuple[int, int, Literal["light", "dark"]], ...] = ((1440, 900, "light"), (390, 844, "dark"))
VIEWS = [
    "/",
    "/search?q=billing+export",
    "/names",
    "/timeline?on=2026-06-01",
    "/review",
    "/graph?q=billing+export",
    "/context?topic=billing+export",
    "/session",
    "/sleep?cycle=cluster",
    "/health",
]


def violations(page: Page) -> Sequence[str]:
    """What axe finds: rule and first element of each. It is evaluated, because the pages run no script of others."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("tags => axe.run({runOnly: tags})", RULES)["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}" for each in found]


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_accessible_and_fits_every_screen(tab: Page, path: str) -> None:
    for width, height, scheme in SCREENS:
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=scheme)
        tab.goto(f"/ui{path}")
        assert violations(tab) == [], (width, scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_search_as_one_types_by_keyboard_alone(tab: Page) -> None:
    tab.goto("/ui/")
    tab.keyboard.press("Tab")
    tab.locator("body").press("/")
    tab.keyboard.type("billing export")
    tab.keyboard.press("Enter")
    expect(tab.locator("#results article").first).to_contain_text("billing-export")
    field = tab.locator("#q")
    field.fill("")
    field.press_sequentially("who left the team")
    expect(tab).to_have_url(re.compile("who(\\+|%20)left(\\+|%20)the(\\+|%20)team"))
    tab.locator("#results article h3 a").first.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("h2", has_text="Where it came from")).to_be_visible()


def test_a_memory_is_stored_again_as_another_version_and_that_is_undone(tab: Page, site: Site, sample: Tenant) -> None:
    number = remember(sample, "The harbour lamp is green since March, says Mira.")
    time.sleep(FRESH_SECONDS)
    tab.goto(f"/ui/memories/{number}")
    expect(tab.get_by_text("What it is joined to")).to_have_count(0)
    tab.get_by_text("Edit the text").focus()
    tab.keyboard.press("Enter")
    tab.get_by_label("Text, as Markdown").fill("The harbour lamp is **red** since March, says Mira.")
    tab.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(tab.get_by_role("status")).to_contain_text("takes the place of the old one")
    expect(tab.locator(".diff ins").first).to_contain_text("red")
    assert violations(tab) == []
    tab.get_by_role("button", name="Undo", exact=True).press("Enter")
    expect(tab.locator(".text").first).to_contain_text("green")
    tab.get_by_text("State how it relates to another memory").click()
    tab.locator("form[action$='/relate'] input[name=other_query]").press_sequentially("billing export")
    tab.locator("#found-relate input[type=radio]").first.check()
    tab.get_by_role("button", name="State it").click()
    expect(tab.get_by_role("status")).to_contain_text("The relation is stated.")
    tab.get_by_role("button", name="Forget").click()
    expect(tab.locator(".notice").first).to_contain_text("forgotten")


def test_the_graph_is_walked_by_keyboard(tab: Page) -> None:
    tab.goto("/ui/graph?q=billing+export")
    canvas, output = tab.locator("canvas"), tab.locator("#map output")
    canvas.focus()
    for key in ("n", "n", "+", "ArrowLeft", " "):
        canvas.press(key)
    expect(output).to_contain_text("edges")
    canvas.press("e")
    expect(tab).to_have_url(re.compile(r"id=\d+&.*steps="))
    expect(tab.locator("#map")).to_have_attribute("data-milliseconds", re.compile(r"\d"))


def test_proposals_are_decided_for_many_at_once_and_applied_and_undone(tab: Page) -> None:
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.goto("/ui/review")
    tab.get_by_role("button", name="Look for proposals").click()
    expect(tab.get_by_role("status")).to_contain_text("proposals are open")
    boxes = tab.locator("input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    assert violations(tab) == []
    tab.get_by_role("button", name="Accept").click()
    expect(tab.get_by_role("status")).to_contain_text("accepted")
    tab.get_by_role("link", name="What apply will do").click()
    tab.get_by_role("button", name="Apply").click()
    expect(tab.get_by_role("status")).to_contain_text("deleted")
    tab.get_by_role("button", name="Undo this apply").click()
    expect(tab.get_by_role("status")).to_contain_text("is undone")


def test_names_are_merged_and_parted_by_keyboard(tab: Page) -> None:
    tab.goto("/ui/names")
    tab.locator("#names td a").first.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#spellings")).to_be_visible()
    kept = tab.url
    assert violations(tab) == []
    tab.get_by_label("name", exact=False).last.fill("Leila Farahmoun")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("status")).to_contain_text("is the same as")
    tab.goto("/ui/names")
    tab.locator("#decided ~ ul button").first.press("Enter")
    expect(tab.get_by_role("status")).to_contain_text("Taken back")
    tab.goto(kept)
    expect(tab.locator("#spellings")).to_be_visible()


def test_a_line_is_switched_off_and_on(tab: Page) -> None:
    tab.goto("/ui/session")
    first = tab.locator("ul.findings li").first
    text = first.locator("span.grow").inner_text()
    first.get_by_role("button").click()
    expect(tab.get_by_role("status")).to_contain_text("no session begins with it")
    expect(tab.locator("h2", has_text="Switched off")).to_be_visible()
    tab.get_by_role("button", name=re.compile("Tell again")).first.click()
    expect(tab.locator("ul.findings li span.grow").first).to_have_text(text)


def test_a_cycle_asks_before_it_runs(tab: Page) -> None:
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    tab.on("dialog", accept)
    tab.goto("/ui/sleep")
    tab.get_by_role("link", name=re.compile("Decay")).click()
    tab.get_by_role("button", name="Run decay now").click()
    expect(tab.get_by_role("status")).to_contain_text("scored")
    assert asked == ["Run decay now?"]


def test_a_key_is_made_and_revoked(tab: Page) -> None:
    tab.goto("/ui/health")
    tab.get_by_label("What it is for").fill("the new phone")
    tab.get_by_role("button", name="Make a key").click()
    expect(tab.get_by_role("status")).to_contain_text("shown only now")
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.locator("tr", has_text="the new phone").get_by_role("button").click()
    expect(tab.locator("tr", has_text="the new phone")).to_contain_text("revoked")


def test_the_timeline_goes_back_to_a_day_and_more(tab: Page) -> None:
    tab.goto("/ui/timeline")
    before = tab.locator("article").count()
    tab.get_by_role("link", name="More").click()
    expect(tab.locator("article")).not_to_have_count(before)
    tab.get_by_label("What held on").fill("2026-03-01")
    tab.get_by_role("button", name="Show").click()
    expect(tab.locator("p.notice")).to_contain_text("What held at the end of 2026-03-01")
    assert (tab.locator("h2 time").first.get_attribute("datetime") or "") <= "2026-03-01"


def test_a_document_says_what_was_left_out(tab: Page) -> None:
    tab.goto("/ui/context")
    tab.get_by_label("Topic").fill("billing export")
    tab.get_by_label("Tokens").select_option("500")
    tab.keyboard.press("Tab")
    tab.get_by_role("button", name="Assemble").press("Enter")
    expect(tab.locator("pre.document")).to_contain_text("billing")
    expect(tab.locator("#left ~ .wide tbody tr, #left ~ .wide table tr").first).to_be_visible()
