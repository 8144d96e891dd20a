"""Changes of one memory on its page: their effect, undo, and protection against overwriting another's change."""

import re

from memory_assets.models import Source, State
from memory_assets.operations import changes
from memory_assets.tenants import Tenant
from memory_assets.ui.rendering import difference
from memory_assets_tests.ui.site import Site, Visitor, remember

_SEEN = re.compile(r'name="seen" value="([^"]+)"')


def seen(visitor: Visitor, number: int) -> str:
    """Return the version that a memory's page shows."""
    found = _SEEN.search(visitor.get(f"/memories/{number}").text)
    assert found
    return found[1]


def test_an_edit_without_a_change_is_no_new_version(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "The export runs at two.")
    page = visitor.post(f"/memories/{number}/edit", seen=seen(visitor, number), content="The export runs at two.")
    assert page.url.path == f"/ui/memories/{number}"
    assert "Nothing changed" in page.text
    assert len(tenant.memories) == 1


def test_an_edit_is_a_new_version_with_a_difference_and_an_undo(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice moved the export to DuckDB.")
    page = visitor.post(f"/memories/{number}/edit", seen=seen(visitor, number), content="Alice moved the export\r\nto SQLite.")
    new = int(page.url.path.rpartition("/")[2])
    assert new != number
    assert "<del>DuckDB</del><ins>SQLite</ins>" in page.text
    assert f'action="/ui/memories/{new}/undo"' in page.text
    assert tenant.memories.get([new])[0].content == "Alice moved the export\nto SQLite."
    back = visitor.post(f"/memories/{new}/undo", seen=seen(visitor, new))
    assert back.url.path == f"/ui/memories/{number}"
    assert tenant.memories.get([number])[0].state is State.ACTIVE
    assert tenant.memories.get([new])[0].state is State.FORGOTTEN


def test_an_edit_says_what_it_masked(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.")
    page = visitor.post(f"/memories/{number}/edit", seen=seen(visitor, number), content="The FTP password is Seestern_99.")
    assert "Masked password: only the kind is kept" in page.text


def test_a_form_holds_every_character_of_a_text(tenant: Tenant, visitor: Visitor) -> None:
    text = "Write \u2068<Ä>\u2069 first.\u2028Then the rest."
    number = remember(tenant, text)
    refused = visitor.post(f"/memories/{number}/edit", seen="2026-01-01T00:00:00+00:00", content=text)
    for page in (visitor.get(f"/memories/{number}"), refused):
        shown, _, field = page.text.rpartition("<textarea")
        assert "Write \\u2068&lt;Ä&gt;\\u2069 first.\\u2028Then" in shown
        assert ">Write \u2068&lt;Ä&gt;\u2069 first.\u2028Then the rest.</textarea>" in field


def test_tags_forgetting_and_restoring(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.", tags=("summer",))
    tags = tenant.memories.get([number])[0].tags
    visitor.post(f"/memories/{number}/tags", seen=seen(visitor, number), tag=list(tags), tags="boats, harbour")
    assert tenant.memories.get([number])[0].tags == ("boat", "harbour")
    page = visitor.post(f"/memories/{number}/forget", seen=seen(visitor, number))
    assert "Forgotten" in page.text
    assert tenant.memories.get([number])[0].state is State.FORGOTTEN
    visitor.post(f"/memories/{number}/undo", seen=_SEEN.findall(page.text)[0])
    assert tenant.memories.get([number])[0].state is State.ACTIVE
    visitor.post(f"/memories/{number}/forget", seen=seen(visitor, number))
    visitor.post(f"/memories/{number}/restore", seen=seen(visitor, number))
    assert tenant.memories.get([number])[0].state is State.ACTIVE


def test_a_tag_in_other_capitals_stays(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.")
    visitor.post(f"/memories/{number}/tags", seen=seen(visitor, number), tags="plan, berlin")
    had = tenant.memories.get([number])[0].tags
    visitor.post(f"/memories/{number}/tags", seen=seen(visitor, number), tag=list(had), tags=", ".join(map(str.title, had)))
    assert tenant.memories.get([number])[0].tags == had


def test_superseding_and_relating_need_another_memory(tenant: Tenant, visitor: Visitor) -> None:
    old, new = remember(tenant, "The export runs at two."), remember(tenant, "The export runs at three.")
    assert f'value="{new}"' in visitor.get(f"/memories/{old}/found?other_query=export").text
    assert visitor.post(f"/memories/{old}/relate", seen=seen(visitor, old), type="RELATES_TO", other="").status_code == 400
    assert visitor.post(f"/memories/{old}/relate", seen=seen(visitor, old), type="NONSENSE", other=new).status_code == 400
    visitor.post(f"/memories/{old}/relate", seen=seen(visitor, old), type="LEADS_TO", other=new, note="moved")
    assert [row["type"] for row in tenant.relations.of(old).to_pylist()] == ["LEADS_TO"]
    assert "It was: relate." in visitor.get(f"/memories/{old}").text
    visitor.post(f"/memories/{old}/undo", seen=seen(visitor, old))
    assert tenant.relations.of(old).num_rows == 0
    page = visitor.post(f"/memories/{old}/supersede", seen=seen(visitor, old), other=new)
    assert tenant.memories.get([old])[0].superseded_by == new
    assert "This is history." in page.text


def test_two_tabs_do_not_overwrite_each_other(site: Site, tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "The export runs at two.")
    first = seen(visitor, number)
    other = site.visitor(tenant)
    new = other.post(f"/memories/{number}/edit", seen=seen(other, number), content="The export runs at three.").url.path
    refused = visitor.post(f"/memories/{number}/edit", seen=first, content="The export runs at four.")
    assert refused.status_code == 409
    assert "Changed meanwhile" in refused.text
    assert "The export runs at three." in refused.text
    assert "<del>three</del><ins>four</ins>" in refused.text
    assert len(tenant.memories) == 2
    found = _SEEN.search(refused.text)
    assert found
    saved = visitor.post(f"{new.removeprefix('/ui')}/edit", seen=found[1], content="The export runs at four.")
    assert saved.status_code == 200
    assert [each.content for each in tenant.memories.get([int(saved.url.path.rpartition("/")[2])])] == [
        "The export runs at four."
    ]


def test_every_change_is_refused_once_somebody_else_changed_the_memory(tenant: Tenant, visitor: Visitor) -> None:
    number, other = remember(tenant, "Alice sails."), remember(tenant, "Bob rows.")
    before = seen(visitor, number)
    changes.tag(tenant, number, add=["boats"])
    for change in ("edit", "tags", "forget", "restore", "supersede", "relate", "undo"):
        fields = {"content": "Alice rows.", "other": other, "type": "LEADS_TO"}
        answer = visitor.post(f"/memories/{number}/{change}", seen=before, **fields)
        assert answer.status_code == 409, change
        assert "nothing of yours was saved" in answer.text
    assert tenant.memories.get([number])[0].tags[-1] == "boat"
    assert visitor.post(f"/memories/{number}/forget", seen="yesterday").status_code == 400


def test_the_undo_above_a_page_takes_back_its_own_change_alone(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.")
    page = visitor.post(f"/memories/{number}/tags", seen=seen(visitor, number), tags="boats")
    offered = _SEEN.findall(page.text)[0]
    changes.forget(tenant, number)
    assert visitor.post(f"/memories/{number}/undo", seen=offered).status_code == 409
    assert tenant.memories.get([number])[0].state is State.FORGOTTEN


def test_a_page_says_what_an_undo_would_do(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "Alice sails.", tags=("summer",))
    had = tenant.memories.get([number])[0].tags
    assert "It was: store. Then forgotten: Alice sails." in visitor.get(f"/memories/{number}").text
    page = visitor.post(f"/memories/{number}/tags", seen=seen(visitor, number), tag=list(had), tags="boats").text
    assert re.search(r"It was: tag\. Then in recall: Alice sails\.[^<]*summer", page)
    assert tenant.memories.get([number])[0].tags == ("boat",)


def test_what_a_file_says_is_changed_there(site: Site, sample: Tenant) -> None:
    number = sample.memories.scan(("id",), "source = 'claude_silo'", 1)["id"][0].as_py()
    visitor = site.visitor(sample)
    page = visitor.get(f"/memories/{number}").text
    assert "change them there" in page
    assert "Edit the text" not in page
    answer = visitor.post(f"/memories/{number}/edit", seen=seen(visitor, number), content="x")
    assert answer.status_code == 409
    assert "comes from" in answer.text


def test_a_version_of_long_texts_is_compared_by_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(3_000))
    assert difference(text, text.replace("line 7\n", "<b>\n")).count("<ins>") == 1
    assert "<ins>&lt;b&gt;</ins>" in difference("a", "a<b>").replace(
        "<ins>&lt;</ins><ins>b</ins><ins>&gt;</ins>", "<ins>&lt;b&gt;</ins>"
    )


def test_an_edit_by_another_face_shows_in_the_history(tenant: Tenant, visitor: Visitor) -> None:
    number = remember(tenant, "The export runs at two.")
    second = changes.edit(tenant, number, "The export runs at three.", source=Source.CLI).id
    third = changes.edit(tenant, second, "The export runs at four.", source=Source.CLI).id
    for each in (number, second, third):
        page = visitor.get(f"/memories/{each}").text
        assert page.count('class="text diff"') == 2, each


def test_the_page_says_who_recalled_a_memory(tenant: Tenant, visitor: Visitor) -> None:
    from memory_assets.operations.search import search
    from memory_assets.stores.access_log import recalled_by

    recalled_by.set("cli")  # a test that speaks MCP in this process has set it
    number = remember(tenant, "The export runs at two.")
    assert "you, here" in visitor.get(f"/memories/{number}").text
    search(tenant, "when does the export run")
    page = visitor.get(f"/memories/{number}").text
    assert "a command or a hook" in page
    visitor.http.post(f"/api/v1/{tenant.name}/search", json={"query": "export"}, headers={"X-API-Key": "x"})
    assert "a program over HTTP" not in visitor.get(f"/memories/{number}").text
