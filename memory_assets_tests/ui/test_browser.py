"""The pages in a real browser: every change that they offer, by keyboard too, without a violation of WCAG AA that axe finds, wide and
narrow, light and dark. All tests share one tab and one home; none depends on what another one left.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import axe_playwright_python
import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from memory_assets.graph.edges import refresh_graph
from memory_assets.models import SecretPolicy, State
from memory_assets.operations import changes
from memory_assets.operations.graph import draw_graph
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant
from memory_assets.ui.app import one_time_address
from memory_assets_tests.ingest.test_secrets import PASSWORD
from memory_assets_tests.ui.site import Site, remember

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
    "/context?topic=billing+export&depth=1&budget=8000",
    "/session",
    "/sleep?cycle=cluster",
    "/health",
]
SCROLLED_SIDEWAYS = """[...document.querySelectorAll("main *")]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(each).overflowX))
    .map(each => each.outerHTML.slice(0, 200))"""


def violations(page: Page) -> Sequence[str]:
    """Return axe's findings: rule and first element of each. The script is evaluated, because the pages allow no foreign script."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async tags => (await axe.run({runOnly: tags, resultTypes: ['violations']})).violations", RULES)
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary'][:300]}" for each in found]


def status(tab: Page) -> Locator:
    """Return the page's one-time message about the previous change."""
    return tab.get_by_role("status")


def undo(tab: Page) -> None:
    """Take back the change that the page offers to undo."""
    status(tab).get_by_role("button", name="Undo", exact=True).click()
    expect(status(tab)).to_contain_text("Undone")


def show(tab: Page, number: int) -> None:
    """Open the page of a memory."""
    tab.goto(f"/ui/memories/{number}")


def find_other(tab: Page, use: str, words: str) -> None:
    """Choose the first search hit for some words and Enter in the form that relates or supersedes."""
    form = tab.locator(f"form[action$='/{use}']")
    form.locator("input[name=other_query]").press_sequentially(words)
    tab.keyboard.press("Enter")
    form.locator("input[type=radio]").first.check()


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_is_accessible_and_fits_every_screen(tab: Page, path: str) -> None:
    tab.goto(f"/ui{path}")
    for width, height, scheme in SCREENS:
        tab.set_viewport_size({"width": width, "height": height})
        tab.emulate_media(color_scheme=scheme)
        assert violations(tab) == [], (width, scheme)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        assert tab.evaluate(SCROLLED_SIDEWAYS) == [], (width, scheme)


def test_a_key_logs_in_and_the_button_logs_out(tab: Page, site: Site) -> None:
    tenant, key = site.new_tenant("yara")
    assert tab.context.browser
    with tab.context.browser.new_context(base_url=site.url) as context:
        other = context.new_page()
        other.goto("/ui/")
        other.get_by_label("Whose memory").fill(tenant.name)
        other.get_by_label("Key").fill(key)
        other.keyboard.press("Enter")
        expect(other.locator("header")).to_contain_text("yara")
        other.get_by_role("button", name="Log out").click()
        expect(other.get_by_role("button", name="Log in")).to_be_visible()
        other.goto("/ui/health")
        expect(other.get_by_label("Key")).to_be_visible()


def test_a_link_of_another_site_keeps_the_session_and_its_form_changes_nothing(tab: Page, site: Site, tenant: Tenant) -> None:
    address = f"{site.url}/ui/memories/{remember(tenant, 'The slipway is closed.')}"
    elsewhere = f'<a href="{address}">Look</a><form method="post" action="{address}/forget"><button>Forget</button></form>'
    assert tab.context.browser
    with tab.context.browser.new_context() as context:
        own = context.new_page()
        own.route("http://elsewhere.example/", lambda route: route.fulfill(body=elsewhere, content_type="text/html"))
        own.goto(one_time_address(tenant, site.url))
        for link, shown in (("Look", "The slipway is closed."), ("Forget", "Memory")):
            own.goto("http://elsewhere.example/")
            own.get_by_text(link).click()
            expect(own.locator("h1")).to_have_text(shown)
        own.goto(address)
        expect(own.get_by_role("button", name="Forget")).to_be_visible()


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


def test_what_was_found_does_not_stay_for_other_words_while_the_service_is_away(
    window: tuple[Page, list[str]], tab: Page
) -> None:
    tab.goto("/ui/search?q=billing+export")
    tab.route("**/ui/search?*", lambda route: route.abort())
    tab.locator("#q").press_sequentially(" lighthouse")
    expect(tab.locator("#results").get_by_role("alert")).to_contain_text("does not answer")
    expect(tab.locator("#results article")).to_have_count(0)
    tab.unroute("**/ui/search?*")
    window[1].clear()  # Chromium logs each request that fails


