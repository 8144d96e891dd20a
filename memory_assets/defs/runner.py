"""Runs the `remember` job in this process, for `memory run`, and tells what each step did."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any

import dagster as dg

from memory_assets.definitions import defs
from memory_assets.defs.partitions import PARTITION_SET
from memory_assets.defs.resources import MemoryResource
from memory_assets.errors import MemoryAssetsError
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.files import replace_file
from memory_assets.tenants import Tenant

INSTANCE_CONFIG = """\
# Dagster's own bookkeeping for memory_assets; edit freely, it is written only if it is missing.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 1
run_monitoring:
  enabled: true
  free_slots_after_run_end_seconds: 60
retention:
  sensor:
    purge_after_days: 7
  schedule:
    purge_after_days: 90
"""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one asset's materialisation reported."""

    asset: str
    metadata: dict[str, Any]


OnMessage = Callable[[str, str], None]
"""Told (asset, message) when a step starts and whenever it says how far it is."""
OnReport = Callable[[StepReport], None]
"""Told when an asset has been materialised."""


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of `DAGSTER_HOME`, or the one in the data folder, set up at its first use."""
    home = Path(environ.get("DAGSTER_HOME") or settings.data_dir / "dagster").absolute()
    if not (home / "dagster.yaml").exists():
        replace_file(home / "dagster.yaml", INSTANCE_CONFIG)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def run_remember(tenant: Tenant, on_message: OnMessage, on_report: OnReport) -> None:
    """Materialise everything from the sources to the scores for one tenant.

    Raises:
        MemoryAssetsError: a step failed; what the steps before it wrote stays, and the next run goes on from there.
    """
    listening = dg.Definitions.merge(defs, dg.Definitions(loggers={"console": _listener(on_message, on_report)}))
    memory = MemoryResource(data_dir=str(tenant.settings.data_dir), tenant=tenant.settings.tenant)
    with dagster_instance(tenant.settings) as instance:
        instance.add_dynamic_partitions(PARTITION_SET, [tenant.name])
        result = listening.resolve_job_def("remember").execute_in_process(
            instance=instance,
            partition_key=tenant.name,
            raise_on_error=False,
            run_config={"loggers": {"console": {}}},
            resources={"memory": memory},
        )
    for event in result.all_events:
        if event.is_step_failure:
            raise MemoryAssetsError(f"The step {event.step_key} failed: {_cause(event.step_failure_data.error)}")


def _cause(error: Any) -> str:
    """The sentence of the project's own error in a chain, or else the innermost one."""
    while error.cause and not error.message.startswith("memory_assets."):
        error = error.cause
    return error.message.strip().partition(": ")[2] or error.message.strip()


def _listener(on_message: OnMessage, on_report: OnReport) -> dg.LoggerDefinition:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meta = getattr(record, "dagster_meta", {})
            event = meta.get("dagster_event")
            if event is None:
                if meta.get("step_key"):
                    on_message(meta["step_key"], meta["orig_message"])
            elif event.is_step_start:
                on_message(event.step_key, "started")
            elif event.is_step_materialization:
                metadata = event.materialization.metadata
                on_report(StepReport(event.asset_key.to_user_string(), {name: v.value for name, v in metadata.items()}))

    def console(_context: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("memory_run")
        logger.addHandler(Handler())
        return logger

    return dg.LoggerDefinition(console, description="Tells the command line what is going on.")


def main() -> None:
    """Set up the Dagster instance of the settings, so that the webserver and the daemon find their configuration."""
    with dagster_instance(load_settings()) as instance:
        print(f"Dagster instance: {instance.root_directory}")  # noqa: T201


if __name__ == "__main__":
    main()
