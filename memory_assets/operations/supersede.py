"""Let one memory take the place of another that no longer holds; the other stays as history."""

from typing import TYPE_CHECKING

from memory_assets.errors import ConflictError, InvalidInputError
from memory_assets.learn.briefing import tell_brief
from memory_assets.models import State
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.edit import refuse_if_from_file
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class SupersededMemory(MemoryView):
    """The memory that is history now."""

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """Both ids."""
        return f"Superseded: {self.id} is history, {self.superseded_by} takes its place"


def supersede(tenant: "Tenant", old: str | int, new: str | int) -> SupersededMemory:
    """Let the memory `new` take the place of `old`; text may be the first digits of an id.

    Raises:
        NotFoundError: one of them does not exist.
        InvalidInputError: they are one, or the new one takes no part in recall.
        ConflictError: a file says the old one, or it is history already, or changes this moment; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    before, after = find_memory(tenant, old), find_memory(tenant, new)
    if before.id == after.id:
        raise InvalidInputError(f"The memory {before.id} cannot take its own place; name the older one, then the newer one.")
    if after.state is not State.ACTIVE:
        raise InvalidInputError(f"The memory {after.id} is {after.state}; only an active one can take another's place.")
    refuse_if_from_file(before)
    others = set(State) - {State.SUPERSEDED}
    if not tenant.memories.transition(
        [before.id], others, State.SUPERSEDED, superseded_by=[after.id], read_at=[before.updated_at]
    ):
        raise ConflictError(
            f"The memory {before.id} is {before.state} or was changed this moment; `memory show {before.id}` tells."
        )
    now = find_memory(tenant, before.id)
    tell_brief(tenant, [now])
    return SupersededMemory.model_validate(now)
