"""Let one memory take the place of another that no longer holds; the other stays as history."""

from typing import TYPE_CHECKING

from memory_assets.errors import InvalidInputError
from memory_assets.models import State
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.changes import commit_changes, note_change, refuse_if_from_file, refuse_if_superseded
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class SupersededMemory(MemoryView):
    """The memory that is history now."""

    def text(self, local: LocalTime) -> str:
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
    refuse_if_superseded(tenant, before)
    superseded = note_change(before, "supersede", after.id, state=State.SUPERSEDED, superseded_by=after.id)
    # The newer one changes in the same commit, so that of two opposite supersessions at once one is refused.
    now, _ = commit_changes(tenant, [(before, superseded), (after, note_change(after, "supersede", before.id))])
    return SupersededMemory.model_validate(now)
