"""Dagster notices what came in over HTTP."""

import dagster as dg

from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors
from memory_assets_tests.api.service import TenantClient

_MOST_TICKS = 50
"""A tick looks at tenants for half a second; the service of the other tests has many."""


def test_the_sensor_asks_for_a_run_of_a_new_tenant_and_of_each_store_over_http(client: TenantClient) -> None:
    data_dir = str(client.service.settings.data_dir)

    def asked(instance: dg.DagsterInstance) -> str | None:
        (sensor,) = (each for each in build_sensors(MemoryResource(data_dir=data_dir)) if each.name == "stored_memories_sensor")
        cursor = None
        for _ in range(_MOST_TICKS):
            with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
                outcome = sensor(context)
            assert isinstance(outcome, dg.SensorResult)
            for each in outcome.run_requests or []:
                if each.partition_key == client.name:
                    return each.run_key
            cursor = outcome.cursor
        return None

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
