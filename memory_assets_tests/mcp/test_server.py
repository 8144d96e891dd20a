"""`memory mcp` as a real process, driven by the official SDK's client and line by line."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from memory_assets import operations
from memory_assets.cli.main import cli
from memory_assets.graph.edges import refresh_graph
from memory_assets.language.embedders.protocol import EmbedderAwayError
from memory_assets.learn.brief import NAME, parse_brief
from memory_assets.mcp import stdio
from memory_assets.mcp.protocol import MODERN_VERSIONS, Server
from memory_assets.mcp.tools import Session
from memory_assets.models import NewMemory, Source
from memory_assets.operations.prompt import PromptRecall
from memory_assets.operations.store import store
from memory_assets.operations.take_in import SourceWatch
from memory_assets.sources.projects import project_of
from memory_assets.tenants import Tenant
from memory_assets_tests.torture import zygote

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
Call = tuple[str, dict[str, object]]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "POND_TIMEZONE": "Europe/Berlin"}


def converse(*calls: Call, mode: str = "legacy") -> tuple[set[str], list[tuple[bool, str]]]:
    """Start `memory mcp`, list its tools and call some; returns the tools' names, and of each call whether it failed and its text."""

    async def talk() -> tuple[set[str], list[tuple[bool, str]]]:
        command = StdioServerParameters(command=sys.executable, args=["-m", "memory_assets.cli", "mcp"], env=environment())
        async with Client(command, read_timeout_seconds=60, mode=mode) as client:
            assert (client.protocol_version == MODERN_VERSIONS[0]) == (mode == "auto")
            tools = {tool.name for tool in (await client.list_tools()).tools}
            texts: list[tuple[bool, str]] = []
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                texts.append((bool(answer.is_error), "\n".join(getattr(part, "text", "") for part in answer.content)))
            return tools, texts

    return asyncio.run(talk())


def test_an_assistant_stores_searches_and_begins_sessions_in_readable_text(tenant: Tenant) -> None:
    tools, texts = converse(
        ("init", {}),
        ("store", {"content": "Alice moved the billing export to DuckDB.", "tags": ["Release Plan"]}),
        ("store", {"content": "Bob moved the billing export to DuckDB."}),
        ("search", {"query": "who moved the billing export", "limit": 1}),
        ("recent", {"hours": 1}),
        ("init", {}),
        ("health", {}),
        ("store", {"content": " "}),
    )
    assert tools == {
        "store",
        "search",
        "tana_context",
        "show",
        "recent",
        "update",
        "supersede",
        "forget",
        "undo",
        "init",
        "health",
    }
    assert [failed for failed, _ in texts] == [False] * 7 + [True]
    empty, stored, second, found, recent, begun, health, refused = [text for _, text in texts]
    assert re.match(r"It is \w+day, \w+ \d+, \d{4}, \d+:\d\d [ap]\.m\. CES?T\.", empty)
    assert "Nothing was remembered in the last 24 hours" in empty
    number = re.match(r"Stored (\d+)\n", stored)
    assert number
    assert "release-plan" in stored
    assert second.startswith("Stored ")
    assert re.match(r"1\. note · just now · (?:sure|likely|near) · id \d+\n   \w+ moved the billing export to DuckDB\.", found)
    assert recent.count("- note · just now · id ") == 2
    assert f"id {number[1]}" in recent
    assert "2 memories of the last 24 hours" in begun
    assert "2 memories" in health
    assert "empty or blank" in refused
    here = project_of(Path.cwd())
    assert here
    (kept,) = tenant.memories.get([int(number[1])])
    assert (kept.source, kept.project) == ("mcp", here.folder)


def test_a_client_of_the_newest_revision_needs_no_handshake() -> None:
    _, [(failed, text), (refused, why)] = converse(("init", {}), ("search", {"limit": 0}), mode="auto")
    assert not failed
    assert text.startswith("It is ")
    assert refused
    assert why == "search: `limit`: input should be greater than or equal to 1 (given: '0')."


