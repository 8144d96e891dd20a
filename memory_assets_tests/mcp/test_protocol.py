"""The answers of the MCP server, independent of the transport."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memory_assets.graph.edges import refresh_graph
from memory_assets.language.tokens import count_tokens
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import DAILY, PAI, RARE, Session, relate
from memory_assets.models import Kind, NewMemory, RelationType, Source, State
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.sources.projects import Project
from memory_assets.tenants import Tenant, delete_tenant

ATLAS = Project("/home/mira/src/atlas", ("/home/mira/src/atlas", "-home-mira-src-atlas"))


@pytest.fixture
def session(tenant: Tenant) -> Session:
    tenant.settings = tenant.settings.model_copy(update={"mcp_tools": "all"})
    return Session(tenant, ATLAS)


@pytest.fixture
def server(session: Session) -> Server:
    return Server(session)


def ask(server: Server, method: str, **params: Any) -> dict[str, Any]:
    answer = server.answer({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert answer
    return answer.get("result") or answer["error"]


def call(server: Server, tool: str, /, **arguments: Any) -> tuple[bool, str]:
    result = ask(server, "tools/call", name=tool, arguments=arguments)
    return result["isError"], result["content"][0]["text"]


def stored(server: Server, content: str, **arguments: Any) -> tuple[int, str]:
    failed, text = call(server, "store", content=content, **arguments)
    assert not failed, text
    return int(text.split()[1]), text


def test_the_daily_tools_cost_an_assistant_less_than_1500_tokens() -> None:
    assert count_tokens(json.dumps([tool.definition() for tool in DAILY])) < 1_500


def test_a_long_error_is_shortened(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"{'a' * 900} {'b' * 100}"
    monkeypatch.setattr(Session, "describe_error", lambda *_: said)
    failed, text = call(server, "show", reference="1")
    assert failed
    assert len(text) < len(said)


def test_every_tool_says_what_it_does_and_whether_it_changes_anything(server: Server) -> None:
    tools = {tool["name"]: tool for tool in ask(server, "tools/list")["tools"]}
    assert len(tools) == len(DAILY + RARE + PAI)
    for tool in tools.values():
        assert len(tool["description"]) > 20
        assert "docs/" not in tool["description"]
        assert {"title", "$defs", "$ref"}.isdisjoint(re.findall(r'"([$\w]+)":', json.dumps(tool["inputSchema"])))
    reading = {name for name, tool in tools.items() if tool["annotations"]["readOnlyHint"]}
    destructive = {name for name, tool in tools.items() if tool["annotations"].get("destructiveHint")}
    assert reading == {
        "init",
        "search",
        "tana_context",
        "tana_pai_context",
        "tana_pai_freshness",
        "show",
        "recent",
        "conflicts",
        "health",
    }
    assert destructive == {"update", "supersede", "forget", "erase", "undo", "tana_pai_sync"}


def test_a_handshake_agrees_on_a_revision_and_tells_the_server_version(server: Server) -> None:
    asked = ("2025-06-18", "1999-01-01", "2031-01-01", None)
    agreed = [ask(server, "initialize", protocolVersion=each)["protocolVersion"] for each in asked]
    assert agreed == ["2025-06-18", "2025-11-25", "2025-11-25", "2025-11-25"]
    begun = ask(server, "initialize", protocolVersion="2025-06-18")
    assert begun["serverInfo"]["version"] == "0.1.0"
    assert set(begun["capabilities"]) == {"tools"}
    refused = ask(server, "ping", _meta={"io.modelcontextprotocol/protocolVersion": "2031-01-01"})
    assert refused["code"] == -32022
    assert "2026-07-28" in refused["data"]["supported"]


def test_the_revision_with_batches_is_not_spoken_and_its_clients_get_one_that_they_know(server: Server) -> None:
    assert ask(server, "initialize", protocolVersion="2025-03-26")["protocolVersion"] == "2024-11-05"
    assert "2025-03-26" not in ask(server, "server/discover")["supportedVersions"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("store", {"content": "x" * 7_501}, "7,501"),
        ("store", {}, "store: `content` is missing."),
        ("store", {"content": "x", "colour": "red"}, "store: there is no argument `colour`."),
        ("store", {"content": "x", "kind": "fact"}, "`kind`: input should be 'user', 'feedback'"),
        ("search", {"query": "x", "limit": 0}, "`limit`: input should be greater than or equal to 1 (given: '0')."),
        ("search", {"query": "x", "kind": "fact"}, "`kind`: input should be 'user', 'feedback'"),
        ("search", {"query": "x", "since": "someday"}, "since 'someday' is not a time"),
        ("recent", {"hours": -1}, "`hours`: input should be greater than 0"),
        ("forget", {"id": "12x"}, "12x"),
        ("show", {"id": "4"}, "no memory"),
        ("tag", {"id": "4"}, "at least one tag"),
    ],
)
def test_a_mistake_is_one_sentence_and_keeps_nothing(
    server: Server, tenant: Tenant, tool: str, arguments: dict[str, Any], said: str
) -> None:
    failed, text = call(server, tool, **arguments)
    assert failed
    assert said in text
    assert "\n" not in text
    assert len(tenant.memories) == 0


@pytest.mark.parametrize(
    ("tool", "argument"),
    [("show", "id"), ("search", "since"), ("recent", "timezone"), ("tana_context", "lens")],
)
def test_a_huge_argument_is_not_sent_back(server: Server, tool: str, argument: str) -> None:
    needed = {"query": "export"} if tool == "tana_context" else {}
    failed, text = call(server, tool, **needed, **{argument: "x" * 100_000})
    assert failed
    assert len(text) < 1_300
    assert re.search(r"recent|write it like|Europe/Berlin|lenses\.toml", text)  # the advice at its end


def test_what_is_at_hand_is_this_project_what_belongs_to_none_and_the_user(server: Server, tenant: Tenant) -> None:
    given = {
        "of this project": NewMemory("The export job is retried five times.", Source.CLI, project=ATLAS.names[1]),
        "of none": NewMemory("The export job never runs on Fridays.", Source.CLI),
        "of the user": NewMemory("Mira owns the export job.", Source.CLI, Kind.USER, project="/srv/other"),
        "of another": NewMemory("The export job of Borealis writes Parquet.", Source.CLI, project="/srv/borealis"),
    }
    ids = {store(tenant, memory).id: name for name, memory in given.items()}
    number, _ = stored(server, "The export job got a new owner.")
    assert tenant.memories.get([number])[0].project == ATLAS.folder

    def found(tool: str, **arguments: Any) -> set[str]:
        text = call(server, tool, **arguments)[1]
        return {ids[int(number)] for number in re.findall(r"id (\d{16})", text) if int(number) in ids}

    near = {"of this project", "of none", "of the user"}
    for tool, arguments in (("search", {"query": "export job"}), ("init", {}), ("recent", {})):
        assert found(tool, **arguments) == near
        assert found(tool, **arguments, everywhere=True) == near | {"of another"}
    assert found("search", query="export job", project="Borealis") == {"of another"}
    assert found("search", query="", kind="user") == {"of the user"}
    assert found("search", query="export", until="2020-01-01") == set()
    assert "elsewhere was not looked" in call(server, "search", query="export", until="2020-01-01")[1]


def test_lists_fit_into_their_tokens_whatever_the_script(server: Server, tenant: Tenant) -> None:
    for number in range(6):
        store(tenant, NewMemory(f"{number} " + "記憶は毎日の仕事の中で育つ。" * 80, Source.CLI, tags=("漢字",)))
        store(tenant, NewMemory(f"{number} The quick settlement run was slow again. " * 20, Source.CLI))
    assert count_tokens(call(server, "init")[1]) < 600
    assert count_tokens(call(server, "search", query="settlement 記憶")[1]) < 800
    short = call(server, "search", query="記憶", limit=50, max_tokens=200)[1]
    assert count_tokens(short) <= 200
    assert "more do not fit into 200 tokens." in short
    (number,) = re.findall(r"id (\d{16})", call(server, "search", query="記憶", limit=1)[1])
    assert "more characters)" in call(server, "show", id=number, max_tokens=50)[1]
    assert "記憶は毎日の仕事の中で育つ。" * 80 in call(server, "show", id=number)[1]


def test_a_store_names_what_it_repeats_or_contradicts(server: Server, tenant: Tenant) -> None:
    first, _ = stored(server, "Alice owns the billing export.")
    _, repeated = stored(server, "Alice owns the billing export.")
    assert "It repeats" in repeated
    assert f"id {first}" in repeated
    third, contrary = stored(server, "Bob owns the billing export.")
    assert "It touches what is remembered" in contrary
    assert f"id {first}" in contrary
    assert re.search(rf"supersede \d+ {third}", contrary)
    assert "It touches" not in stored(server, "The harbour opens at six.")[1]


def test_both_hold_names_what_the_assistant_can_call(server: Server, tenant: Tenant) -> None:
    first, _ = stored(server, "Alice owns the billing export.")
    second, contrary = stored(server, "Bob owns the billing export.")
    assert f"Both hold: relate {second} RELATES_TO {first}\n" in contrary
    daily = Tenant(tenant.settings.model_copy(update={"mcp_tools": "daily"}))
    third, contrary = stored(Server(Session(daily, ATLAS)), "Carol owns the billing export.")
    assert re.search(rf"Both hold: keep both; `memory conflicts --both-hold {third} \d+` settles it\n", contrary)


def test_what_was_done_can_be_undone(server: Server, tenant: Tenant) -> None:
    def states() -> dict[int, State]:
        return {each.id: each.state for each in tenant.memories.get(tenant.memories.scan(("id",))["id"].to_pylist())}

    old, _ = stored(server, "Alice owns the billing export.")
    new, _ = stored(server, "Bob owns the billing export.")
    assert call(server, "supersede", old=old, new=new) == (False, f"Superseded: {old} is history, {new} takes its place")
    assert states() == {old: "superseded", new: "active"}
    assert call(server, "supersede", old=old, new=new)[0]
    assert call(server, "supersede", old=new, new=new)[0]
    call(server, "undo", id=new)
    assert states() == {old: "active", new: "active"}
    call(server, "update", id=old, content="Alice owns the import.")
    (edited,) = states().keys() - {old, new}
    assert states() == {old: "superseded", new: "active", edited: "active"}
    call(server, "undo", id=old)
    assert states() == {old: "active", new: "active", edited: "forgotten"}
    call(server, "forget", id=new)
    call(server, "undo", id=new)
    call(server, "undo", id=old)
    assert states() == {old: "active", new: "active", edited: "forgotten"}, "what was taken back stays so"


def test_relations_that_are_stated_make_paths(server: Server, tenant: Tenant) -> None:
    cause, _ = stored(server, "The settlement run took 40 seconds in MongoDB.")
    decision, _ = stored(server, "Jonas decided to move shipments to PostgreSQL.")
    failed, text = call(server, "relate", source=cause, relation="LEADS_TO", target=decision, note="too slow")
    assert (failed, text) == (
        False,
        f"Stated: {cause} LEADS_TO {decision} (too slow); searches follow with the next `memory run`",
    )
    assert "cannot relate to itself" in call(server, "relate", source=cause, relation="LEADS_TO", target=cause)[1]
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    found = call(server, "search", query="settlement run slow", limit=1, bridges=3)[1]
    assert f"LEADS_TO (1.00, too slow) -> Jonas decided to move shipments to PostgreSQL. · id {decision}" in found
    assert str(cause) in "".join(path.read_text() for path in (tenant.folder / "access").iterdir())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["initialize", "tools/call", "tools/list", "server/discover", "x"])
MESSAGES = JSON | st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": JSON,
        "method": METHODS | JSON,
        "params": JSON | st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON, "_meta": JSON}),
    },
)


NOBODY = Server(Session(Tenant(load_settings(data_dir=Path("/nonexistent"))), None))


@given(message=MESSAGES)
@hypothesis_settings(max_examples=200)
def test_no_message_fails_inside(message: Any) -> None:
    answer = NOBODY.answer(message)
    asked = isinstance(message, dict) and message.get("jsonrpc") == "2.0" and "id" in message
    assert (answer is not None) == (asked or not isinstance(message, dict) or message.get("jsonrpc") != "2.0")
    assert answer is None or answer.get("error", {}).get("code") != -32603


def test_a_search_is_narrowed_by_names_and_verbs_and_shows_times_in_a_zone(server: Server, tenant: Tenant) -> None:
    for text in ("Alice repaired the boiler.", "Bob painted the boiler."):
        store(tenant, NewMemory(text, Source.CLI))
    for narrowing in ({"entities": ["Alice"]}, {"actions": ["repair"]}):
        _, found = call(server, "search", query="boiler", everywhere=True, timezone="Asia/Tokyo", **narrowing)
        assert "Alice" in found
        assert "Bob" not in found
    failed, said = call(server, "search", query="boiler", timezone="Nowhere/Land")
    assert (failed, "zone" in said) == (True, True)


@pytest.mark.parametrize("name", ["LEADS_TO", "leads_to", "Leads_To"])
def test_a_relation_type_is_taken_in_any_case(name: str) -> None:
    call = relate.arguments.model_validate({"source": "1", "relation": name, "target": "2"})
    assert dict(call)["relation"] is RelationType.LEADS_TO


def test_an_open_server_goes_on_with_a_tenant_that_was_deleted_and_created_anew(server: Server, session: Session) -> None:
    def answer(tool: str, **arguments: Any) -> str:
        return call(server, tool, **arguments)[1]

    store(Tenant(session.tenant.settings), NewMemory("Alice sails.", Source.CLI))
    assert "Alice sails." in answer("search", query="Who sails?")
    delete_tenant(Tenant(session.tenant.settings))
    assert "was deleted meanwhile" in answer("store", content="Dora sings.")
    store(Tenant(session.tenant.settings), NewMemory("Bob paints.", Source.CLI))
    assert answer("store", content="Carol dives.").startswith("Stored ")
    found = answer("search", query="What do Alice, Bob and Carol do?")
    assert ("Bob paints." in found, "Carol dives." in found, "Alice sails." in found) == (True, True, False)
