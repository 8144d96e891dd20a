"""The entry point that workspace.yaml and pyproject.toml name. Nothing is read until Dagster loads it.

Assembled by `build_defs` rather than by `load_from_defs_folder`, which needs the project's pyproject.toml at run time and so
would not load from an installed package.
"""

import dagster as dg

from memory_assets.defs.build import build_defs
from memory_assets.defs.resources import MemoryResource
from memory_assets.privacy import keep_private


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions over the stores of the settings."""
    keep_private()
    return build_defs(MemoryResource())
