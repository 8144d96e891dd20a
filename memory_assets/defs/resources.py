"""What assets, checks and sensors use: a tenant's stores, opened from the settings of the process.

Belongs here: resources. Paths, keys and weights belong to `memory_assets.settings`.
"""

import dagster as dg

from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant


class MemoryResource(dg.ConfigurableResource):
    """Opens tenants; a field that is set wins over the environment and `memory.toml`."""

    data_dir: str | None = None
    tenant: str | None = None

    def settings(self) -> Settings:
        """The settings that hold now."""
        return load_settings(data_dir=self.data_dir, tenant=self.tenant)

    def open(self, tenant: str) -> Tenant:
        """One tenant's stores and language tools."""
        return Tenant(self.settings(), tenant)
