"""Take memories out of recall, and bring them back: a forgotten memory stays restorable until a cleaning deletes it."""

from typing import TYPE_CHECKING

from memory_assets.models import State
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.changes import commit_changes, note_change, refuse_if_replaced, refuse_if_superseded
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class ForgottenMemory(MemoryView):
    """A memory in the state that it has now."""

    def text(self, local: LocalTime) -> str:
        return f"{'In recall again' if self.active else 'Forgotten'}: {self.name} · id {self.id}"


def forget(tenant: "Tenant", reference: str | int) -> ForgottenMemory:
    """Take the memory of this id out of recall; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        ConflictError: a newer version took its place, or somebody changed it this moment; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    memory = find_memory(tenant, reference)
    refuse_if_superseded(tenant, memory)
    if memory.state is not State.FORGOTTEN:
        after = note_change(memory, "forget", memory.state, state=State.FORGOTTEN)
        (memory,) = commit_changes(tenant, [(memory, after)])
    return ForgottenMemory.model_validate(memory)


def restore(tenant: "Tenant", reference: str | int) -> ForgottenMemory:
    """Bring the memory of this id back into recall; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        ConflictError: another version of it is in recall, or somebody changed it this moment; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    memory = find_memory(tenant, reference)
    refuse_if_superseded(tenant, memory)
    if memory.state is not State.ACTIVE:
        refuse_if_replaced(tenant, memory)
        after = note_change(memory, "restore", memory.state, state=State.ACTIVE)
        (memory,) = commit_changes(tenant, [(memory, after)])
    return ForgottenMemory.model_validate(memory)
