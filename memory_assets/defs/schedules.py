"""Schedules: the sleep cycles at their hours, for every tenant, in the time zone of the settings."""

from typing import Any

import dagster as dg

from memory_assets.defs.jobs import cluster, creative, decay, forget
from memory_assets.defs.partitions import tenants_of
from memory_assets.settings import load_settings

_CYCLES = (
    ("decay_daily", decay, "10 3 * * *", "%Y-%m-%d", "Daily: every memory's relevance."),
    ("creative_weekly", creative, "10 4 * * 0", "%G-W%V", "Weekly: edges between what is alike and was never connected."),
    ("cluster_monthly", cluster, "10 5 1 * *", "%Y-%m", "Monthly: clusters and their summaries."),
    ("forget_quarterly", forget, "10 6 1 1,4,7,10 *", "%Y-%m", "Quarterly: archives what no longer matters."),
)
"""Name, job, cron, the period in the run key (one run a tenant and period), description."""


def _schedules() -> list[dg.ScheduleDefinition]:
    zone = load_settings().timezone or "UTC"
    return [_schedule(zone, *cycle) for cycle in _CYCLES]


def _schedule(zone: str, name: str, job: Any, cron: str, period: str, description: str) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
    def evaluate(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        moment = context.scheduled_execution_time.strftime(period)
        return [dg.RunRequest(f"{job.name}:{tenant}:{moment}", partition_key=tenant) for tenant in tenants_of(context.instance)]

    return evaluate


SCHEDULES = _schedules()