def test_a_memory_of_one_long_word_keeps_its_title_and_fits(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "Leuchtturm" * 60))
    expect(tab.locator("section", has=tab.locator("#joined-to"))).to_contain_text("Nothing, as of the last")
    expect(tab).to_have_title(re.compile("^Leuchtturm.* · Memory$"))
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_memory_with_a_wide_table_fits(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, f"| lamp | state |\n|---|---|\n| {'Leuchtturm' * 60} | on |"))
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_slash_leads_to_the_search_from_a_page_that_shows_no_field(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "The lock gates open inwards."))
    tab.locator("body").press("/")
    expect(tab).to_have_url(re.compile("/ui/search$"))
    expect(tab.locator("#q")).to_be_focused()


def test_filters_narrow_what_is_found_and_each_hit_says_why(tab: Page) -> None:
    tab.goto("/ui/search?q=billing+export")
    tab.get_by_text("Filters").click()
    tab.get_by_label("Kind").select_option("feedback")
    expect(tab).to_have_url(re.compile("kind=feedback"))
    expect(tab.locator("#results article p.dim").first).to_contain_text("feedback")
    tab.locator("#results summary").first.click()
    expect(tab.locator("#results table.bars").first).to_be_visible()
    tab.locator("#q").fill("quantum chromodynamics lattice")
    expect(tab.locator("#results .notice")).to_contain_text(re.compile("Nothing"))


def test_an_edit_is_another_version_and_is_undone(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "The harbour lamp is green since March, says Mira."))
    tab.get_by_text("Edit the text").focus()
    tab.keyboard.press("Enter")
    tab.get_by_label("Text, as Markdown").fill("The harbour lamp is **red** since March, says Mira.")
    tab.get_by_role("button", name="Save", exact=True).press("Enter")
    expect(status(tab)).to_contain_text("replaces the old one")
    expect(tab.locator(".diff ins").first).to_contain_text("red")
    assert violations(tab) == []
    undo(tab)
    expect(tab.locator(".text").first).to_contain_text("green")


def test_after_a_change_the_keyboard_is_at_what_it_says_and_its_undo(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "Lamps are tested by keyboard."))
    tab.locator("summary", has_text="Change its tags").focus()
    tab.keyboard.press("Enter")
    tab.get_by_label("Tags, with commas between").focus()
    tab.keyboard.type("lamps")
    tab.keyboard.press("Enter")
    expect(status(tab)).to_be_focused()
    tab.keyboard.press("Tab")
    expect(status(tab).get_by_role("button", name="Undo", exact=True)).to_be_focused()


def test_tags_are_changed_and_undone(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "The jetty is closed at low tide.", tags=("jetty",)))
    tab.get_by_text("Change its tags").click()
    tab.get_by_label("Tags, with commas between").fill("ferry, winter")
    tab.get_by_role("button", name="Save tags").click()
    expect(tab.get_by_label("Tags", exact=True)).to_have_text(re.compile(r"^\s*ferry\s*winter\s*$"))
    undo(tab)
    expect(tab.get_by_label("Tags", exact=True)).to_contain_text("jetty")


def test_a_memory_is_forgotten_restored_and_that_is_undone(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "The crane is painted blue."))
    expect(tab.locator("#change ~ div")).to_contain_text("It was: store. Then forgotten")
    tab.get_by_role("button", name="Forget").click()
    expect(tab.locator(".notice").first).to_contain_text("This memory is forgotten")
    tab.get_by_role("button", name="Restore").click()
    expect(status(tab)).to_contain_text("It is in recall again.")
    undo(tab)
    expect(tab.locator(".notice").first).to_contain_text("This memory is forgotten")


def test_a_relation_is_stated_and_undone(tab: Page, sample: Tenant) -> None:
    number = remember(sample, "The tide gauge is read by hand.")
    show(tab, number)
    tab.get_by_text("State how it relates to another memory").click()
    find_other(tab, "relate", "billing export")
    tab.get_by_role("button", name="State it").click()
    expect(status(tab)).to_contain_text("The relation is stated.")
    expect(tab.locator("#relations ~ ul")).to_contain_text("this RELATES_TO")
    undo(tab)
    assert sample.relations.of(number).num_rows == 0


