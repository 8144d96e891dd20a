"""Dagster notices what came in over HTTP."""

import dagster as dg

from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import stored_memories_sensor
from memory_assets_tests.api.service import TenantClient


def test_the_sensor_asks_for_a_run_of_a_new_tenant_and_of_each_store_over_http(client: TenantClient) -> None:
    data_dir = str(client.service.settings.data_dir)

    def tick(instance: dg.DagsterInstance, cursor: str | None) -> tuple[list[str | None], str | None]:
        resources = {"memory": MemoryResource(data_dir=data_dir)}
        outcome = stored_memories_sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources))
        assert isinstance(outcome, dg.SensorResult)
        return [request.partition_key for request in outcome.run_requests or []], outcome.cursor

    with dg.DagsterInstance.ephemeral() as instance:
        client.store("The first note of a new tenant.")
        asked, cursor = tick(instance, None)
        assert client.name in asked
        asked, cursor = tick(instance, cursor)
        assert asked == []
        client.store("The second note.")
        asked, cursor = tick(instance, cursor)
        assert asked == [client.name]
        first, second = (memory["id"] for memory in client.post("/recent").json()["memories"])
        client.post("/relations", {"source_id": second, "target_id": first, "type": "OCCURRED_BEFORE"})
        asked, cursor = tick(instance, cursor)
        assert asked == [client.name]
