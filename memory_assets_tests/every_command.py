"""Run every command, the service and the MCP server, one after the other, while `test_privacy` watches.

    python -m memory_assets_tests.every_command FOLDER

Settings come from the environment; output files of commands go to FOLDER. The hooks, `serve` and `mcp` run as real processes; the
others run in this one, `run` with its process that analyses texts. A failure ends it with a traceback.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import httpx
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from memory_assets.cli.main import COMMANDS, cli
from memory_assets.privacy import keep_private
from memory_assets.settings import load_settings
from memory_assets.stores.layout import unlisted_files
from memory_assets.tenants import Tenant

_MEMORY = [sys.executable, "-m", "memory_assets.cli"]


def main(folder: Path) -> None:
    """Run them all; raise if a command has no example."""
    before, environment = os.umask(0), os.environ.copy()  # commands set TMPDIR
    keep_private()  # as `memory` does before it calls one of these
    assert not cli(["run"], standalone_mode=False)
    lines = folder / "lines.jsonl"
    lines.write_text(
        '{"content": "Bob keeps the keys.", "id": 7}\n{"content": "Bob lost the keys.", "id": 8}\n', encoding="utf-8"
    )
    transcript = folder / "session.jsonl"
    transcript.write_text('{"type": "user", "message": {"role": "user", "content": "Always lint first."}}\n', encoding="utf-8")
    given = json.dumps({"session_id": "a", "source": "startup", "cwd": str(folder), "transcript_path": str(transcript)}).encode()
    for hook in ("session-start", "session-end"):
        subprocess.run([*_MEMORY, hook], input=given, check=True, umask=0, env=environment)
    called = {"run", "serve", "mcp", "session-start", "session-end"}
    for line in (
        "store Alice-moved-the-billing-export-to-DuckDB. --json",
        f"import {lines}",
        "search export --explain --bridges",
        "context export --lens coding",
        "tana read --help",
        "recent",
        "init",
        "health",
        "show 7",
        "tag 7 keys",
        "supersede 8 7",
        "undo 8",
        "edit 7 Bob-keeps-the-keys-in-June",
        "relate 7 LEADS_TO 8",
        "conflicts",
        "names",
        "timeline",
        "session",
        "noted",
        "install claude-code --dry-run",
        "forget 8",
        "erase 8 --yes",
        "learn check",
        "learn review",
        "learn apply",
        "consolidate decay",
        "consolidate creative",
        "consolidate cluster",
        "consolidate forget --dry-run",
        "backfill",
        f"graph {folder / 'graph.html'}",
        f"export {folder / 'all.jsonl'}",
        f"backup {folder / 'backups'}",
        f"restore {folder / 'backups'} --tenant restored",
        "status",
        "ui --help",
        "up --help",
        "down",
        "scan",
        "completion bash",
        "doctor",
        "tenant create other",
        "pai sync --dry-run",
        "pai context export",
        "pai freshness",
        "pai session-start",
        "tenant list",
        "tenant delete other --yes",
        "key list",
    ):
        arguments = line.split()
        called.add(arguments[0])
        click.echo(f"$ memory {line}")
        assert not cli(arguments, standalone_mode=False), line
    key = CliRunner().invoke(cli, ["key", "create"], catch_exceptions=False).stdout.strip()
    os.umask(before)
    assert called == set(COMMANDS), f"give an example of {set(COMMANDS) - called}"
    _serve(key)
    asyncio.run(_mcp())
    tenant = Tenant(load_settings())
    assert not unlisted_files(tenant.folder), "list in stores/layout.py whether a backup keeps it"


def _serve(key: str) -> None:
    service = subprocess.Popen([*_MEMORY, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert service.stderr
    try:
        address = next(found[1] for line in service.stderr if (found := re.search(r"memory: (http://\S+)", line)))
        with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=60, trust_env=False) as client:
            for path in ("/api/v1/health", "/metrics", "/docs", "/docs/static/swagger-ui.css", "/api/v1/main/health"):
                client.get(path).raise_for_status()
            client.post("/api/v1/main/store", json={"content": "Carol keeps the export."}).raise_for_status()
            client.post("/api/v1/main/search", json={"query": "export", "bridges": 3}).raise_for_status()
            client.post("/api/v1/main/init").raise_for_status()
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()


async def _mcp() -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "memory_assets.cli", "mcp"], env=dict(os.environ))
    async with Client(server, read_timeout_seconds=60) as client:
        for name, arguments in (
            ("init", {}),
            ("store", {"content": "Dora sails."}),
            ("search", {"query": "export"}),
            ("health", {}),
        ):
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer.content


if __name__ == "__main__":
    main(Path(sys.argv[1]))
