"""The content of the pages; text by others is always shown as text."""

import socket
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.graph.edges import refresh_graph
from memory_assets.learn.checkouts import note_checkout
from memory_assets.models import Kind, State
from memory_assets.operations.arguments import Narrowing
from memory_assets.operations.changes import forget
from memory_assets.operations.names import count_projects, list_names
from memory_assets.operations.show import recent
from memory_assets.sources.projects import Project
from memory_assets.tana.state import SyncRecord
from memory_assets.tenants import Tenant
from memory_assets.ui.page import VIEWS
from memory_assets.ui.rendering import coded, markdown, plain
from memory_assets_tests.ui.site import Site, Visitor, remember, remember_all

ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_an_empty_memory_says_how_to_begin(visitor: Visitor) -> None:
    assert "Nothing is remembered yet." in visitor.get("/").text
    assert "Nothing is remembered that fits." in visitor.get("/search?q=anything").text


def test_the_start_counts_and_names_what_is_new(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved the billing export.", kind=Kind.PROJECT, project="/home/mira/atlas")
    page = site.visitor(tenant).get("/").text
    assert "1 memory" in page
    assert "atlas" in page
    assert "Alice moved the billing export." in page.partition("New since your last visit")[2]


def test_a_project_is_named_once_however_its_memories_are_marked(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved nothing.")
    note_checkout(tenant.folder, Project("/srv/work-copy", (), "github.com/acme/atlas"))
    of_atlas = ("/home/mira/atlas", "-home-mira-atlas", "github.com/acme/atlas", "Atlas", "/srv/work-copy", "-srv-work-copy")
    marks = (*of_atlas, "/home/mira/harbour", "-srv-old-harbour-kit")
    for number, project in enumerate((*marks, str(Path.home()))):
        remember(tenant, f"Alice moved export {number}.", kind=Kind.PROJECT, project=project)
    assert count_projects(tenant) == {"atlas": 6, "harbour": 1, "-srv-old-harbour-kit": 1}
    start = visitor.get("/").text
    assert start.count('<a href="/ui/search?project=atlas">') == 1
    assert "work-copy" not in start
    found = recent(tenant, narrowed=Narrowing(project="atlas")).memories
    assert {each.project for each in found} == set(of_atlas)


def test_the_start_counts_all_that_is_new_and_what_faded(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    numbers = remember_all(tenant, [f"Carla counted {count} seals." for count in range(12)], kind=Kind.PROJECT)
    tenant.memories.transition(numbers[:2], (State.ACTIVE,), State.ARCHIVED)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    page = site.visitor(tenant).get("/").text
    assert "<h1>10 memories</h1>" in page
    assert 'href="/ui/search?person=Carla">Carla</a>' in page
    assert "Memories by day and source, at most 10" in page
    new, faded = page.partition("New since your last visit")[2].split('<h2 id="faded">')
    assert "10 memories stored or changed since" in new
    assert new.count("<article") == 8
    assert "2 memories archived" in faded
    assert faded.count("<article") == 2


def test_search_finds_with_reasons_and_filters(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice moved the billing export to DuckDB.", tags=("release plan",))
    remember(tenant, "The billing export page needs a new title.", kind=Kind.FEEDBACK)
    found = visitor.get("/search?q=billing+export").text
    assert f"/ui/memories/{number}" in found
    assert "Parts of the score" in found
    assert f"/ui/memories/{number}" not in visitor.get("/search?q=billing+export&kind=feedback").text
    assert f"/ui/memories/{number}" in visitor.get("/search?q=billing+export&tag=release+plan").text
    assert visitor.get("/search?q=x&kind=nonsense").status_code == 400


def test_an_outdated_sentence_is_marked_with_the_one_that_holds(tenant: Tenant, visitor: Visitor) -> None:
    old = remember(tenant, "Reports go to finance by mail. The nightly import of the ledger runs on host beech.")
    new = remember(tenant, "Two racks were emptied. The nightly import of the ledger now runs on host alder instead of beech.")
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    for address in ("/search?q=nightly+import+of+the+ledger", f"/memories/{old}"):
        mark = visitor.get(address).text.lower().partition("outdated, replaced on")[2].partition("</p>")[0]
        assert f'<a href="/ui/memories/{new}">the nightly import of the ledger now runs on host alder' in mark, address


def test_a_hit_names_what_replaced_two_of_its_sentences_once(tenant: Tenant, visitor: Visitor) -> None:
    text = "Ines Quill owns the berth allocator\n\nInes Quill owns the berth allocator since 2026-05-04."
    old = remember(tenant, text, created_at=datetime(2026, 5, 5, tzinfo=UTC))
    remember(tenant, "Ines Quill no longer owns the berth allocator; since 2026-11-20 it is Wanjiru Kamau.")
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    assert visitor.get(f"/memories/{old}").text.count("is outdated, replaced on") == 2
    assert visitor.get("/search?q=who+owns+the+berth+allocator").text.count("Outdated, replaced on") == 1


def test_the_start_says_what_waits_for_tana(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved the billing export to DuckDB.")
    SyncRecord(queue={"pat_0001": "create", "pat_0002": "trash"}).save(tenant.folder)
    assert "2 changes wait for Tana" in visitor.get("/").text


def test_nothing_relevant_is_said(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "Alice moved the billing export to DuckDB.")
    page = visitor.get("/search?q=quantum+chromodynamics+lattice").text
    assert "Nothing relevant is remembered." in page
    assert "all=1" in page


def test_lists_page_by_cursor(tenant: Tenant, visitor: Visitor) -> None:
    numbers = set(remember_all(tenant, [f"Alice measured the retry loop, round {each}." for each in range(13)]))
    seen: list[str] = []
    address = "/search?q="
    while address:
        page = visitor.get(address).text
        seen += [part.partition('"')[0] for part in page.split('<h3><a href="/ui/memories/')[1:]]
        more = page.partition('<p class="more"><a href="/ui')[2].partition('"')[0]
        address = more.replace("&amp;", "&")
    assert sorted(map(int, seen)) == sorted(numbers)


def test_typing_recalls_nothing_and_a_search_does(tenant: Tenant, visitor: Visitor) -> None:
    from memory_assets.stores.access_log import AccessLog

    remember(tenant, "Alice moved the billing export to DuckDB.")
    visitor.get("/search?q=billing", **{"HX-Request": "true"})
    assert AccessLog(tenant.state).read_since({}).rows.num_rows == 0
    visitor.get("/search?q=billing")
    assert AccessLog(tenant.state).read_since({}).rows.num_rows == 1


def test_a_memory_tells_its_state(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "# Plan\n\nAlice *moved* the export.")
    page = visitor.get(f"/memories/{number}").text
    assert "<em>moved</em>" in page
    assert f"<dt>Machine</dt><dd>{socket.gethostname()}</dd>" in page
    forget(tenant, number)
    assert "This memory is forgotten" in visitor.get(f"/memories/{number}").text
    assert visitor.get("/memories/12345").status_code == 404


def test_a_memory_with_any_json_in_its_metadata_has_a_page(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Guessed by hand.", metadata={"guessed": 5})
    assert "<dt>Guessed</dt><dd>5</dd>" in visitor.get(f"/memories/{number}").text


def test_lists_show_no_marks_of_markdown(tenant: Tenant, visitor: Visitor) -> None:
    remember(tenant, "**Why:** the `export` moved.\n\n- Alice asked\n- snake_case stays")
    for path in ("/search?q=export", "/timeline"):
        page = visitor.get(path).text
        assert "Why: the export moved. · Alice asked · snake_case stays" in page, path
        assert "**" not in page, path


def test_a_text_loses_its_marks_alone() -> None:
    assert plain("# A\n\n*b* [c](https://d.example)\n\n1. <e>\n2. f") == "A\nb c\n1. <e>\n2. f"
    for text in ("a_b_c 2 * 3", "---", "C:\\Users\\mira", "plain - text", ""):
        assert plain(text) == text


def test_commands_in_sentences_are_code_and_nothing_else_is(visitor: Visitor) -> None:
    assert coded("`memory run` <b> *x* [y](https://z) &amp;") == "<code>memory run</code> &lt;b&gt; *x* [y](https://z) &amp;amp;"
    assert "<code>memory " in visitor.get("/health").text.partition('class="findings"')[2].partition("</ul>")[0]


def test_what_others_wrote_is_text_in_every_view(site: Site) -> None:
    tenant, _ = site.new_tenant("mallory")
    fields = {"title": ATTACK, "tags": (ATTACK,), "project": f"/home/{ATTACK}", "session": ATTACK, "author": ATTACK}
    number = remember(
        tenant, f"Dear Mallory Jones, {ATTACK} wrote [here](javascript:alert(3)).", metadata={"path": ATTACK}, **fields
    )
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    visitor = site.visitor(tenant)
    name = list_names(tenant).names[0].id
    paths = [
        each.path.replace("{id:int}", str(number)).replace("{name:int}", str(name)) for each in VIEWS if each.method == "GET"
    ]
    for path in [*paths, f"/search?q={ATTACK}", f"/search?tag={ATTACK}", f"/search?kind={ATTACK}", f"/{ATTACK}"]:
        page = visitor.get(path).text
        assert "<script>" not in page, path
        assert "<img" not in page, path
        assert 'href="javascript:' not in page, path


def test_markdown_is_rendered_without_html_pictures_or_other_schemes() -> None:
    assert markdown("**a** <b>c</b>") == "<p><strong>a</strong> &lt;b&gt;c&lt;/b&gt;</p>\n"
    assert "<img" not in markdown("![x](https://evil.example/pixel.png)")
    for address in (
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "//evil",
    ):
        assert "<a" not in markdown(f"[x]({address}) <{address}>"), address
    assert '<a href="https://a.example" rel="noopener noreferrer">x</a>' in markdown("[x](https://a.example)")
    assert "\u202e" not in markdown("a\u202eb")
