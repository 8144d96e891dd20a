import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from click.testing import CliRunner

from memory_assets.cli.main import cli
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors
from memory_assets.mcp.protocol import Server
from memory_assets.mcp.tools import Session
from memory_assets.settings import load_settings
from memory_assets.tana.sync import sync
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.defs.conftest import run
from memory_assets_tests.tana.seeds import learning, write_seed
from memory_assets_tests.tana.stand_in import StandIn


@pytest.fixture
def instance() -> dg.DagsterInstance:
    made = dg.DagsterInstance.ephemeral()
    made.add_dynamic_partitions(PARTITION_SET, ["main"])
    return made


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | None:
    (sensor,) = [each for each in build_sensors(MemoryResource()) if each.name == "tana_sensor"]
    with dg.build_sensor_context(instance=instance) as context:
        outcome = sensor(context)
    requests = outcome.run_requests if isinstance(outcome, dg.SensorResult) else None
    return requests[0] if requests else None


def test_the_sensor_waits_for_tana_and_its_run_drains_the_queue(
    tana: StandIn, tenant: Tenant, instance: dg.DagsterInstance
) -> None:
    create_tenant(tenant)
    tana.add_node("Atlas", tana.add_tag("project"))
    write_seed(tenant.settings.pai_seed, [learning("pat_0001", "Atlas migrations run at night")])
    assert tick(instance) is None, "nobody asked for a sync"
    tana.stop()
    sync(tenant)
    assert tick(instance) is None, "Tana is away"
    tana.start()
    request = tick(instance)
    assert request and request.partition_key == "main"
    result = run(instance, "mirror_tana", tags=request.tags)
    assert result.success and len(tana.live("pai_learning")) == 1
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
    assert tick(instance) is None
    writes = tana.writes
    twin = tana.add_node(
        "Atlas migrations run at night", *tana.live("pai_learning")[0].tags, parent=tana.live("pai_learning")[0].parent
    )
    twin.tuples = tana.live("pai_learning")[0].tuples
    again = run(instance, "mirror_tana")
    assert tana.writes == writes and [check.passed for check in again.get_asset_check_evaluations()] == [False]
    tana.stop()
    assert not run(instance, "mirror_tana").success


def test_with_auto_sync_a_changed_seed_is_enough(tana: StandIn, tenant: Tenant, instance: dg.DagsterInstance) -> None:
    create_tenant(tenant)
    on = {"enabled": True, "autoSync": True}
    write_seed(tenant.settings.pai_seed, [learning("pat_0001", "Atlas migrations run at night")], tanaIntegration=on)
    assert tick(instance)
    write_seed(tenant.settings.pai_seed, [learning("pat_0001", "Atlas")], tanaIntegration={"enabled": False, "autoSync": True})
    assert tick(instance) is None
    tenant.settings.pai_seed.write_text("{", encoding="utf-8")
    assert tick(instance) is None


def test_what_is_alive_in_tana_does_not_fade_here(tana: StandIn, tenant: Tenant, instance: dg.DagsterInstance) -> None:
    tana.add_node("Atlas", tana.add_tag("project"))
    old = (datetime.now(UTC) - timedelta(days=400)).isoformat()
    write_seed(
        tenant.settings.pai_seed,
        [learning("pat_0001", "Atlas migrations run at night", old), learning("pat_0002", "Reads mail at noon", old)],
    )
    assert run(instance).success
    sync(tenant)
    later = datetime.now(UTC) + timedelta(days=60)
    from memory_assets.graph.relevance import decay_cycle
    from memory_assets.tana.freshness import store_activity
    from memory_assets.tana.state import Activity

    known = Activity.load(tenant.folder)
    lively = {node.id: replace(node, active_at=later) for node in known.nodes.values()}
    replace(known, nodes=lively).save(tenant.folder)
    assert store_activity(tenant) == 1
    decay_cycle(tenant, later)
    with tenant.catalog.read() as connection:
        rows = connection.execute(
            "SELECT source_key, relevance, fresh_because FROM relevance_scores JOIN scored_memories USING (id) ORDER BY source_key"
        ).fetchall()
    (alive, alive_score, because), (_, other_score, _) = rows
    assert alive == "pai_seed:pat_0001" and "Atlas" in because and alive_score > other_score * 1.5


def test_the_tools_answer_with_what_the_commands_print(tana: StandIn, tenant: Tenant) -> None:
    tana.add_node("Atlas", tana.add_tag("project"))
    write_seed(load_settings().pai_seed, [learning("pat_0001", "Atlas migrations run at night")])
    server = Server(Session(tenant, None))

    def call(tool: str, **arguments: object) -> dict:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = server.answer(message)
        assert answer and not answer["result"].get("isError"), answer
        return json.loads(answer["result"]["content"][0]["text"])

    planned = call("tana_pai_sync", dryRun=True)
    assert planned["created"] == 1 and tana.writes == 0
    done = call("tana_pai_sync")
    (entry,) = done["entries"]
    assert entry["action"] == "created" and entry["entityLinks"][0]["entityName"] == "Atlas" and done["lastSync"]
    for tool, arguments, command in (
        ("tana_pai_context", {"topic": "atlas"}, ["context", "atlas", "--json"]),
        ("tana_pai_freshness", {"threshold": 30}, ["freshness", "--threshold", "30", "--json"]),
    ):
        said, printed = call(tool, **arguments), json.loads(CliRunner().invoke(cli, ["pai", *command]).stdout)
        assert json.dumps(said)[:100] == json.dumps(printed)[:100]


def test_the_tools_are_offered_only_where_they_can_do_something(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered() -> set[str]:
        server = Server(Session(Tenant(load_settings()), None))
        answer = server.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert answer
        return {tool["name"] for tool in answer["result"]["tools"]}

    assert "tana_pai_sync" not in offered()
    monkeypatch.setenv("MEMORY_TANA_TOKEN", "secret")
    write_seed(tenant.settings.pai_seed, [])
    assert {"tana_pai_sync", "tana_pai_context", "tana_pai_freshness"} <= offered()
    write_seed(tenant.settings.pai_seed, [], tanaIntegration={"enabled": False})
    assert "tana_pai_sync" not in offered()
