"""The resource of assets, checks and sensors: a tenant's stores, opened from the settings of the process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from memory_assets.errors import SettingsError
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.language.workers import Workers


class MemoryResource(dg.ConfigurableResource):
    """Opens tenants; a field that is set wins over the environment and `memory.toml`."""

    data_dir: str | None = Field(default=None, description="Data folder; default: MEMORY_DATA_DIR.")
    tenant: str | None = Field(
        default=None, description="Tenant of runs without a partition, and owner of the source files; default: MEMORY_TENANT."
    )
    _opened: dict[str, Tenant] = PrivateAttr(default_factory=dict)
    """By name; the steps of a run share them, so that each table is opened once."""
    _readers: "dict[str, Workers]" = PrivateAttr(default_factory=dict)
    """By tenant; each loads the pipeline in a process of its own before the language step begins."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> "Iterator[MemoryResource]":  # noqa: ARG002
        """Serve a run."""
        try:
            yield self
        finally:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()
            self._opened.clear()

    def settings(self) -> Settings:
        """The settings that hold now."""
        return load_settings(data_dir=self.data_dir, tenant=self.tenant)

    def open(self, tenant: str) -> Tenant:
        """One tenant's stores and language tools, the same ones for all steps of a run."""
        if tenant not in self._opened:
            self._opened[tenant] = Tenant(self.settings(), tenant)
        return self._opened[tenant]

    def open_for(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> Tenant:
        """The tenant whose partition a step runs for; that of the settings if the run was started without a partition."""
        return self.open(context.partition_key if context.has_partition_key else self.settings().tenant)

    def prepare_reader(self, tenant: Tenant) -> None:
        """Load the pipeline in another process until the language step needs it. That step reports what is wrong with it."""
        if (os.cpu_count() or 1) == 1:
            return
        from memory_assets.language.workers import Workers

        with suppress(SettingsError):
            if tenant.name not in self._readers and not tenant.analyzer.is_loaded:
                self._readers[tenant.name] = Workers(tenant.analyzer)

    def reader(self, tenant: Tenant) -> "Workers | None":
        """The process that has loaded the pipeline for this run's language step; None after the step has used it."""
        reader = self._readers.get(tenant.name)
        return None if reader and reader.closed else reader
