"""The pages in a real browser: by keyboard, without a violation of WCAG AA that axe finds, wide and narrow, light and dark."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from memory_assets.tenants import Tenant
from memory_assets_tests.ui.site import FRESH_SECONDS, Site, remember

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENS = ((1440, 900, "light"), (390, 844, "dark"))
VIEWS = ["/", "/search?q=billing+export", "/review", "/graph?q=billing+export"]


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
