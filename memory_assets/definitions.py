"""The one Dagster `Definitions` object, which workspace.yaml and pyproject.toml name.

Assembled by hand rather than by `load_from_defs_folder`, which needs the project's pyproject.toml at run time and so would
not load from an installed package.
"""

import dagster as dg

from memory_assets.defs import assets, checks, jobs, schedules, sensors
from memory_assets.defs.resources import MemoryResource
from memory_assets.privacy import keep_private

keep_private()
defs = dg.Definitions(
    assets=dg.load_assets_from_package_module(assets, include_specs=True),
    asset_checks=dg.load_asset_checks_from_modules([checks]),
    jobs=jobs.JOBS,
    schedules=schedules.SCHEDULES,
    sensors=sensors.SENSORS,
    resources={"memory": MemoryResource()},
    executor=dg.in_process_executor,
)
