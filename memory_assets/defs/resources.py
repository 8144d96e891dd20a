"""What assets, checks and sensors use: a tenant's stores, opened from the settings of the process.

Belongs here: resources. Paths, keys and weights belong to `memory_assets.settings`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import PrivateAttr

from memory_assets.defs.settled import Settling
from memory_assets.defs.upkeep import shown_alive
from memory_assets.errors import SettingsError
from memory_assets.settings import Settings, load_settings
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.ingest.ahead import AheadEmbedder
    from memory_assets.language.embedders import Embedder
    from memory_assets.language.workers import Workers


class MemoryResource(dg.ConfigurableResource):
    """Opens tenants; a field that is set wins over the environment and `memory.toml`."""

    data_dir: str | None = None
    tenant: str | None = None
    _opened: dict[str, Tenant] = PrivateAttr(default_factory=dict)
    """By name: what the steps of a run share, so that each table is opened once."""
    _settling: dict[str, Settling] = PrivateAttr(default_factory=dict)
    """By tenant: what a run found settled."""
    _ahead: "dict[str, AheadEmbedder]" = PrivateAttr(default_factory=dict)
    """By tenant: what embeds for a run while its language step works."""
    _readers: "dict[str, Workers]" = PrivateAttr(default_factory=dict)
    """By tenant: what loads the pipeline in a process of its own while the steps before the language step work."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> "Iterator[MemoryResource]":
        """Serve a run: it is seen to be alive as long as its process is."""
        if context.run is None or context.instance is None:
            yield self
            return
        with shown_alive(context.instance, context.run.run_id):
            try:
                yield self
                for settling in self._settling.values():
                    settling.close()
            finally:
                self._settling.clear()
                for embedder in self._ahead.values():
                    embedder.stop()
                for reader in self._readers.values():
                    reader.close()
                self._ahead.clear()
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

    def settling(self, tenant: Tenant) -> Settling:
        """What this run finds settled, and leaves so."""
        if tenant.name not in self._settling:
            self._settling[tenant.name] = Settling(tenant, lambda: self._prepare_reader(tenant))
        return self._settling[tenant.name]

    def _prepare_reader(self, tenant: Tenant) -> None:
        """Have the pipeline loaded by the time the language step is reached, where there is a core to spare.

        That step tells what is wrong with it.
        """
        if (os.cpu_count() or 1) == 1:
            return
        from memory_assets.language.workers import Workers

        with suppress(SettingsError):
            if not tenant.analyzer.is_loaded:
                self._readers[tenant.name] = Workers(tenant.analyzer)

    def reader(self, tenant: Tenant) -> "Workers | None":
        """What has loaded the pipeline for this run's language step, until that has used it."""
        reader = self._readers.get(tenant.name)
        return None if reader and reader.closed else reader

    def embed_ahead(self, tenant: Tenant, texts: Sequence[str]) -> None:
        """Begin to embed what this run's language step is about to read; a step of another process does without."""
        from memory_assets.ingest.ahead import AheadEmbedder
        from memory_assets.language.embedders import spec_to_move_to

        if not spec_to_move_to(tenant.settings.embedder, tenant.memories.columns.embedder):
            self._ahead[tenant.name] = AheadEmbedder(lambda: tenant.embedder, texts)

    def embedder(self, tenant: Tenant) -> "Embedder":
        """What embeds for this run.

        Raises:
            EmbedderError: it cannot be opened.
        """
        ahead = self._ahead.get(tenant.name)
        return ahead if ahead and ahead.name == tenant.embedder.name else tenant.embedder
