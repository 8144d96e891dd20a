"""Schedules: sleep cycles, Tana and backups at their hours, for every tenant that they concern, in one time zone."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import dagster as dg

from memory_assets.defs.assets.cycles import ARCHIVING
from memory_assets.defs.partitions import tenants_of
from memory_assets.defs.resources import MemoryResource
from memory_assets.settings import Settings
from memory_assets.tana.client import token_of

_BACKUP_HOURS = {"daily": "40 3 * * *", "weekly": "40 3 * * 1"}


def _no_place(settings: Settings) -> str:
    return "" if settings.backup_to else "No place for backups is set; set MEMORY_BACKUP_TO."


def _no_token(settings: Settings) -> str:
    return "" if token_of(settings) else "There is no token for Tana; set MEMORY_TANA_TOKEN."


class _Schedule(NamedTuple):
    name: str
    job: str
    cron: str
    period: str
    """In the run key, as for `strftime`: one run a tenant and period."""
    description: str
    config: Mapping[str, Any] = {}
    why_not: Callable[[Settings], str] = lambda _: ""
    """Why nothing is to do by the settings; empty if something is."""
    is_of_sources: bool = False
    """Whether it concerns the tenant of the settings alone."""


def build_schedules(zone: str, backup_every: str) -> list[dg.ScheduleDefinition]:
    """The schedules, each at its hour in the time zone of that IANA name."""
    hours = _BACKUP_HOURS[backup_every]
    backups = f"{backup_every.capitalize()}, where MEMORY_BACKUP_TO is set: a backup."
    tried = "Weekly: a backup that is restored into a scratch folder."
    read = "Hourly, where there is a token for Tana: what changed there."
    linked = "Weekly: edges between similar memories that none connects."
    archived = "Quarterly: archives memories of low relevance."
    return [
        _build(zone, schedule)
        for schedule in (
            _Schedule("decay_daily", "decay", "10 3 * * *", "%Y-%m-%d", "Daily: every memory's relevance."),
            _Schedule("creative_weekly", "creative", "10 4 * * 0", "%G-W%V", linked),
            _Schedule("cluster_monthly", "cluster", "10 5 1 * *", "%Y-%m", "Monthly: clusters and their summaries."),
            _Schedule("forget_quarterly", "forget", "10 6 1 1,4,7,10 *", "%Y-%m", archived, ARCHIVING),
            _Schedule("tana_hourly", "read_tana", "25 * * * *", "%Y-%m-%dT%H", read, why_not=_no_token, is_of_sources=True),
            _Schedule("backup_regularly", "back_up", hours, "%Y-%m-%d", backups, why_not=_no_place),
            _Schedule("backup_check_weekly", "check_backup", "40 4 * * 0", "%Y-%m-%d", tried, why_not=_no_place),
        )
    ]


def _build(zone: str, schedule: _Schedule) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=schedule.name,
        job_name=schedule.job,
        cron_schedule=schedule.cron,
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=schedule.description,
    )
    def evaluate(context: dg.ScheduleEvaluationContext, memory: MemoryResource) -> dg.SkipReason | list[dg.RunRequest]:
        settings = memory.settings()
        if why_not := schedule.why_not(settings):
            return dg.SkipReason(why_not)
        moment = context.scheduled_execution_time.strftime(schedule.period)
        return [
            dg.RunRequest(f"{schedule.job}:{tenant}:{moment}", run_config=schedule.config, partition_key=tenant)
            for tenant in tenants_of(context.instance, settings)
            if not schedule.is_of_sources or tenant == settings.tenant
        ]

    return evaluate
