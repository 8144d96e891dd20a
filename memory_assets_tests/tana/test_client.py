import json
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_assets.settings import load_settings
from memory_assets.tana.client import FieldSpec, TanaClient, find_token
from memory_assets.tana.errors import (
    TanaAwayError,
    TanaError,
    TanaFaultError,
    TanaNotFoundError,
    TanaTokenError,
    TanaUncertainError,
)
from memory_assets.tana.formats import FieldValue, read_node, read_schema
from memory_assets_tests.tana.nodes import WORKSPACE
from memory_assets_tests.tana.stand_in import StandIn


def test_every_call_fulfils_the_contract(tana: StandIn, client: TanaClient) -> None:
    person = tana.add_tag("person")
    ada = tana.add_node("Ada Lovelace", person)
    assert client.health()
    assert [(space.name, space.library) for space in client.workspaces()] == [("main", "ws_main_STASH")]
    tag = client.create_tag(WORKSPACE, "pai_learning", "What was learned")
    kind = client.add_field(tag, FieldSpec("Type", "options", options=("pattern", "insight")))
    people = client.add_field(tag, FieldSpec("Related People", "instance", multiple=True), person)
    count = client.add_field(tag, FieldSpec("Confidence", "number"))
    shown = client.tag_schema(tag)
    schema = read_schema(shown)
    assert [field.type for field in schema.values()] == ["options", "instance", "number"] and person in shown
    made = client.import_paste(f"{WORKSPACE}_STASH", f"- A learning #[[^{tag}]]\n  - {count}:: 7\n  - {people}:: [[^{ada.id}]]")
    (node,) = made
    client.set_option(node, kind, schema["Type"].options["insight"])
    client.set_option(node, people, ada.id, "append")
    client.set_content(node, count, "9")
    client.update(node, "Another name")
    read = client.read(node)
    assert (read.name, read.id, read.tags) == ("Another name", node, " #pai_learning")
    assert read.texts("Confidence") == ["9"] and read.refs("Related People") == [ada.id, ada.id]
    client.set_content(node, count, None)
    assert client.read(node).texts("Confidence") == []
    query = {"and": [{"hasType": tag}, {"or": [{"textContains": "another"}, {"field": {"fieldId": kind, "stringValue": "x"}}]}]}
    assert [found.id for found in client.search(query, WORKSPACE)] == [node]
    assert [found.id for found in client.search({"edited": {"last": 1}, "hasType": person}, WORKSPACE)] == [ada.id]
    client.trash(node)
    client.trash(node)
    assert client.search({"textContains": "another"}, WORKSPACE) == []
    assert [found.in_trash for found in client.search({"textContains": "another"}, WORKSPACE, trashed=True)] == [True]
    refused = [violation for violation in tana.violations if "in the trash" not in violation]
    assert not refused


def test_tags_beyond_the_two_hundred_that_are_listed_are_found(tana: StandIn, client: TanaClient) -> None:
    made = [tana.add_tag(f"tag {number}") for number in range(230)]
    assert [tag.id for tag in client.tags(WORKSPACE)] == made


def test_what_was_created_is_among_the_children_before_a_search_finds_it(tana: StandIn, client: TanaClient) -> None:
    tana.traps.index_lag = 3600
    (node,) = client.import_paste(f"{WORKSPACE}_STASH", "- Fresh")
    assert client.search({"textContains": "Fresh"}, WORKSPACE) == []
    assert [child.id for child in client.all_children(f"{WORKSPACE}_STASH")] == [node]


def test_a_poisoned_page_is_read_without_the_node_it_fails_on(tana: StandIn, client: TanaClient) -> None:
    nodes = [tana.add_node(f"n{number}").id for number in range(205)]
    tana.traps.poison.add(nodes[1])
    assert [child.id for child in client.all_children(f"{WORKSPACE}_STASH")] == [node for node in nodes if node != nodes[1]]
    with pytest.raises(TanaFaultError):
        client.read(nodes[1])


def test_a_node_that_tana_always_fails_on_is_given_up(tana: StandIn, client: TanaClient) -> None:
    for number in range(30):
        tana.add_node(f"n{number}")
    tana.traps.statuses = [500] * 10_000
    with pytest.raises(TanaFaultError):
        list(client.all_children(f"{WORKSPACE}_STASH"))
    assert len(tana.requests) < 50


def test_a_list_of_children_that_never_ends_is_read_once(tana: StandIn, client: TanaClient) -> None:
    node = {"id": "n1", "name": "n1", "tags": [], "docType": "node", "created": None, "inTrash": False}
    for children in ([], [node]):
        tana.traps.shapes = {"nodes.getChildren": {"children": children, "hasMore": True}}
        assert [child.id for child in client.all_children(f"{WORKSPACE}_STASH")] == [child["id"] for child in children]
    assert len(tana.requests) <= 3


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "name", "tags", "docType", "children", "hasMore", "markdown", "tagId", "fieldId", "createdNodes"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
_CALLS: list[Callable[[TanaClient], object]] = [
    TanaClient.health,
    TanaClient.workspaces,
    lambda client: client.search({"textContains": "x"}, WORKSPACE),
    lambda client: client.read("n"),
    lambda client: list(client.all_children("n")),
    lambda client: client.tags(WORKSPACE),
    lambda client: client.tag_schema("n"),
    lambda client: client.create_tag(WORKSPACE, "x"),
    lambda client: client.add_field("n", FieldSpec("x", "plain")),
    lambda client: client.import_paste("n", "- x"),
    lambda client: client.update("n", "x"),
    lambda client: client.trash("n"),
]
_DEEP = [b"[" * 200_000, b'{"children":' * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000]


