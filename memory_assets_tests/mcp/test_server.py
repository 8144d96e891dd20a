"""The MCP server as a real process, spoken to by the SDK's own client."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from memory_assets.cli.main import cli
from memory_assets.graph.edges import refresh_graph
from memory_assets.tenants import Tenant

ROOT = Path(__file__).parents[2]


def converse(tmp_path: Path, *calls: tuple[str, dict[str, object]]) -> tuple[set[str], list[tuple[bool, str]]]:
    """Start `memory mcp`, list its tools and call some; returns the tools' names, and of each call whether it failed and its text."""

    async def talk() -> tuple[set[str], list[tuple[bool, str]]]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "POND_TIMEZONE": "Europe/Berlin"}
        command = StdioServerParameters(command=sys.executable, args=["-m", "memory_assets.cli", "mcp"], env=environment)
        async with Client(command, read_timeout_seconds=60) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            texts: list[tuple[bool, str]] = []
            for name, arguments in calls:
                answer = await client.call_tool(name, arguments)
                texts.append((bool(answer.is_error), "\n".join(getattr(part, "text", "") for part in answer.content)))
            return tools, texts

    return asyncio.run(talk())


def test_an_assistant_stores_searches_and_begins_sessions_in_readable_text(tmp_path: Path, tenant: Tenant) -> None:
    tools, texts = converse(
        tmp_path,
        ("init", {}),
        ("store", {"content": "Alice moved the billing export to DuckDB.", "tags": ["Release Plan"]}),
        ("store", {"content": "Bob moved the billing export to DuckDB."}),
        ("search", {"query": "who moved the billing export", "limit": 1}),
        ("recent", {"hours": 1}),
        ("init", {}),
        ("health", {}),
        ("search", {"query": "zebras in winter", "limit": 2}),
    )
    assert tools == {"store", "search", "recent", "relate", "init", "health"}
    assert not any(failed for failed, _ in texts)
    empty, stored, second, found, recent, begun, health, _ = [text for _, text in texts]
    assert re.match(r"It is \w+day, \w+ \d+, \d{4}, \d+:\d\d [ap]\.m\. CES?T\.", empty)
    assert "Nothing was remembered in the last 24 hours." in empty
    number = re.match(r"Stored (\d+)\n", stored)
    assert number
    assert "release-plan" in stored
    assert second.startswith("Stored ")
    assert re.match(r"1\. note · just now · score \d\.\d\d · id \d+\n   \w+ moved the billing export to DuckDB\.", found)
    assert recent.count("- note · just now · id ") == 2
    assert f"id {number[1]}" in recent
    assert "2 memories of the last 24 hours:" in begun
    assert "2 memories" in health
    assert {memory.source for memory in tenant.memories.get([int(number[1])])} == {"mcp"}


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("store", {"content": " "}, "empty or blank"),
        ("store", {"content": "x" * 7_501}, "7,501"),
        ("store", {}, "content"),
        ("search", {"query": "x", "limit": 0}, "limit"),
        ("recent", {"hours": -1}, "hours"),
    ],
)
def test_a_mistake_is_told_to_the_assistant_and_keeps_nothing(
    tmp_path: Path, tenant: Tenant, tool: str, arguments: dict[str, object], said: str
) -> None:
    _, [(failed, text)] = converse(tmp_path, (tool, arguments))
    assert failed
    assert said in text
    assert len(tenant.memories) == 0


def test_an_assistant_states_relations_and_is_shown_the_paths_they_make(tmp_path: Path, tenant: Tenant) -> None:
    _, texts = converse(
        tmp_path,
        ("store", {"content": "The settlement run took 40 seconds in MongoDB."}),
        ("store", {"content": "Jonas decided to move shipments to PostgreSQL."}),
    )
    cause, decision = (re.findall(r"\d{16}", text)[0] for _, text in texts)
    _, [(failed, stated), (refused, why)] = converse(
        tmp_path,
        ("relate", {"source": cause, "relation": "LEADS_TO", "target": decision, "note": "too slow"}),
        ("relate", {"source": cause, "relation": "LEADS_TO", "target": cause}),
    )
    assert not failed
    assert stated == f"Stated: {cause} LEADS_TO {decision} (too slow)"
    assert refused
    assert "cannot relate to itself" in why
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations)
    _, [(_, found)] = converse(tmp_path, ("search", {"query": "settlement run slow", "limit": 1, "bridges": 3}))
    assert "Bridges" in found
    assert f"LEADS_TO (1.00, too slow) -> Jonas decided to move shipments to PostgreSQL. · id {decision}" in found
    log = "".join(path.read_text() for path in (tenant.folder / "access").iterdir())
    assert cause in log


def test_a_tool_answers_with_what_its_command_prints(tmp_path: Path, tenant: Tenant) -> None:
    converse(tmp_path, ("store", {"content": "Alice moved the billing export to DuckDB.", "kind": "project"}))
    converse(tmp_path, ("store", {"content": "Bob pays the bills."}))
    _, texts = converse(
        tmp_path,
        ("search", {"query": "billing export"}),
        ("recent", {"hours": 24}),
        ("init", {"timezone": "Asia/Tokyo"}),
        ("health", {}),
    )
    commands = (("search", "billing export"), ("recent", "--hours", "24"), ("init", "--timezone", "Asia/Tokyo"), ("health",))
    for (_, told), arguments in zip(texts, commands, strict=True):
        printed = CliRunner().invoke(cli, arguments).output
        assert re.sub(r"\d+:\d\d|score \S+", "", told + "\n") == re.sub(r"\d+:\d\d|score \S+", "", printed)
