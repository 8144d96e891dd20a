"""seed.json and Tana belong to the configured tenant: no other tenant's key, tool or run reads them."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from memory_assets.api.app import create_app
from memory_assets.defs.assets.tana import _why_unused
from memory_assets.errors import InvalidInputError
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import DAILY, PAI, Session
from memory_assets.operations.pai import pai_people, pai_sync, read_tana, schema_init
from memory_assets.operations.pai_context import pai_context, pai_freshness, pai_session_start
from memory_assets.settings import load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tana.activity import read_tana_activity
from memory_assets.tana.changes import SyncOptions
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.tana.seeds import learning, write_seed
from memory_assets_tests.tana.stand_in import StandIn


@pytest.fixture
def other(tana: StandIn) -> Tenant:
    """A tenant other than the one that owns the configured seed.json and Tana."""
    settings = load_settings()
    write_seed(settings.pai_seed, [learning("pat_0001", "Atlas migrations run at night")])
    return Tenant(settings, "team")


@pytest.mark.parametrize(
    "ask",
    [
        lambda tenant: pai_context(tenant, "Atlas"),
        pai_freshness,
        pai_session_start,
        pai_people,
        schema_init,
        read_tana,
        read_tana_activity,
        lambda tenant: pai_sync(tenant, SyncOptions()),
    ],
)
def test_another_tenant_is_refused_before_anything_is_read(ask: Callable[[Tenant], object], other: Tenant, tana: StandIn) -> None:
    with pytest.raises(InvalidInputError, match="belong to the tenant 'main'"):
        ask(other)
    assert not tana.requests
    assert not other.folder.exists()


@pytest.mark.parametrize("all_tools", [True, False])
def test_another_tenant_is_not_offered_the_tools(other: Tenant, all_tools: bool) -> None:
    settings = other.settings.model_copy(update={"mcp_tools": "all" if all_tools else "daily"})
    names = {tool.name for tool in PAI}
    for name, offered in (("main", names), (other.name, set())):
        server = Server(Session(Tenant(settings, name), None))
        listed = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert listed and {tool["name"] for tool in listed["result"]["tools"]} & names == offered


def test_a_configuration_that_cannot_be_used_takes_no_other_tool_away(tana: StandIn) -> None:
    mine = Tenant(load_settings())
    write_seed(mine.settings.pai_seed, [learning("pat_0001", "Atlas migrations run at night")], tanaIntegration="on")
    server = Server(Session(mine, None))
    listed = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert listed and [tool["name"] for tool in listed["result"]["tools"]] == [tool.name for tool in DAILY]
    write_seed(mine.settings.pai_seed, [learning("pat_0001", "Atlas")], tanaIntegration={"enabled": True})
    listed = Server(Session(mine, None)).answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert listed and len(listed["result"]["tools"]) == len(DAILY) + len(PAI)


def test_a_run_for_another_tenant_leaves_tana_alone(other: Tenant) -> None:
    assert _why_unused(other) == "Tana belongs to the tenant 'main'."
    assert _why_unused(Tenant(other.settings)) == ""


@pytest.mark.parametrize("over_http", [True, False])
def test_a_file_of_the_machine_is_named_by_who_sits_at_it_alone(tana: StandIn, over_http: bool) -> None:
    mine = Tenant(load_settings(mcp_tools="all"))
    create_tenant(mine)
    elsewhere = mine.settings.data_dir / "other" / "seed.json"
    write_seed(elsewhere, [learning("pat_0001", "The alarm code of the vault")])
    arguments = {"seedPath": str(elsewhere), "dryRun": True}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tana_pai_sync", "arguments": arguments}}
    if over_http:
        key = KeyStore(mine.state).create()[1]
        with TestClient(create_app(mine.settings), base_url="http://127.0.0.1") as http:
            answered = http.post("/api/v1/main/mcp", json=call, headers={"X-API-Key": key}).json()
        assert answered["result"]["isError"]
        assert "MEMORY_PAI_SEED" in answered["result"]["content"][0]["text"]
        assert not tana.requests
    else:
        answered = Server(Session(Tenant(mine.settings.model_copy(update={"mcp_tools": "all"})), None)).answer(call)
        assert answered and '"pat_0001"' in answered["result"]["content"][0]["text"]
