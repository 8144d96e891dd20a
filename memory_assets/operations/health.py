"""Whether a tenant's memory works, its store and its embedder each, and how much it holds."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from memory_assets.operations.answers import Answer, Instant, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


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

    def text(self, local: LocalTime) -> str:
        """One line where all is well, and one more a fault."""
        if self.oldest_memory and self.newest_memory:
            span = f", from {local.age(self.oldest_memory)} to {local.age(self.newest_memory)}"
        else:
            span = ""
        works = "works" if self.status == "healthy" else "does not work"
        holds = f"{counted(self.memory_count)}{span}" if self.store_healthy else "its store cannot be read"
        lines = [f"The memory of {self.tenant} {works}: {holds}. Embedder: {self.embedding_provider}.", *self.faults]
        return "\n".join(lines)


def health(tenant: "Tenant") -> Health:
    """Look at the store, and have the embedder embed a word."""
    from memory_assets.errors import StoreError
    from memory_assets.language.embedders import EmbedderError, describe_choice
    from memory_assets.stores.filters import Filters

    count = embedded = 0
    oldest = newest = store_fault = embedder_fault = None
    try:
        if tenant.exists:
            times = tenant.memories.scan(("created_at",), Filters().sql())["created_at"].to_pylist()
            count, oldest, newest = len(times), min(times, default=None), max(times, default=None)
            embedded = count if tenant.memories.columns.live else 0
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
