"""Text by others never reaches a terminal, an assistant or a log as control characters."""

import json
import logging
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.api.logs import PrettyFormatter
from memory_assets.cli.main import cli
from memory_assets.display import visible
from memory_assets.errors import InvalidInputError, MemoryAssetsError
from memory_assets.language.validation import validate_memory
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session
from memory_assets.models import Entity, Kind, Memory, NewMemory, Source
from memory_assets.settings import Settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant

HOSTILE = "a\x1b]0;title\x07\x1b[31mred\x9b2J\x08\x7f\r\u202egnp.exe\u2066\u2028b"
OVERRIDES = ("LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI", "FSI", "PDI")
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x1b\x7f\x9b\u202e\u2029\n\t"))


@given(TEXTS)
def test_no_control_character_is_left_and_nothing_else_is_touched(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Zl", "Zp") and char not in "\n\t"]
    assert not [
        char
        for char in shown
        if unicodedata.bidirectional(char) in ("LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text
    assert RAW.search(text) or shown == text


def test_a_line_end_of_windows_is_a_line_end() -> None:
    assert visible("a\r\nb\rc") == "a\nb\\u000dc"


@pytest.fixture
def hostile(tenant: Tenant) -> Tenant:
    """A tenant of an older release, which let such things in: every text of a memory, a key, and a file's name."""
    now = datetime.now(UTC)
    texts: dict[str, Any] = dict.fromkeys(("title", "project", "session", "author", "external_id", "source_key"), HOSTILE)
    fields: dict[str, Any] = {
        "tags": (HOSTILE,),
        "links": (HOSTILE,),
        "actions": (HOSTILE,),
        "entities": (Entity(HOSTILE, "PERSON"),),
    }
    memory = Memory(
        7, HOSTILE, Kind.NOTE, Source.IMPORT, created_at=now, updated_at=now, metadata={HOSTILE: HOSTILE}, **texts, **fields
    )
    vector = np.asarray(tenant.embedder.embed([HOSTILE]), dtype=np.float32)
    tenant.memories.add([memory], vector, tenant.embedder.name)
    KeyStore(tenant.state).create(HOSTILE)
    silo = tenant.settings.claude_projects_dir / "-home-\x1b[31m" / "memory" / "\x1b[2J.md"
    silo.parent.mkdir(parents=True)
    silo.write_text(f"---\nname: x\ndescription: {HOSTILE!r}\ntype: wrong\n---\n\n{HOSTILE}\n", encoding="utf-8")
    return tenant


def test_no_command_prints_them(hostile: Tenant, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"content": "a", "title": HOSTILE, HOSTILE: 1}) + "\n", encoding="utf-8")
    commands = [
        ["search", "red", "--all", "--explain", "--bridges"],
        ["recent"],
        ["show", "7"],
        ["show", HOSTILE],
        ["forget", "7"],
        ["forget", "7", "--restore"],
        ["status", "--refused"],
        ["status"],
        ["doctor"],
        ["key", "list"],
        ["consolidate", "forget", "--dry-run"],
        ["export"],
        ["import", str(lines)],
        ["store", "a", "--author", HOSTILE],
        ["context", "7"],
        ["learn", "check"],
        ["pai", "context", "red"],
    ]
    for arguments in [*commands, *([*each, "--json"] for each in commands)]:
        done = CliRunner().invoke(cli, arguments)
        assert done.output or isinstance(done.exception, MemoryAssetsError | SystemExit), arguments
        assert not RAW.search(done.output), arguments


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "red", "all": True}),
        ("tana_context", {"query": "7"}),
        ("show", {"id": "7"}),
        ("recent", {}),
        ("init", {}),
        ("relate", {"source": HOSTILE, "relation": "LEADS_TO", "target": "7"}),
    ],
)
def test_no_tool_hands_them_to_an_assistant(hostile: Tenant, tool: str, arguments: dict[str, Any]) -> None:
    hostile.settings = hostile.settings.model_copy(update={"mcp_tools": "all"})
    server = Server(Session(hostile, None))
    params = {"name": tool, "arguments": arguments}
    answer = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert answer
    told = json.dumps(answer["result"]["content"][0]["text"])
    assert "\\\\u202e" in told
    assert not RAW.search(json.loads(told))


def test_a_log_for_people_escapes_them() -> None:
    record = logging.makeLogRecord({"msg": HOSTILE, "route": HOSTILE})
    assert not RAW.search(PrettyFormatter("%(message)s").format(record))


@pytest.mark.parametrize("field", ["content", "title", "author", "tags", "project", "session", "external_id"])
@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x9b", "\ufffe"])
def test_one_rule_refuses_control_characters_in_every_field_by_name(field: str, character: str) -> None:
    text = f"a{character}b"
    fields: dict[str, Any] = {"content": "a", field: (text,) if field == "tags" else text}
    with pytest.raises(InvalidInputError, match=rf"^{field}\b.* \(U\+{ord(character):04X}\) at position 1"):
        validate_memory(NewMemory(source=Source.IMPORT, **fields))


@pytest.mark.parametrize("field", ["title", "author", "tags", "project", "session", "external_id"])
@pytest.mark.parametrize("character", "\t\n\r\u2028\u2029")
def test_every_field_but_the_content_is_one_line(field: str, character: str) -> None:
    text = f"a{character}b"
    fields: dict[str, Any] = {field: (text,) if field == "tags" else text}
    with pytest.raises(InvalidInputError, match=rf"^{field}\b.* one line"):
        validate_memory(NewMemory("a\n\tb", Source.IMPORT, **fields))


@pytest.mark.parametrize("field", ["author", "project", "session", "external_id"])
def test_a_field_of_one_line_is_bounded_wherever_it_comes_from(field: str) -> None:
    whole: dict[str, Any] = {field: "a" * 1_000}
    longer: dict[str, Any] = {field: "a" * 1_001}
    with pytest.raises(InvalidInputError, match=f"^{field} has 1,001 characters, and at most 1,000 are stored: shorten it"):
        validate_memory(NewMemory("a", Source.MCP, **longer))
    validate_memory(NewMemory("a", Source.MCP, **whole))


def test_an_assistant_is_told_of_a_project_that_is_too_long(tenant: Tenant) -> None:
    params = {"name": "store", "arguments": {"content": "Priya owns the export.", "project": "x" * 100_000}}
    answer = Server(Session(tenant, None)).answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert answer and answer["result"]["isError"] and "project has 100,000 characters" in str(answer["result"])
    assert not tenant.exists


def test_an_import_names_the_field_and_takes_in_nothing(tmp_path: Path, settings: Settings) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"content": "a", "author": "Mal\\u001blory"}\n{"content": "b", "title": "two\\nlines"}\n', encoding="utf-8")
    done = CliRunner().invoke(cli, ["import", str(lines)])
    assert isinstance(done.exception, InvalidInputError)
    assert "line 1, author has a control character (U+001B) at position 3" in done.output
    assert "line 2, title has a tab or a line end (U+000A) at position 3" in done.output
    assert not settings.tenant_dir().exists()
