"""Remember a text, whole or not at all, and see what it stirs up (seed 001, section 2)."""

import logging
from typing import TYPE_CHECKING

from pydantic import Field

from memory_assets.errors import MemoryAssetsError
from memory_assets.models import NewMemory
from memory_assets.operations.answers import LocalTime, MemoryView, listed
from memory_assets.recall.echoes import Echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_assets.ingest.direct import Stored
    from memory_assets.recall.echoes import Echoing
    from memory_assets.recall.splash import Ripple
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)


_HEADINGS = {Echo.REPEATED: "It repeats", Echo.CONTRADICTED: "It may contradict"}


class RippleView(MemoryView):
    """A memory that the new one stirs up."""

    similarity: float = Field(description="How alike the two texts are on the scale of all embedders, between 0.7 and 0.9.")


class EchoView(MemoryView):
    """A memory that the new one repeats, or seems to contradict."""

    echo: Echo
    similarity: float = Field(description="How alike the two texts are, above 0.7.")


class StoredMemory(MemoryView):
    """The memory that was committed; at most three that it calls to mind, and three that say it already or otherwise."""

    splash: list[RippleView]
    echoes: list[EchoView]
    masked: list[str] = Field(description="Kinds of keys and passwords that were masked in it.")

    @classmethod
    def of(cls, stored: "Stored", splash: "Sequence[Ripple]", echoes: "Sequence[Echoing]") -> "StoredMemory":
        """The answer to a store."""
        from memory_assets.language.secrets import marks

        ripples = [RippleView(**MemoryView.fields_of(each.memory), similarity=each.similarity) for each in splash]
        heard = [EchoView(**MemoryView.fields_of(each.memory), echo=each.echo, similarity=each.similarity) for each in echoes]
        masked = marks(stored.memory.content)
        return cls(**MemoryView.fields_of(stored.memory), splash=ripples, echoes=heard, masked=masked)

    def text(self, local: LocalTime) -> str:
        """Its id, what was found in it, and what it calls to mind."""
        lines = [f"Stored {self.id}"]
        if self.masked:
            lines.append(f"  masked    {', '.join(self.masked)}: its place holds the kind alone (MEMORY_SECRETS)")
        entities = [f"{entity.text} ({entity.type})" for entity in self.entities]
        for name, values in (("tags", self.tags), ("entities", entities), ("actions", self.actions)):
            if values:
                lines.append(f"  {name:<9} {', '.join(values)}")
        for echo, heading in _HEADINGS.items():
            heard = [each for each in self.echoes if each.echo is echo]
            if heard:
                lines.append(heading)
                lines += [each.entry(local, "  ", note=f"similarity {each.similarity:.2f}") for each in heard]
                lines.append(
                    f"  If it no longer holds: supersede {heard[0].id} {self.id}. To take the new one back: undo {self.id}."
                )
        told = {each.id for each in self.echoes}
        ripples = [ripple for ripple in self.splash if ripple.id not in told]
        if ripples:
            lines.append("It calls to mind")
            lines += [ripple.entry(local, "  ", note=f"similarity {ripple.similarity:.2f}") for ripple in ripples]
        return listed(lines)


def store(tenant: "Tenant", given: NewMemory) -> StoredMemory:
    """Remember one text in one commit.

    Raises:
        ProcessingError: a step failed; the message names it, and nothing was kept.
        StoreError: the commit failed; nothing was kept.
    """
    from memory_assets.ingest.direct import store_memories
    from memory_assets.learn.briefing import tell_brief

    (stored,) = store_memories(tenant, [given])
    answer = with_splash(tenant, stored)
    tenant.memories.upkeep.after_commit()
    tell_brief(tenant, [stored.memory])
    return answer


def with_splash(tenant: "Tenant", stored: "Stored") -> StoredMemory:
    """The answer for a memory that was committed. A splash that cannot be had is empty: nothing must be stored again for it."""
    from memory_assets.recall.echoes import echoes
    from memory_assets.recall.splash import alike, splash

    try:
        near = alike(tenant.memories, stored.memory, stored.meaning, tenant.embedder.name)
        return StoredMemory.of(stored, splash(near), echoes(stored.memory, near))
    except MemoryAssetsError as error:
        _log.warning("no splash: %s", error)
        return StoredMemory.of(stored, (), ())
