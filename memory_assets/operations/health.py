"""Whether a tenant's memory works, its store and its embedder each, and how much it holds."""

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from memory_assets.operations.answers import Answer, Instant, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


_COMMIT_BYTES = 1 << 20
"""More than a commit of some memories takes."""


class Health(Answer):
    """How one tenant's memory is."""

    status: Literal["healthy", "unhealthy"]
    tenant: str
    memory_count: int = Field(description="Active memories.")
    embedding_count: int = Field(description="Those of them that have a vector.")
    oldest_memory: Instant | None
    newest_memory: Instant | None
    store_healthy: bool
    embedding_provider: str
    embedding_healthy: bool
    faults: list[str] = Field(description="What is broken, a sentence each.")

    @property
    def is_failure(self) -> bool:
        return bool(self.faults)

    def text(self, local: LocalTime) -> str:
        if self.oldest_memory and self.newest_memory:
            span = f", from {local.age(self.oldest_memory)} to {local.age(self.newest_memory)}"
        else:
            span = ""
        works = "works" if self.status == "healthy" else "does not work"
        holds = f"{counted(self.memory_count)}{span}" if self.store_healthy else "its store does not work"
        lines = [f"The memory of {self.tenant} {works}: {holds}. Embedder: {self.embedding_provider}.", *self.faults]
        return "\n".join(lines)


def disk_fault(folder: Path) -> str | None:
    """Why a folder takes nothing that is to be written, as a sentence; None if it does. Leaves nothing behind."""
    try:
        with TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, _COMMIT_BYTES)
    except OSError as error:
        return f"The disk does not take what is to be stored ({error.strerror}); make room on it."
    return None


def health(tenant: "Tenant") -> Health:
    """Look at the store and its disk, and have the embedder embed a word."""
    from memory_assets.errors import StoreError
    from memory_assets.language.embedders import EmbedderError, describe_choice
    from memory_assets.stores.filters import Filters

    count = embedded = 0
    oldest = newest = store_fault = embedder_fault = None
    try:
        if tenant.exists:
            count, embedded = tenant.memories.count(Filters()), tenant.memories.count_embedded()
            oldest, newest = (
                tenant.memories.oldest(),
                next((each.created_at for each in tenant.memories.recent(1, Filters())), None),
            )
            store_fault = disk_fault(tenant.settings.data_dir) if tenant.settings.data_dir.is_dir() else None
    except StoreError as error:
        store_fault = str(error)
    try:
        tenant.embedder.embed(["health"])
    except EmbedderError as error:
        embedder_fault = str(error)
    faults = [fault for fault in (store_fault, embedder_fault) if fault]
    return Health(
        status="unhealthy" if faults else "healthy",
        tenant=tenant.name,
        memory_count=count,
        embedding_count=embedded,
        oldest_memory=oldest,
        newest_memory=newest,
        store_healthy=not store_fault,
        embedding_provider=describe_choice(tenant.settings.embedder).name,
        embedding_healthy=not embedder_fault,
        faults=faults,
    )
