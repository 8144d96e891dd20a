"""Time a tick of the sensors: `python benchmarks/ticks.py [--files N] [--tenants N]`.

Makes N short silo files and N tenants of one memory each, then prints the seconds and processor seconds of a tick of each sensor: the
first of a new instance, and an idle one. Next to them are the same figures for automation conditions over as many partitions of the
same lineage, the alternative that docs/decisions discusses.
"""

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from main_job import make_home

from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.sensors import build_sensors
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.settings import load_settings
from memory_assets.tenants import Tenant

LINEAGE = {
    "silo_files": [],
    "seed_entries": [],
    "learning_entries": [],
    "memory_entries": ["silo_files", "seed_entries", "learning_entries"],
    "extracted_features": ["memory_entries"],
    "memories": ["extracted_features"],
    "graph_edges": ["memories", "stored_memories"],
    "relevance_scores": ["graph_edges"],
}


def timed(label: str, call: Callable[[], object]) -> None:
    wall, processor = time.perf_counter(), time.process_time()
    call()
    print(f"{label:<44}{time.perf_counter() - wall:>8.2f} s{time.process_time() - processor:>8.2f} s processor")


def make_tenants(count: int) -> None:
    first = Tenant(load_settings(), "tenant0000")
    store(first, NewMemory("Alice debugged the DuckDB lock in Atlas.", Source.CLI))
    for number in range(1, count):
        shutil.copytree(first.folder, first.folder.with_name(f"tenant{number:04}"))


def tick_sensors(instance: dg.DagsterInstance) -> None:
    for sensor in build_sensors(MemoryResource()):
        cursor: list[str | None] = [None]

        def tick(sensor: dg.SensorDefinition = sensor, cursor: list[str | None] = cursor) -> None:
            with dg.build_sensor_context(instance=instance, cursor=cursor[0]) as context:
                outcome = sensor(context)
            if isinstance(outcome, dg.SensorResult):
                cursor[0] = outcome.cursor or cursor[0]

        timed(f"{sensor.name}, first", tick)
        timed(f"{sensor.name}, again", tick)


def tick_conditions(instance: dg.DagsterInstance, tenants: int) -> None:
    partitions = dg.DynamicPartitionsDefinition(name="conditions")
    instance.add_dynamic_partitions("conditions", [f"tenant{number:04}" for number in range(tenants)])

    def asset(name: str, deps: list[str]) -> dg.AssetsDefinition:
        @dg.asset(name=name, deps=deps, partitions_def=partitions, automation_condition=dg.AutomationCondition.eager())
        def made() -> None: ...

        return made

    external = dg.AssetSpec("stored_memories", partitions_def=partitions)
    defs = dg.Definitions(assets=[external, *(asset(*each) for each in LINEAGE.items())])
    outcome = dg.evaluate_automation_conditions(defs, instance)
    timed("automation conditions, again", lambda: dg.evaluate_automation_conditions(defs, instance, cursor=outcome.cursor))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"HOME": folder, "MEMORY_DATA_DIR": f"{folder}/data", "MEMORY_TENANT": "tenant0000"}
        make_home(Path(folder), given.files)
        make_tenants(given.tenants)
        Path(folder, "dagster").mkdir()
        with dg.DagsterInstance.local_temp(f"{folder}/dagster") as instance:
            instance.add_dynamic_partitions(PARTITION_SET, [f"tenant{number:04}" for number in range(given.tenants)])
            tick_sensors(instance)
            tick_conditions(instance, given.tenants)


if __name__ == "__main__":
    main()
