"""What assets, checks and sensors use: a tenant's stores, opened from the settings of the process.

Belongs here: resources. Paths, keys and weights belong to `memory_assets.settings`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from memory_assets.defs.upkeep import shown_alive
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant


class MemoryResource(dg.ConfigurableResource):
    """Opens tenants; a field that is set wins over the environment and `memory.toml`."""

    data_dir: str | None = None
    tenant: str | None = None

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> "Iterator[MemoryResource]":
        """Serve a run: it is seen to be alive as long as its process is."""
        if context.run is None or context.instance is None:
            yield self
            return
        with shown_alive(context.instance, context.run.run_id):
            yield self

    def settings(self) -> Settings:
        """The settings that hold now."""
        return load_settings(data_dir=self.data_dir, tenant=self.tenant)

    def open(self, tenant: str) -> Tenant:
        """One tenant's stores and language tools."""
        return Tenant(self.settings(), tenant)