@settings(max_examples=200)
@given(
    call=st.sampled_from(_CALLS), said=_JSON.map(lambda value: json.dumps(value).encode()) | st.sampled_from(_DEEP) | st.binary()
)
def test_an_answer_of_another_shape_is_an_error_of_tana(
    tana: StandIn, client: TanaClient, call: Callable[[TanaClient], object], said: bytes
) -> None:
    tana.traps.everywhere = said
    with suppress(TanaError):
        call(client)


def test_an_overloaded_tana_is_asked_again_and_a_lost_answer_to_a_creation_is_not(tana: StandIn, client: TanaClient) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    client.service.sleep = wait
    tana.traps.retry_after = "2"
    tana.traps.statuses = [429, 503]
    assert client.workspaces()
    assert waits == [2, 2]
    tana.traps.statuses = [429]
    assert client.import_paste(f"{WORKSPACE}_STASH", "- one")
    tana.traps.lose_answers = 1
    with pytest.raises(TanaUncertainError):
        client.import_paste(f"{WORKSPACE}_STASH", "- two")
    tana.traps.statuses = [502]
    with pytest.raises(TanaUncertainError):
        client.import_paste(f"{WORKSPACE}_STASH", "- three")
    assert sorted(child.name for child in client.all_children(f"{WORKSPACE}_STASH")) == ["one", "two"]
    tana.traps.retry_after = "600"
    tana.traps.statuses = [429]
    with pytest.raises(TanaAwayError, match="600 s"):
        client.workspaces()
    with pytest.raises(TanaNotFoundError):
        client.read("none")


def test_tana_stopped_is_away_at_once_and_answers_again_after_its_start(tana: StandIn, client: TanaClient) -> None:
    assert client.workspaces()
    tana.stop()
    client.service.sleep = lambda _: pytest.fail("waited for what is not running")
    with pytest.raises(TanaAwayError, match="start Tana Desktop"):
        client.workspaces()
    tana.start()
    assert client.workspaces()


def test_the_token_is_shown_nowhere(tana: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MEMORY_TANA_TOKEN", "pat-SeCrEt-1234")
    client = TanaClient.open(load_settings())
    with pytest.raises(TanaTokenError) as caught:
        client.workspaces()
    assert "SeCrEt" not in f"{client!r} {vars(client)!r} {vars(client.service)!r} {caught.value!r} {caplog.text}"
    monkeypatch.setenv("MEMORY_TANA_TOKEN", "SeCrEt\nä")
    with pytest.raises(TanaTokenError, match=r"MEMORY_TANA_TOKEN .* headers cannot carry") as caught:
        TanaClient.open(load_settings())
    assert "SeCrEt" not in str(caught.value)
    monkeypatch.delenv("MEMORY_TANA_TOKEN")
    monkeypatch.setattr(
        "keyring.get_password", lambda service, name: tana.token if (service, name) == ("memory_assets", "tana") else None
    )
    assert find_token(load_settings()) == tana.token
    monkeypatch.setattr("keyring.get_password", lambda *_: None)
    with pytest.raises(TanaTokenError, match="keyring set memory_assets tana"):
        TanaClient.open(load_settings())


def test_the_contract_refuses_what_tana_refuses(tana: StandIn) -> None:
    def status(path: str, method: str = "GET", body: bytes = b"") -> int:
        return tana.answer(method, path, f"Bearer {tana.token}", body)[0]

    good = f"/nodes/search?query[textContains]=a&workspaceIds[]={WORKSPACE}&limit=100"
    assert status(good) == 200
    for path in (
        f"{good}&limit=101",
        "/nodes/search?query=a",
        f"/nodes/search?query[textContains]=a&workspaceIds={WORKSPACE}",
        "/nodes/search?query[childOf][nodeIds][0]=a&query[childOf][recursive]=true",
        "/tags/x/schema?includeEditInstructions=true",
        f"{good}&other=1",
    ):
        assert status(path) == 400, path
    assert status("/nodes/n/option", "POST") == 404
    assert status(f"/nodes/{WORKSPACE}_STASH/import", "POST", b'{"text": "x"}') == 400


def test_a_node_with_lists_boxes_and_references_is_read() -> None:
    read = read_node(
        '- [x] Ship <span data-inlineref-node="p1">Atlas</span> #task #[[big idea]] <!-- node-id: n1 -->\n'
        "  - **Owner**: [Ada #person](tana:a1)\n"
        "  - **Notes**:\n    - first <!-- node-id: v1 -->\n    - [Open](tana:o1)\n"
        "  - a child\n    over two lines <!-- node-id: n2 -->\n"
        "    - **Empty**:\n"
    )
    assert (read.name, read.id, read.references) == ("Ship Atlas", "n1", ["p1"])
    assert read.fields == {"Owner": [FieldValue("Ada", "a1")], "Notes": [FieldValue("first"), FieldValue("Open", "o1")]}
    (child,) = read.children
    assert (child.name, child.id, child.fields) == ("a child\nover two lines", "n2", {"Empty": []})


def test_a_field_is_found_in_every_spelling_of_its_name() -> None:
    read = read_node("- A learning\n  - **seedEntryId**: a\n  - **Seed Entry ID**: b\n  - **relatedPeople**: [Ada](tana:a1)\n")
    assert read.texts("Seed Entry ID") == ["a", "b"]
    assert read.refs("Related People") == ["a1"]


@settings(max_examples=150)
@given(st.text())
def test_no_markdown_breaks_the_reader(text: str) -> None:
    read_node(text)
    read_schema(text)
