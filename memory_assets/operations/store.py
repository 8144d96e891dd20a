"""Remember a text, whole or not at all, and see what it stirs up (seed 001, section 2)."""

import logging
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.errors import MemoryAssetsError
from memory_assets.models import NewMemory
from memory_assets.operations.answers import LocalTime, MemoryView, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_assets.ingest.direct import Stored
    from memory_assets.recall.splash import Ripple
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)


class RippleView(MemoryView):
    """A memory that the new one stirs up."""

    similarity: float = Field(description="How alike the two texts are, between 0.7 and 0.9.")


class StoredMemory(MemoryView):
    """The memory that was committed, and at most three that it calls to mind, the most alike first."""

    splash: list[RippleView]
    masked: list[str] = Field(description="Kinds of keys and passwords that were masked in it.")

    @classmethod
    def of(cls, stored: "Stored", splash: "Sequence[Ripple]") -> "StoredMemory":
        """The answer to a store."""
        from memory_assets.language.secrets import marks

        ripples = [RippleView(**MemoryView.fields_of(each.memory), similarity=each.similarity) for each in splash]
        return cls(**MemoryView.fields_of(stored.memory), splash=ripples, masked=marks(stored.memory.content))

    def text(self, local: LocalTime) -> str:
        """Its id, what was found in it, and what it calls to mind."""
        lines = [f"Stored {self.id}"]
        if self.masked:
            lines.append(f"  masked    {', '.join(self.masked)}: its place holds the kind alone (MEMORY_SECRETS)")
        entities = [f"{entity.text} ({entity.type})" for entity in self.entities]
        for name, values in (("tags", self.tags), ("entities", entities), ("actions", self.actions)):
            if values:
                lines.append(f"  {name:<9} {', '.join(values)}")
        if self.splash:
            lines.append("It calls to mind")
            lines += [ripple.entry(local, "  ", note=f"similarity {ripple.similarity:.2f}") for ripple in self.splash]
        return listed(lines)


def store(tenant: "Tenant", given: NewMemory) -> StoredMemory:
    """Remember one text in one commit.

    Raises:
        ProcessingError: a step failed; the message names it, and nothing was kept.
        StoreError: the commit failed; nothing was kept.
    """
    from memory_assets.ingest.direct import store_memories

    (answer,) = with_splash(tenant, store_memories(tenant, [given]))
    tenant.memories.upkeep.optimize()
    return answer


def with_splash(tenant: "Tenant", stored: "Sequence[Stored]") -> list[StoredMemory]:
    """The answers for memories that were committed. A splash that cannot be had is empty: nothing must be stored again for it."""
    from memory_assets.recall.splash import splash

    try:
        found = [splash(tenant.memories, each.memory.id, each.embedding, tenant.embedder.name) for each in stored]
    except MemoryAssetsError as error:
        _log.warning("no splash: %s", error)
        found = [()] * len(stored)
    return [StoredMemory.of(each, ripples) for each, ripples in zip(stored, found, strict=True)]
