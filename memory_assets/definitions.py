"""Dagster's entry point, named in workspace.yaml and pyproject.toml. Nothing is read until Dagster loads it.

`build_defs` assembles the definitions. `load_from_defs_folder` needs the project's pyproject.toml at run time, so it does not work in
an installed package.
"""

import dagster as dg

from memory_assets.defs.build import build_defs
from memory_assets.defs.resources import MemoryResource
from memory_assets.privacy import keep_private


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions over the stores that the settings name."""
    keep_private()
    return build_defs(MemoryResource())
