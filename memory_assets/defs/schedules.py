"""Schedules: the sleep cycles at their hours, for every tenant that exists, in one time zone."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from memory_assets.defs.assets.cycles import ARCHIVING
from memory_assets.defs.jobs import cluster, creative, decay, forget, read_tana
from memory_assets.defs.partitions import tenants_of
from memory_assets.defs.resources import MemoryResource
from memory_assets.tana.client import token_of

_CYCLES: tuple[tuple[str, Any, str, str, str, Mapping[str, Any]], ...] = (
    ("decay_daily", decay, "10 3 * * *", "%Y-%m-%d", "Daily: every memory's relevance.", {}),
    ("creative_weekly", creative, "10 4 * * 0", "%G-W%V", "Weekly: edges between what is alike and was never connected.", {}),
    ("cluster_monthly", cluster, "10 5 1 * *", "%Y-%m", "Monthly: clusters and their summaries.", {}),
    ("forget_quarterly", forget, "10 6 1 1,4,7,10 *", "%Y-%m", "Quarterly: archives what no longer matters.", ARCHIVING),
)
"""Name, job, cron, the period in the run key (one run a tenant and period), description, run configuration."""


def build_schedules(zone: str) -> list[dg.ScheduleDefinition]:
    """The schedules, each at its hour in the time zone of that IANA name."""
    return [*(_schedule(zone, *cycle) for cycle in _CYCLES), _tana_hourly(zone)]


def _tana_hourly(zone: str) -> dg.ScheduleDefinition:
    """Asks for a reading of Tana into the tenant of the settings, whose token it is."""

    @dg.schedule(
        name="tana_hourly",
        job=read_tana,
        cron_schedule="25 * * * *",
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Hourly, where there is a token for Tana: what changed there.",
    )
    def evaluate(context: dg.ScheduleEvaluationContext, memory: MemoryResource) -> dg.SkipReason | dg.RunRequest:
        settings = memory.settings()
        if settings.tenant not in tenants_of(context.instance, settings):
            return dg.SkipReason(f"There is no tenant {settings.tenant!r} yet; `memory run` makes it.")
        if not token_of(settings):
            return dg.SkipReason("There is no token for Tana; set MEMORY_TANA_TOKEN.")
        return dg.RunRequest(f"read_tana:{context.scheduled_execution_time:%Y-%m-%dT%H}", partition_key=settings.tenant)

    return evaluate


def _schedule(
    zone: str, name: str, job: Any, cron: str, period: str, description: str, config: Mapping[str, Any]
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
    def evaluate(context: dg.ScheduleEvaluationContext, memory: MemoryResource) -> list[dg.RunRequest]:
        moment = context.scheduled_execution_time.strftime(period)
        return [
            dg.RunRequest(f"{job.name}:{tenant}:{moment}", run_config=config, partition_key=tenant)
            for tenant in tenants_of(context.instance, memory.settings())
        ]

    return evaluate
