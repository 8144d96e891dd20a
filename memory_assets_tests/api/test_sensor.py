"""Dagster notices memories stored over HTTP."""

from pathlib import Path

import dagster as dg

from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors
from memory_assets_tests.api.service import Service


def test_the_sensor_asks_for_a_run_of_a_new_tenant_and_of_each_store_over_http(tmp_path: Path) -> None:
    with Service(tmp_path) as service, dg.DagsterInstance.ephemeral() as instance:
        memory = MemoryResource(data_dir=str(service.settings.data_dir))

        def asked() -> str | None:
            (sensor,) = (each for each in build_sensors(memory) if each.name == "stored_memories_sensor")
            with dg.build_sensor_context(instance=instance) as context:
                outcome = sensor(context)
            assert isinstance(outcome, dg.SensorResult)
            (request,) = outcome.run_requests or []
            assert request.partition_key == "claude"
            return request.run_key

        client = service.new_tenant("claude")
        client.store("The first note of a new tenant.")
        keys = {asked()}
        client.store("The second note.")
        keys.add(asked())
        first, second = (memory["id"] for memory in client.post("/recent").json()["memories"])
        client.post("/relations", {"source_id": second, "target_id": first, "type": "OCCURRED_BEFORE"})
        keys.add(asked())
        assert asked() in keys
    assert None not in keys
    assert len(keys) == 3