def test_the_other_memory_can_be_named_by_its_id_after_a_search(tab: Page, sample: Tenant) -> None:
    number, other = remember(sample, "The fog horn is loud."), remember(sample, "The fog bell is quiet.")
    show(tab, number)
    tab.get_by_text("State how it relates to another memory").click()
    form = tab.locator("form[action$='/relate']")
    form.locator("input[name=other_query]").press_sequentially("fog")
    expect(form.locator("input[type=radio]").first).to_be_visible()
    form.get_by_label("or its id").fill(str(other))
    form.get_by_role("button", name="State it").click()
    expect(status(tab)).to_contain_text("The relation is stated.")
    assert sample.relations.of(number).num_rows == 1


def test_a_text_written_from_right_to_left_is_laid_out_so(tab: Page, sample: Tenant) -> None:
    show(tab, remember(sample, "اجتماع الفريق يوم الأحد\n\n- أحمد\n- سارة\n\nThe team meets on Sunday."))
    edges = """each => { const range = document.createRange(); range.selectNodeContents(each);
        const [text, box] = [range, each].map(one => one.getBoundingClientRect());
        return [text.left - box.left < 3, box.right - text.right < 3]; }"""
    for selector in ("h1", ".text p >> nth=0", ".text li >> nth=0"):
        assert tab.locator(selector).first.evaluate(edges) == [False, True], selector
    assert tab.locator(".text p").last.evaluate(edges) == [True, False]


def test_more_names_join_the_table(tab: Page, site: Site, tenant: Tenant) -> None:
    remember(tenant, " ".join(f"docs/plan{number}.md" for number in range(120)))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert tab.context.browser
    with tab.context.browser.new_context(base_url=site.url) as context:
        own = context.new_page()
        own.goto(one_time_address(tenant, site.url))
        own.goto("/ui/names?type=all")
        more = own.get_by_role("link", name="More")
        for rows in (101, 121):
            more.click()
            expect(own.locator("#names table tr")).to_have_count(rows)
        expect(more).to_have_count(0)


def test_another_memory_takes_the_place_and_that_is_undone_later(tab: Page, sample: Tenant) -> None:
    number = remember(sample, "The pilot boat leaves at six.")
    newer = remember(sample, "The pilot boat leaves at seven o'clock sharp.")
    show(tab, number)
    tab.get_by_text("Let another memory take its place").click()
    find_other(tab, "supersede", "pilot boat at seven o'clock sharp")
    tab.get_by_role("button", name="Let it take the place").click()
    expect(tab.locator(".notice").first).to_contain_text("This memory is superseded")
    assert sample.memories.get([number])[0].superseded_by == newer
    show(tab, number)
    tab.get_by_role("button", name="Undo its last change").click()
    expect(status(tab)).to_contain_text("Undone: supersede")
    assert sample.memories.get([number])[0].state is State.ACTIVE


def test_who_changed_it_meanwhile_is_not_overwritten(window: tuple[Page, list[str]], tab: Page, sample: Tenant) -> None:
    number = remember(sample, "The buoy is red.")
    show(tab, number)
    tab.get_by_text("Edit the text").click()
    changes.tag(sample, number, add=["sea"])
    tab.get_by_label("Text, as Markdown").fill("The buoy is yellow.")
    tab.get_by_role("button", name="Save", exact=True).click()
    expect(tab.get_by_role("alert")).to_contain_text("nothing of yours was saved")
    expect(tab.locator(".diff")).to_contain_text("yellow")
    assert violations(tab) == []
    tab.get_by_role("button", name="Save mine").click()
    expect(status(tab)).to_contain_text("replaces the old one")
    window[1].clear()  # the browser logs the answer 409


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
    tab.get_by_text("Filters").click()
    tab.get_by_label("Sure by at least, %").fill("80")
    tab.get_by_role("button", name="Show").click()
    expect(tab).to_have_url(re.compile("least=80"))


def test_a_drawn_file_is_searched_and_walked_offline(
    window: tuple[Page, list[str]], tab: Page, sample: Tenant, tmp_path: Path
) -> None:
    address = (tmp_path / "graph.html").as_uri()
    draw_graph(sample, tmp_path / "graph.html", limit=200)
    tab.goto(address)
    assert violations(tab) == []
    map_, output = tab.locator("#map"), tab.locator("#map output")
    tab.get_by_label("Search").fill("billing export")
    expect(tab.locator("#filters output")).to_have_text(re.compile(r"^[1-9]\d* found$"))
    tab.get_by_label("of type").select_option("MENTIONS")
    tab.get_by_label("Edges from confidence").fill("0.6")
    expect(map_).to_have_attribute("data-milliseconds", re.compile(r"\d"))
    canvas = tab.locator("canvas")
    for key in ("n", "n", "Enter", "e"):
        canvas.press(key)
    expect(output).to_contain_text("edges")
    canvas.press("Escape")
    expect(output).to_be_empty()
    assert window[1] == [address], "it asks no other address"
    window[1].clear()


