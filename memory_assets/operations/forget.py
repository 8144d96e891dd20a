"""Take memories out of recall, and bring them back: what is forgotten stays restorable until a cleaning deletes it."""

from typing import TYPE_CHECKING

from memory_assets.learn.briefing import tell_brief
from memory_assets.models import State
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class ForgottenMemory(MemoryView):
    """A memory in the state that it has now."""

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """What happened to which memory."""
        return f"{'In recall again' if self.active else 'Forgotten'}: {self.name} · id {self.id}"


def forget(tenant: "Tenant", reference: str | int) -> ForgottenMemory:
    """Take the memory of this id out of recall; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        StoreError: the commit failed; nothing was changed.
    """
    return _moved(tenant, reference, State.FORGOTTEN)


def restore(tenant: "Tenant", reference: str | int) -> ForgottenMemory:
    """Bring the memory of this id back into recall; text may be the first digits of it.

    Raises:
        NotFoundError: there is none.
        StoreError: the commit failed; nothing was changed.
    """
    return _moved(tenant, reference, State.ACTIVE)


def _moved(tenant: "Tenant", reference: str | int, state: State) -> ForgottenMemory:
    memory = find_memory(tenant, reference)
    tenant.memories.transition([memory.id], set(State) - {state}, state)
    now = find_memory(tenant, memory.id)
    tell_brief(tenant, [now])
    return ForgottenMemory.model_validate(now)