def test_a_tool_answers_with_what_its_command_prints(tenant: Tenant) -> None:
    here = project_of(Path.cwd())
    assert here
    texts = ("Alice moved the billing export to DuckDB.", "Bob pays the bills.")
    one, two = (str(store(tenant, NewMemory(text, Source.MCP, project=here.folder)).id) for text in texts)
    night = datetime(2026, 3, 13, 16, tzinfo=UTC)
    store(tenant, NewMemory("Carol opened the quay.", Source.MCP, project=here.folder, created_at=night))
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    day = {"since": "2026-03-14", "until": "2026-03-15", "timezone": "Asia/Tokyo"}
    on_day = [part for name, value in day.items() for part in (f"--{name}", value)]
    pairs: Sequence[tuple[Call, Sequence[str]]] = (
        (("search", {"query": "billing export"}), ("search", "billing export", "-n", "5", "--here", "--max-tokens", "800")),
        (("search", {"query": "quay", **day}), ("search", "quay", *on_day, "-n", "5", "--here", "--max-tokens", "800")),
        (("recent", {"hours": 24}), ("recent", "--hours", "24", "--here", "--max-tokens", "800")),
        (("init", {"timezone": "Asia/Tokyo"}), ("init", "--timezone", "Asia/Tokyo", "--here", "--max-tokens", "600")),
        (("show", {"id": one}), ("show", one, "--max-tokens", "4000")),
        (("supersede", {"old": one, "new": two}), ("supersede", one, two)),
        (("undo", {"id": one}), ("undo", one)),
        (("health", {}), ("health",)),
    )
    server, told = Server(Session(Tenant(tenant.settings), here)), []
    for (name, given), _ in pairs:
        answer = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}})
        assert answer
        told.append(answer["result"]["content"][0]["text"])
    printed = [CliRunner().invoke(cli, list(arguments)).output for _, arguments in pairs]
    varying = r"\d+:\d\d|score \S+|\d+ recalls|\d+ \w+ ago|just now|updated_?a?t? .*"
    assert [re.sub(varying, "", text + "\n") for text in told] == [re.sub(varying, "", text) for text in printed]
    assert "Carol opened the quay." in told[1]


def exchange(*lines: bytes) -> list[dict[str, Any]]:
    """Send these lines to `memory mcp` and return its answers."""
    ended = zygote.shared().start(environment(), "mcp", given=b"\n".join(lines) + b"\n").wait(60)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def test_a_hung_embedder_holds_up_no_call_that_does_not_ask_it(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    recent_is_answered = Event()
    order: list[object] = []

    def hang(_texts: object, _role: str = "") -> None:
        recent_is_answered.wait(5)
        raise EmbedderAwayError("It hung.")

    class Sink(BytesIO):
        def write(self, line: Any) -> int:
            order.append(json.loads(line)["id"])
            if order[-1] == "recent":
                recent_is_answered.set()
            return len(line)

    store(tenant, NewMemory("Alice sails.", Source.CLI))
    monkeypatch.setattr(tenant.embedder, "embed", hang)
    calls = [("search", number, {"query": "who"}) for number in range(5)] + [("recent", "recent", {})]
    lines = [
        json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": given}}
        ).encode()
        for name, number, given in calls
    ]
    stdio._Connection(Server(Session(tenant, None)), Sink(), lambda: None).run(lines)
    assert order[0] == "recent"
    assert len(order) == 6


def test_a_prompt_of_one_tenant_that_is_answered_slowly_silences_no_other(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, begun = Event(), Event()

    def recall(asked: Tenant, *_: object) -> PromptRecall:
        if asked is tenant:
            begun.set()
            released.wait(60)
        return PromptRecall(framed=f"Mira sails, says {asked.name}.", ids=(1,))

    monkeypatch.setattr(operations.prompt, "recall_for_prompt", recall)
    params = {"name": "recall_for_prompt", "arguments": {"prompt": "who sails?"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    other = Server(Session(Tenant(tenant.settings, "other"), None))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(Server(Session(tenant, None)).answer, call)
        assert begun.wait(60)
        answer = other.answer(call)
        released.set()
    assert answer and "says other" in answer["result"]["content"][0]["text"]


def test_a_server_that_is_older_than_its_store_names_the_restart(tenant: Tenant) -> None:
    store(tenant, NewMemory("Mira moved the billing export to DuckDB in March 2026.", Source.CLI))
    with tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    server = Server(Session(tenant, None))

    def call(name: str, **given: str) -> str:
        answer = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}})
        assert answer
        return answer["result"]["content"][0]["text"]

    told = call("search", query="billing export")
    assert told.endswith("restart the session, so that Claude Code starts the server anew, or upgrade memory_assets.")
    assert "start again what began before an upgrade" in call("health")
    recalled = [call("recall_for_prompt", prompt="Who moved the billing export?", session=each) for each in ("s1", "s1", "s2")]
    assert ["restart the session" in each for each in recalled] == [True, False, True]