def test_proposals_are_decided_for_many_at_once_and_applied_and_undone(tab: Page, asked: list[str]) -> None:
    tab.goto("/ui/review")
    tab.get_by_role("button", name="Look for proposals").click()
    expect(status(tab)).to_contain_text("proposals are open")
    boxes = tab.locator("input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    for place, text in ((2, "One text of mine"), (3, "Another text of mine")):
        tab.locator("summary", has_text="Edit").nth(place).click()
        tab.get_by_label("Description").nth(place).fill(text)
    assert violations(tab) == []
    tab.get_by_role("button", name="Accept").click()
    expect(status(tab)).to_contain_text("saved what you wrote")
    expect(status(tab)).to_contain_text("accepted")
    for text in ("One text of mine", "Another text of mine"):
        expect(tab.locator("article", has_text=text).first).to_contain_text("you wrote it")
    for place, decision, became in ((2, "Defer", "deferred"), (3, "Reject", "rejected")):
        tab.locator("input[type=checkbox]").nth(place).check()
        tab.get_by_role("button", name=decision).click()
        expect(status(tab)).to_contain_text(became)
    tab.locator("summary", has_text="Edit").first.click()
    tab.get_by_label("Description").first.fill("A third text of mine")
    tab.get_by_role("button", name="Save texts").click()
    expect(tab.locator("article", has_text="A third text of mine").first).to_be_visible()
    tab.get_by_role("link", name="What apply will do").click()
    tab.get_by_role("button", name="Apply").click()
    expect(status(tab)).to_contain_text("deleted")
    tab.get_by_role("button", name="Undo this apply").click()
    expect(status(tab)).to_contain_text("is undone")
    assert [each.partition(" ")[0] for each in asked] == ["Write", "Bring"]


def test_the_decisions_stay_in_sight_of_every_proposal_and_cover_no_focus(tab: Page) -> None:
    tab.goto("/ui/review")
    tab.get_by_role("button", name="Look for proposals").click()
    boxes, accept = tab.locator("input[type=checkbox]"), tab.get_by_role("button", name="Accept")
    tab.locator("summary", has_text="Edit").last.scroll_into_view_if_needed()
    expect(accept).to_be_in_viewport()
    tab.locator("summary", has_text="Edit").last.focus()
    for _ in range(6):
        tab.keyboard.press("Shift+Tab")
        bar, focused = (tab.locator(each).bounding_box() for each in (".sticky", ":focus"))
        assert bar
        assert focused
        assert focused["y"] >= bar["y"] + bar["height"]
    assert boxes.count() > 3


def test_contradictions_are_decided_in_each_way_and_undone(tab: Page, sample: Tenant) -> None:
    decisions = {
        "Both hold": "Both hold.",
        "The newer one holds": "The newer one holds",
        "Forget the older": "The older one is forgotten.",
        "Forget the newer": "The newer one is forgotten.",
    }
    pairs = {
        button: (remember(sample, f"Lock {each} opens at noon."), remember(sample, f"Lock {each} opens at dusk."))
        for each, button in enumerate(decisions)
    }
    with sample.catalog.write() as connection:
        for button, ends in pairs.items():
            connection.execute(
                "INSERT INTO graph_edges BY NAME SELECT $1 AS source_id, $2 AS target_id, 'CONTRADICTS' AS type, "
                "0.9 AS confidence, 0.9 AS similarity, 'facts' AS origin, 0 AS evidence_id, $3 AS note",
                [*ends, f"noon or dusk, {button}"],
            )
    tab.goto("/ui/review")
    for button, said in decisions.items():
        article = tab.locator("article", has_text=f"noon or dusk, {button}")
        article.get_by_role("button", name=button).click()
        expect(status(tab)).to_contain_text(said)
        expect(status(tab)).to_be_in_viewport()
        expect(article).to_have_count(0)
    undo(tab)
    states = sorted(sorted(each.state.value for each in sample.memories.get(ends)) for ends in pairs.values())
    assert states == [["active", "active"]] * 2 + [["active", "forgotten"], ["active", "superseded"]]


def test_names_are_merged_and_parted_by_keyboard(tab: Page) -> None:
    tab.goto("/ui/names")
    tab.locator("#names td a").first.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("#spellings")).to_be_visible()
    kept, name = tab.url, tab.locator("h1").inner_text()
    assert violations(tab) == []
    tab.get_by_label("name", exact=False).last.fill("Leila Farahmoun")
    tab.keyboard.press("Enter")
    expect(status(tab)).to_contain_text("is the same as")
    expect(tab.locator("h1")).to_have_text("Leila Farahmoun")
    tab.get_by_role("button", name=re.compile(f"Means something else ?: {name}")).press("Enter")
    expect(status(tab)).to_contain_text("is not")
    tab.goto("/ui/names")
    for _ in range(2):
        tab.locator("#decided ~ ul button").first.press("Enter")
        expect(status(tab)).to_contain_text("Taken back")
        tab.goto("/ui/names")
    expect(tab.locator("#decided")).to_have_count(0)
    tab.goto(kept)
    expect(tab.locator("h1")).to_have_text(name)


