"""MCP over the service: the same tools as over standard input, opened by the tenant's key."""

import asyncio
import json
import time
from copy import copy
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import Request
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memory_assets.api import pool as pool_module
from memory_assets.api.middleware import Metrics
from memory_assets.api.pool import TenantPool
from memory_assets.api.routes import mcp as answer
from memory_assets.language.embedders.protocol import EmbedderAwayError
from memory_assets.settings import Settings
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.api.service import TenantClient


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_the_sdks_client_stores_and_finds_with_the_tenants_key(client: TenantClient, mode: str) -> None:
    client.store("Bob of Borealis pays the bills.", project="/srv/borealis")

    async def talk() -> list[str]:
        texts: list[str] = []
        headers = {"X-API-Key": client.key, "X-Memory-Project": "/srv/atlas/"}
        async with (
            httpx2_client(headers) as http,
            Client(streamable_http_client(f"{client.http.base_url}mcp", http_client=http), mode=mode) as session,
        ):
            for name, arguments in (("store", {"content": "Alice sails."}), ("search", {"query": "who", "limit": 5})):
                answer = await session.call_tool(name, arguments)
                texts.append("\n".join(getattr(part, "text", "") for part in answer.content))
        return texts

    stored, found = asyncio.run(talk())
    assert stored.startswith("Stored ")
    assert "Alice sails." in found
    assert "Bob" not in found
    newest = client.post("/recent").json()["memories"][0]
    assert (newest["source"], newest["project"]) == ("mcp", "/srv/atlas")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_projects_folder_is_called_as_it_is_however_the_client_writes_headers(client: TenantClient, encoding: str) -> None:
    call = {"name": "store", "arguments": {"content": f"Alice sails ({encoding})."}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    client.http.post("/mcp", json=message, headers={b"X-Memory-Project": "/srv/Müller".encode(encoding)})
    assert client.post("/recent").json()["memories"][0]["project"] == "/srv/Müller"


def httpx2_client(headers: dict[str, str]) -> Any:
    """The SDK's kind of HTTP client."""
    from mcp.shared._httpx_utils import create_mcp_http_client

    return create_mcp_http_client(headers=headers)


def test_what_is_no_message_of_the_tenant_is_refused(client: TenantClient) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert client.post("/mcp", ping).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert client.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    assert client.post("/mcp", [ping]).json()["error"]["code"] == -32600
    assert client.http.post("/mcp", content=b"{").json()["error"]["code"] == -32700
    surrogate = client.http.post("/mcp", content=rb'{"jsonrpc": "2.0", "id": "\ud800", "method": "\udc80"}')
    assert (surrogate.status_code, surrogate.json()["id"]) == (200, "\ud800")
    assert client.post("/mcp", ping, MCP_Protocol_Version="1999-01-01").status_code == 400
    assert client.post("/mcp", ping, X_Memory_Project="a\tb").status_code == 400
    assert client.http.get("/mcp").status_code == 405
    assert httpx.post(f"{client.http.base_url}mcp", json=ping, headers={"X-API-Key": "wrong"}, timeout=60).status_code == 401


def test_an_error_tells_nothing_of_where_the_machine_keeps_what(client: TenantClient) -> None:
    client.store("Alice sails.")
    client.tenant.catalog.path.write_bytes(b"nothing")
    for lens, fails in (("general", False), ("rose", True)):  # a damaged catalog is set aside
        call = {"name": "tana_context", "arguments": {"query": "Alice", "lens": lens}}
        answer = client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert answer.json()["result"]["isError"] == fails
        assert str(client.service.folder) not in answer.text


def message(method: str, **params: object) -> Request:
    """A POST of one MCP message."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


@pytest.mark.parametrize(
    ("name", "given"),
    [("search", {"query": "who"}), ("store", {"content": "Alice sails."})],
)
def test_a_hung_embedder_holds_up_no_message_that_does_not_ask_it(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, str]
) -> None:
    create_tenant(tenant)
    create_tenant(Tenant(settings, "other"))
    released = Event()

    def hang(_texts: object, _role: str = "") -> None:
        released.wait(120)
        raise EmbedderAwayError("It hung.")

    async def talk() -> None:
        pool = TenantPool(settings, Metrics())
        opened, other = await pool.get(tenant.name), await pool.get("other")
        hung = copy(Tenant(settings, tenant.name).open_embedder("auto"))  # tenants share the one of the process
        monkeypatch.setattr(hung, "embed", hang)
        opened.tenant.__dict__["embedder"] = hung
        asking = [
            asyncio.create_task(answer(message("tools/call", name=name, arguments=given), opened))
            for _ in range(settings.service_threads + 1)
        ]
        await asyncio.sleep(0.2)
        quick = [(message("tools/list"), opened), (message("tools/call", name="recent", arguments={}), opened)]
        if name != "search":
            quick.append((message("tools/call", name="search", arguments={"query": "who"}), other))
        for request, asked in quick:
            await asyncio.wait_for(answer(request, asked), 60)
            assert not any(task.done() for task in asking)
        released.set()
        await asyncio.gather(*asking)
        await pool.close(asyncio.create_task(asyncio.sleep(0)))

    asyncio.run(talk())


def test_a_service_stops_in_bounded_time_while_an_embedder_hangs(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "_TIMEOUT_SECONDS", 0.2)
    create_tenant(tenant)
    released = Event()

    def hang(_texts: object, _role: str = "") -> None:
        released.wait(120)
        raise EmbedderAwayError("It hung.")

    async def talk() -> float:
        pool = TenantPool(settings, Metrics())
        opened = await pool.get(tenant.name)
        monkeypatch.setattr(opened.tenant.embedder, "embed", hang)
        storing = message("tools/call", name="store", arguments={"content": "Alice sails."})
        task = asyncio.create_task(answer(storing, opened))
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        await pool.close(asyncio.create_task(asyncio.sleep(0)))
        took = time.monotonic() - begun
        released.set()
        await asyncio.gather(task, return_exceptions=True)
        return took

    assert asyncio.run(talk()) < 60
