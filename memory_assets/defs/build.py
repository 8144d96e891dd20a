"""Assembles the Definitions from a resource."""

import dagster as dg

from memory_assets.defs import assets
from memory_assets.defs.assets import keeping
from memory_assets.defs.checks import build_checks
from memory_assets.defs.jobs import JOBS
from memory_assets.defs.resources import MemoryResource
from memory_assets.defs.schedules import build_schedules
from memory_assets.defs.sensors import SENSORS
from memory_assets.language.times import display_zone


def build_defs(memory: MemoryResource) -> dg.Definitions:
    """Everything that Dagster knows, over the stores that `memory` opens; the hours are in the time zone of its settings.

    Raises:
        SettingsError: a setting cannot be used.
    """
    settings = memory.settings()
    zone = display_zone(None, configured=settings.timezone, geoip_url=settings.geoip_url)
    return dg.Definitions(
        assets=dg.load_assets_from_package_module(assets, include_specs=True),
        asset_checks=[*build_checks(), keeping.newest_backup_restores],
        jobs=JOBS,
        schedules=build_schedules(zone.key, settings.backup_every),
        sensors=SENSORS,
        resources={"memory": memory},
        executor=dg.in_process_executor,
    )
