"""Schedules of sleep cycles, Tana and backups, for every tenant concerned, in one time zone."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from memory_assets.defs.assets.cycles import ARCHIVING
from memory_assets.defs.partitions import adopt_partitions
from memory_assets.defs.resources import MemoryResource
from memory_assets.settings import Settings
from memory_assets.tana.client import find_token
from memory_assets.tenants import tenant_names

REPEATED = {
    "decay_daily": "decay",
    "creative_weekly": "creative",
    "cluster_monthly": "cluster",
    "forget_quarterly": "forget",
    "backup_regularly": "back_up",
}
"""Schedule -> job, of those whose failed runs are repeated before the next period. Tana is read hourly; a damaged backup stays so."""
_BACKUP_HOURS = {"daily": "40 3 * * *", "weekly": "40 3 * * 1"}


def why_not(job: str, settings: Settings) -> str:
    """Return why a scheduled job has no work, or an empty string."""
    if job in ("back_up", "check_backup") and not settings.backup_to:
        return "No place for backups is set; set MEMORY_BACKUP_TO."
    if job == "read_tana" and not find_token(settings):
        return "There is no token for Tana; set MEMORY_TANA_TOKEN."
    return ""


def build_schedules(zone: str, backup_every: str) -> list[dg.ScheduleDefinition]:
    """Return the schedules, with hours in the time zone of an IANA name."""
    hours = _BACKUP_HOURS[backup_every]
    backups = f"{backup_every.capitalize()}, if MEMORY_BACKUP_TO is set: a backup."
    tried = "Weekly: a backup that is restored into a scratch folder."
    read = "Hourly, if there is a token for Tana: the changes there."
    linked = "Weekly: edges between similar memories that no edge connects."
    archived = "Quarterly: archives memories of low relevance."
    return [
        _schedule(zone, "decay_daily", "decay", "10 3 * * *", "%Y-%m-%d", "Daily: every memory's relevance."),
        _schedule(zone, "creative_weekly", "creative", "10 4 * * 0", "%G-W%V", linked),
        _schedule(zone, "cluster_monthly", "cluster", "10 5 1 * *", "%Y-%m", "Monthly: clusters and their summaries."),
        _schedule(zone, "forget_quarterly", "forget", "10 6 1 1,4,7,10 *", "%Y-%m", archived, config=ARCHIVING),
        _schedule(zone, "tana_hourly", "read_tana", "25 * * * *", "%Y-%m-%dT%H%z", read, is_of_sources=True),
        _schedule(zone, "backup_regularly", "back_up", hours, "%Y-%m-%d", backups),
        _schedule(zone, "backup_check_weekly", "check_backup", "40 4 * * 0", "%Y-%m-%d", tried),
    ]


def _schedule(
    zone: str,
    name: str,
    job: str,
    cron: str,
    period: str,
    description: str,
    *,
    config: Mapping[str, Any] | None = None,
    is_of_sources: bool = False,
) -> dg.ScheduleDefinition:
    """Return a schedule with one run per tenant and `period` (a `strftime` format), unless `why_not` returns why it has no work."""

    @dg.schedule(
        name=name,
        job_name=job,
        cron_schedule=cron,
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )
    def evaluate(context: dg.ScheduleEvaluationContext, memory: MemoryResource) -> dg.SkipReason | list[dg.RunRequest]:
        settings = memory.settings()
        if reason := why_not(job, settings):
            return dg.SkipReason(reason)
        moment = context.scheduled_execution_time.strftime(period)
        return [
            dg.RunRequest(f"{job}:{tenant}:{moment}", run_config=config, partition_key=tenant)
            for tenant in sorted(adopt_partitions(context.instance, tenant_names(settings)))
            if not is_of_sources or tenant == settings.tenant
        ]

    return evaluate
