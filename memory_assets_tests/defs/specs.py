"""Dagster's definitions as reviewable text: `python -m memory_assets_tests.defs.specs` rewrites `specs.txt`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import dagster as dg

from memory_assets.defs.build import build_defs
from memory_assets.defs.resources import MemoryResource

SNAPSHOT = Path(__file__).with_name("specs.txt")


def specs() -> Iterator[str]:
    """Yield one line per asset, check, job, schedule and sensor."""
    defs = build_defs(MemoryResource())
    graph = defs.resolve_asset_graph()
    for spec in sorted(defs.resolve_all_asset_specs(), key=lambda spec: (spec.group_name, spec.key)):
        node = graph.get(spec.key)
        parts = {
            "from": _names(dep.asset_key for dep in spec.deps),
            "kinds": ",".join(sorted(spec.kinds)),
            "version": "yes" if spec.code_version else "",
            "pools": ",".join(sorted(node.pools or ())),
            "fresh": "yes" if spec.freshness_policy else "",
            "by": "" if spec.partitions_def is None else getattr(spec.partitions_def, "name", "?"),
            "metadata": ",".join(sorted(spec.metadata)),
        }
        told = "; ".join(f"{name} {value}" for name, value in parts.items() if value)
        yield f"{'asset' if node.is_executable else 'external'} {spec.group_name}/{spec.key.to_user_string()}: {told}"
    for check in sorted(graph.asset_check_keys):
        spec = graph.get_check_spec(check)
        yield f"check {check.asset_key.to_user_string()}/{check.name}{': blocks' if spec.blocking else ''}"
    for job in sorted(defs.resolve_all_job_defs(), key=lambda job: job.name):
        if not job.name.startswith("__"):
            yield f"job {job.name}: {_names(job.asset_layer.executable_asset_keys)}"
    for each in sorted(defs.schedules or [], key=lambda each: each.name):
        assert isinstance(each, dg.ScheduleDefinition)
        yield f"schedule {each.name}: {each.cron_schedule} {each.job_name} {each.default_status.value}"
    for each in sorted(defs.sensors or [], key=lambda each: each.name):
        job = ",".join(target.job_name for target in each.targets) or "no job"
        yield f"sensor {each.name}: {each.minimum_interval_seconds} s {job} {each.default_status.value}"


def _names(keys: Iterable[dg.AssetKey]) -> str:
    return ",".join(sorted(key.to_user_string() for key in keys))


if __name__ == "__main__":
    SNAPSHOT.write_text("".join(f"{line}\n" for line in specs()), encoding="utf-8")
