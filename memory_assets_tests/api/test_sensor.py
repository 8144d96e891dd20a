"""Dagster notices what came in over HTTP."""

import dagster as dg

from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import stored_memories_sensor
from memory_assets_tests.api.service import TenantClient


def test_the_sensor_asks_for_a_run_of_a_new_tenant_and_of_each_store_over_http(client: TenantClient) -> None:
    data_dir = str(client.service.settings.data_dir)

    def asked(instance: dg.DagsterInstance) -> str | None:
        resources = {"memory": MemoryResource(data_dir=data_dir)}
        with dg.build_sensor_context(instance=instance, resources=resources) as context:
            outcome = stored_memories_sensor(context)
        assert isinstance(outcome, dg.SensorResult)
        return next((each.run_key for each in outcome.run_requests or [] if each.partition_key == client.name), None)

    with dg.DagsterInstance.ephemeral() as instance:
        client.store("The first note of a new tenant.")
        keys = {asked(instance)}
        client.store("The second note.")
        keys.add(asked(instance))
        first, second = (memory["id"] for memory in client.post("/recent").json()["memories"])
        client.post("/relations", {"source_id": second, "target_id": first, "type": "OCCURRED_BEFORE"})
        keys.add(asked(instance))
        assert asked(instance) in keys
    assert None not in keys
    assert len(keys) == 3
