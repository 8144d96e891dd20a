"""Undo the last change of a memory: its storing, edit, supersession, tags, relation, forgetting or restoring."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import Field

from memory_assets.display import counted
from memory_assets.errors import ConflictError
from memory_assets.models import REVISES, Memory, State
from memory_assets.operations.answers import Answer, LocalTime, MemoryView
from memory_assets.operations.arguments import find_memory
from memory_assets.operations.changes import (
    commit_changes,
    guess_change,
    last_change,
    record_change,
    refuse_if_from_file,
    refuse_if_outdated,
)
from memory_assets.operations.relate import last_done, withdraw
from memory_assets.tenants import Tenant

_UNDONE = "undo"


class Undone(Answer):
    """The memories that an undo changed, in their new state."""

    did: str = Field(description="The change that is taken back, such as edit or forget.")
    memories: tuple[MemoryView, ...]
    count: int
    dry_run: bool = False

    def text(self, local: LocalTime) -> str:
        if not self.count:
            return "Nothing changed: the last change was already taken back."
        lead = f"Would undo: {self.did}" if self.dry_run else f"Undone: {self.did}"
        return "\n".join([f"{lead}, {counted(self.count)} {'would change' if self.dry_run else 'changed'}", *self.outcomes()])

    def outcomes(self) -> list[str]:
        return [
            f"  {'in recall' if each.active else each.state}: {each.name} · id {each.id}"
            + (f" · {', '.join(each.tags) or 'no tags'}" if self.did == "tag" else "")
            for each in self.memories
        ]


def undo(tenant: Tenant, reference: str | int, *, seen: datetime | None = None, dry_run: bool = False) -> Undone:
    """Take back the last change of a memory, once; with `dry_run`, only show what that would change.

    Undoing an edit or a supersession, by the id of either memory, restores the older one and forgets the text that an edit wrote.
    Undoing a memory that was never changed forgets it. A change that was already taken back stays so: an interrupted or failed undo
    can be repeated.
    """
    memory = find_memory(tenant, reference, seen)
    did, before = last_done(tenant, memory)
    changes = _plan_undo(tenant, memory, did, before)
    if dry_run:
        changed = [after for _, after in changes]
    else:
        changed = commit_changes(tenant, changes) if changes else []
        if relation := before if did in ("relate", _UNDONE) else None:
            withdraw(tenant, relation)
    memories = tuple(map(MemoryView.model_validate, changed))
    newer = tenant.memories.get([memory.superseded_by]) if memory.state is State.SUPERSEDED and memory.superseded_by else []
    is_edit = any(each.metadata.get(REVISES) == memory.id for each in newer)
    return Undone(
        did=did or ("edit" if is_edit else guess_change(memory)), memories=memories, count=len(changed), dry_run=dry_run
    )


def _plan_undo(tenant: Tenant, memory: Memory, did: str, before: Any) -> list[tuple[Memory, Memory]]:
    """Return pairs of a memory as it is and as it was before the last change."""
    if did == _UNDONE:
        return []
    if did == "relate" and isinstance(before, dict):
        ends = tenant.memories.get([before["source_id"], before["target_id"]])
        same = [each for each in ends if last_change(each)[0] == "relate" and last_change(each)[1]["id"] == before["id"]]
        return [(each, record_change(each, _UNDONE, before)) for each in same]
    if did == "tag" and isinstance(before, list):
        return [(memory, record_change(memory, _UNDONE, tags=tuple(before)))]
    if did == "store" and isinstance(before, dict):
        metadata = {key: value for key, value in memory.metadata.items() if key != "occasions"}
        if before["occasions"]:
            metadata["occasions"] = before["occasions"]
        earlier = replace(memory, metadata=metadata, tags=tuple(before["tags"]), importance=before["importance"])
        return [(memory, record_change(earlier, _UNDONE))]
    if memory.state is State.SUPERSEDED and memory.superseded_by is not None:
        newer = find_memory(tenant, memory.superseded_by)
        if newer.state is State.SUPERSEDED:
            raise ConflictError(f"The memory {newer.id} replaced {memory.id} and was replaced itself; undo that first.")
        if newer.state is not State.ACTIVE:
            refuse_if_outdated(tenant, memory)
        return _take_back_version(newer, [memory])
    if memory.state is not State.ACTIVE:
        was = State(str(before)) if did == "forget" else State.ACTIVE
        if was is State.ACTIVE:
            refuse_if_outdated(tenant, memory)
        return [(memory, record_change(memory, _UNDONE, state=was))]
    if did == "restore":
        return [(memory, record_change(memory, _UNDONE, state=State(str(before))))]
    where = f"superseded_by = {memory.id} AND state = '{State.SUPERSEDED}'"
    older = tenant.memories.get(tenant.memories.scan(("id",), where)["id"].to_pylist())
    if did == "supersede":
        older = [each for each in older if each.id == before]
    refuse_if_from_file(memory)
    if older:
        return _take_back_version(memory, older)
    return [(memory, record_change(memory, _UNDONE, state=State.FORGOTTEN))]


def _take_back_version(newer: Memory, older: list[Memory]) -> list[tuple[Memory, Memory]]:
    for each in older:
        refuse_if_from_file(each)
    changes = [(each, record_change(each, _UNDONE, state=_state_before(each), superseded_by=None)) for each in older]
    ids = {each.id for each in older}
    if newer.state is State.ACTIVE and newer.metadata.get(REVISES) in ids:
        changes.append((newer, record_change(newer, _UNDONE, state=State.FORGOTTEN)))
    elif last_change(newer)[0] == "supersede" and last_change(newer)[1] in ids:
        changes.append((newer, record_change(newer, _UNDONE)))
    return changes


def _state_before(superseded: Memory) -> State:
    """Return the state that a superseded memory had before: the recorded one, or active if an edit or a source replaced it."""
    did, was = last_change(superseded)
    return State(was) if did == "supersede" and was in set(State) else State.ACTIVE
