"""The resource of assets, checks and sensors: it opens a tenant's stores from the settings of the process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dagster as dg
from pydantic import Field, PrivateAttr

from memory_assets.errors import InvalidInputError, SettingsError
from memory_assets.language.workers import Workers
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant


class MemoryResource(dg.ConfigurableResource):
    """Opens tenants; a field that is set overrides the environment and `memory.toml`."""

    data_dir: str | None = Field(default=None, description="Data folder; default: MEMORY_DATA_DIR.")
    tenant: str | None = Field(
        default=None, description="Tenant of runs without a partition, and owner of the source files; default: MEMORY_TENANT."
    )
    _opened: dict[str, Tenant] = PrivateAttr(default_factory=dict)
    """By name; shared by the steps of a run, so that each table is opened once."""
    _readers: dict[str, Workers] = PrivateAttr(default_factory=dict)
    """By tenant; each loads the pipeline in its own process before the language step begins."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> "Iterator[MemoryResource]":  # noqa: ARG002
        """Yield the resource for a run, and release its tenants and processes afterwards."""
        try:
            yield self
        finally:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()
            self._opened.clear()

    def settings(self) -> Settings:
        return load_settings(data_dir=self.data_dir, tenant=self.tenant)

    def open_for(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> Tenant:
        """Return the tenant of a step's partition, or the one of the settings if the run has no partition; all steps of a run share it.

        InvalidInputError: the run has a range of partitions. Dagster would record its results for each of them.
        NotFoundError: the tenant does not exist. A run makes none: the tenant may have been deleted since the run was requested.
        """
        has_range = context.has_partition_key_range and not context.has_partition_key
        if has_range and context.partition_key_range.start != context.partition_key_range.end:
            raise InvalidInputError('A run works on one tenant; launch it again with "Multiple runs".')
        name = context.partition_key if has_range or context.has_partition_key else self.settings().tenant
        if name not in self._opened:
            tenant = Tenant(self.settings(), name)
            tenant.must_exist()
            self._opened[name] = tenant
        return self._opened[name]

    def prepare_reader(self, tenant: Tenant) -> None:
        """Start to load the pipeline in another process for the language step, which reports any fault of it."""
        if (os.cpu_count() or 1) == 1:
            return
        with suppress(SettingsError):
            if tenant.name not in self._readers and not tenant.analyzer.is_loaded:
                self._readers[tenant.name] = Workers(tenant.analyzer)

    def reader(self, tenant: Tenant) -> Workers | None:
        """Return the process with the pipeline for this run's language step, or None once the step has used it."""
        reader = self._readers.get(tenant.name)
        return None if reader and reader.closed else reader
