"""Schedules: the sleep cycles at their hours, for every tenant, in the time zone of the settings."""

import dagster as dg

from memory_assets.defs.jobs import decay
from memory_assets.defs.partitions import tenants_of
from memory_assets.settings import load_settings


def _schedules() -> list[dg.ScheduleDefinition]:
    zone = load_settings().timezone or "UTC"

    @dg.schedule(
        job=decay,
        cron_schedule="10 3 * * *",
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Daily: recompute every memory's relevance.",
    )
    def decay_daily(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        day = context.scheduled_execution_time.strftime("%Y-%m-%d")
        return [dg.RunRequest(f"decay:{tenant}:{day}", partition_key=tenant) for tenant in tenants_of(context.instance)]

    return [decay_daily]


SCHEDULES = _schedules()
