"""The pages in a real browser: by keyboard, without a violation of WCAG AA that axe finds, wide and narrow, light and dark."""

import re
from collections.abc import Sequence
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENS = ((1440, 900, "light"), (390, 844, "dark"))
VIEWS = ["/", "/search?q=billing+export"]


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
