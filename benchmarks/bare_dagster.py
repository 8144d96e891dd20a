"""Time Dagster alone: a run of as many assets and checks as the main job has, all of them empty.

`python benchmarks/bare_dagster.py HOME JSON`: HOME holds a dagster.yaml; JSON names each asset, its upstream assets and its checks.
"""

import json
import sys

import dagster as dg

TENANTS = dg.DynamicPartitionsDefinition(name="tenants")


def nothing(name: str, before: list[str]) -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=before, partitions_def=TENANTS)
    def idle() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={"dagster/partition_row_count": 0})

    return idle


def held(name: str, asset: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(name=name, asset=asset, partitions_def=TENANTS)
    def idle() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True, metadata={"faults": 0})

    return idle


def main() -> None:
    home, steps = sys.argv[1], json.loads(sys.argv[2])
    definitions = dg.Definitions(
        assets=[nothing(name, step["before"]) for name, step in steps.items()],
        asset_checks=[held(check, name) for name, step in steps.items() for check in step["checks"]],
        jobs=[dg.define_asset_job("bare", selection=dg.AssetSelection.all())],
        executor=dg.in_process_executor,
    )
    with dg.DagsterInstance.from_config(home) as instance:
        instance.add_dynamic_partitions(TENANTS.name or "", ["main"])
        assert definitions.resolve_job_def("bare").execute_in_process(instance=instance, partition_key="main").success


if __name__ == "__main__":
    main()