def test_names_projects_and_tags_are_listed(tab: Page) -> None:
    tab.goto("/ui/names")
    tab.get_by_label("Kind").select_option("tags")
    tab.get_by_label("Holds").fill("mongo")
    tab.get_by_role("button", name="Show").click()
    tab.locator("table.bars a").first.click()
    expect(tab).to_have_url(re.compile("/ui/timeline\\?tag=mongodb"))


def test_a_line_is_switched_off_and_on(tab: Page) -> None:
    tab.goto("/ui/session")
    first = tab.locator("ul.findings li").first
    text = first.locator("span.grow").inner_text()
    first.get_by_role("button").click()
    expect(status(tab)).to_contain_text("no session begins with it")
    expect(tab.locator("h2", has_text="Switched off")).to_be_visible()
    tab.get_by_role("button", name=re.compile("Tell again")).first.click()
    expect(tab.locator("ul.findings li span.grow").first).to_have_text(text)
    tab.get_by_label("Project").select_option(index=1)
    tab.get_by_role("button", name="Show").click()
    expect(tab).to_have_url(re.compile("project="))


def test_a_cycle_asks_before_it_runs(tab: Page, asked: list[str]) -> None:
    tab.goto("/ui/sleep")
    tab.get_by_role("link", name=re.compile("Creative")).click()
    tab.get_by_role("button", name="Run creative now").click()
    expect(status(tab)).to_be_visible()
    assert asked == ["Run creative now?"]


def test_what_the_doctor_found_is_mended_and_a_key_is_made_and_revoked(tab: Page, asked: list[str], sample: Tenant) -> None:
    (sample.folder / "visit.json").chmod(0o644)
    tab.goto("/ui/health")
    tab.get_by_role("button", name="Mend what needs no choice").click()
    expect(status(tab)).to_contain_text("Mended")
    assert (sample.folder / "visit.json").stat().st_mode & 0o777 == 0o600
    tab.get_by_label("What it is for").fill("the new phone")
    tab.get_by_role("button", name="Make a key").click()
    expect(status(tab)).to_contain_text("shown only now")
    tab.locator("tr", has_text="the new phone").get_by_role("button").click()
    expect(tab.locator("tr", has_text="the new phone")).to_contain_text("revoked")
    assert sum(each.active for each in KeyStore(sample.state).list()) == 1
    assert len(asked) == 1


def test_stored_secrets_are_masked_after_a_question(tab: Page, site: Site, tenant: Tenant) -> None:
    open_handed = Tenant(tenant.settings.model_copy(update={"secrets": SecretPolicy.ALLOW}), tenant.name)
    number = remember(open_handed, f"The admin password is {PASSWORD}")
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    assert tab.context.browser
    with tab.context.browser.new_context(base_url=site.url) as context:  # masking empties what is derived, which the others need
        own = context.new_page()
        own.on("dialog", accept)
        own.goto(one_time_address(tenant, site.url))
        own.goto("/ui/health/secrets")
        expect(own.locator("main")).to_contain_text(f"Memory {number}")
        own.get_by_role("button", name="Mask them").click()
        expect(status(own)).to_contain_text("masked")
    assert PASSWORD not in open_handed.memories.get([number])[0].content
    assert len(asked) == 1


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
    expect(tab.locator("[aria-labelledby=left] td", has_text="budget: it takes").first).to_be_visible()