def test_a_server_that_starts_writes_a_brief_of_another_release_anew_also_where_it_watches_no_sources(tenant: Tenant) -> None:
    store(tenant, NewMemory("Alice sails.", Source.CLI))
    tenant.state.put(NAME, b'{"format":2}')
    stdio._warm_up(tenant, SourceWatch(tenant))
    assert parse_brief(tenant.state.get(NAME))


def test_a_server_that_cannot_load_its_models_is_ready_for_prompts_and_watches_its_sources_all_the_same(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_assets.language.tokens.load_encoding", lambda: (_ for _ in ()).throw(ValueError("damaged")))
    is_ready, is_watching = Event(), Event()
    watch = SourceWatch(tenant)
    monkeypatch.setattr(watch, "start", is_watching.set)
    stdio._warm_up(tenant, watch, is_ready.set)
    assert is_ready.is_set()
    assert is_watching.is_set()


_REMOVED = """
import json, sys
from pathlib import Path
from memory_assets.mcp import stdio
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session
from memory_assets.operations.take_in import SourceWatch
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant
tenant, program = Tenant(load_settings(mcp_tools="all")), Path(stdio.__file__).parents[1]
stdio._warm_up(tenant, SourceWatch(tenant))
program.rename(program.with_name("gone"))
server = Server(Session(tenant, None))
for name, arguments in json.loads(sys.argv[1]):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    print(json.dumps(server.answer(call)))
"""


def test_a_server_whose_program_was_removed_goes_on_or_names_the_mend(tenant: Tenant, tmp_path: Path) -> None:
    said = "Mira moved the billing export to DuckDB in March 2026."
    old = store(tenant, NewMemory(said, Source.CLI)).id
    new = store(tenant, NewMemory("Mira moved the billing export to PostgreSQL in May 2026.", Source.CLI)).id
    works: list[Call] = [
        ("init", {}),
        ("recall_for_prompt", {"prompt": "Who moved the billing export?"}),
        ("search", {"query": "billing export", "since": "7d"}),
        ("recent", {}),
        ("show", {"id": str(old)}),
        ("update", {"id": str(old), "content": f"{said} It took a week."}),
        ("undo", {"id": str(old)}),
        ("tana_context", {"query": "billing export"}),
        ("supersede", {"old": str(old), "new": str(new)}),
        ("forget", {"id": str(new)}),
        ("store", {"content": "Alice sails to Ghent."}),
        ("health", {}),
    ]
    shutil.copytree(ROOT / "memory_assets", tmp_path / "memory_assets", copy_function=os.symlink)
    command = [sys.executable, "-c", _REMOVED, json.dumps([*works, ("erase", {"ids": [str(old)]})])]
    place = {**environment(), "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(command, env=place, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    *worked, failed = map(json.loads, ended.stdout.splitlines())
    assert [each.get("result", {}).get("isError") for each in worked] == [False] * len(works), worked
    assert failed["error"]["message"] == (
        "The program was replaced or removed since this session began; restart the session, so that Claude Code starts the "
        "server anew."
    )


def test_lines_that_are_no_requests_neither_end_the_server_nor_go_unanswered(tenant: Tenant) -> None:
    call = '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"store","arguments":{"content":"Dora sails."}}}'
    answers = exchange(
        b"\xff{",
        b"[" * 100_000,
        b"[]",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":6,"method":[]}',
        b'{"jsonrpc":"2.0","id":7,"method":"no/such"}',
        rb'{"jsonrpc":"2.0","id":"\ud800","method":"\udfff"}',
        b'{"jsonrpc":"2.0","id":8,"method":"ping"}',
        call.encode(),
    )
    outcomes = [(answer["id"], answer.get("error", {}).get("code")) for answer in answers]
    malformed = [(None, code) for code in (-32700, -32700, -32600, -32600, -32600)]
    assert outcomes == [*malformed, (7, -32601), ("\ud800", -32601), (8, None), ("a", None)]
    assert len(tenant.memories) == 1
