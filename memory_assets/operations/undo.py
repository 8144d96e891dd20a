"""Take back what was last done to a memory: that it was stored, edited, superseded or forgotten."""

from typing import TYPE_CHECKING

from memory_assets.errors import ConflictError
from memory_assets.learn.briefing import tell_brief
from memory_assets.models import Memory, State
from memory_assets.operations.answers import Answer, LocalTime, MemoryView, counted
from memory_assets.operations.edit import REVISES, refuse_if_from_file
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Undone(Answer):
    """The memories that changed, as they are now."""

    memories: tuple[MemoryView, ...]
    count: int

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """A line a memory."""
        lines = [f"  {'in recall again' if each.active else each.state}: {each.name} · id {each.id}" for each in self.memories]
        return "\n".join([f"Undone, {counted(self.count)} changed", *lines])


def undo(tenant: "Tenant", reference: str | int) -> Undone:
    """Take back what was last done to the memory of this id; text may be the first digits of it.

    What was forgotten or archived is in recall again. Of an edit or a supersession, named by either of its two memories, the older
    one is in recall again, and the text that an edit wrote is forgotten. What nothing was done to since it was stored is
    forgotten.

    Raises:
        NotFoundError: there is none.
        ConflictError: a file says it, or what took its place was itself replaced; nothing was changed.
        StoreError: a commit failed; what was changed before stays, and undoing again goes on.
    """
    memory = find_memory(tenant, reference)
    if memory.state in (State.FORGOTTEN, State.ARCHIVED):
        return _moved(tenant, [memory], State.ACTIVE)
    if memory.state is State.SUPERSEDED and memory.superseded_by is not None:
        newer = find_memory(tenant, memory.superseded_by)
        if newer.state is State.SUPERSEDED:
            raise ConflictError(f"What took the place of {memory.id} was replaced too; undo {newer.id} first.")
        return _reverted(tenant, newer, [memory])
    where = f"superseded_by = {memory.id} AND state = '{State.SUPERSEDED}'"
    older = tenant.memories.get(tenant.memories.scan(("id",), where)["id"].to_pylist())
    refuse_if_from_file(memory)
    return _reverted(tenant, memory, older) if older else _moved(tenant, [memory], State.FORGOTTEN)


def _reverted(tenant: "Tenant", newer: Memory, older: list[Memory]) -> Undone:
    for each in older:
        refuse_if_from_file(each)
    changed = _moved(tenant, older, State.ACTIVE)
    if newer.state is State.ACTIVE and newer.metadata.get(REVISES) in {each.id for each in older}:
        changed_too = _moved(tenant, [newer], State.FORGOTTEN)
        return Undone(memories=(*changed.memories, *changed_too.memories), count=changed.count + changed_too.count)
    return changed


def _moved(tenant: "Tenant", memories: list[Memory], state: State) -> Undone:
    ids = [each.id for each in memories]
    superseded_by = None if state is State.FORGOTTEN else [None] * len(ids)
    read_at = [each.updated_at for each in memories]
    moved = tenant.memories.transition(ids, set(State) - {state}, state, superseded_by=superseded_by, read_at=read_at)
    if len(moved) < len(ids):
        raise ConflictError(f"The memory {ids[0]} was changed this moment; `memory show {ids[0]}` tells.")
    now = tenant.memories.get(ids)
    tell_brief(tenant, now)
    return Undone(memories=tuple(map(MemoryView.model_validate, now)), count=len(ids))
