"""Changes of what is remembered: each is one commit that knows what it read, and leaves a note of itself for `undo`.

The note lies in the metadata of the memory, under `LAST_CHANGE`. It holds what was done, the state afterwards, and what was before.
If another writer moved the memory into another state since, the note no longer counts.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memory_assets.errors import ConflictError
from memory_assets.models import LAST_CHANGE, Memory, State

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

REVISES = "revises"
"""Key of the metadata of a memory that an edit wrote: the id of what it corrects."""
_COLUMNS = ("id", "state", "superseded_by", "tags", "importance", "metadata", "updated_at")
"""What a change may set."""


def note_change(memory: Memory, did: str, before: Any = None, **changes: Any) -> Memory:
    """`memory` as it is after a change; `before` is what `undo` needs to take the change back."""
    changed = replace(memory, **changes)
    note = {"did": did, "state": changed.state, "before": before}
    return replace(changed, metadata=changed.metadata | {LAST_CHANGE: note})


def last_change(memory: Memory) -> tuple[str, Any]:
    """What was last done to a memory, and what was before; "" if no note tells."""
    note = memory.metadata.get(LAST_CHANGE)
    if not isinstance(note, dict) or note.get("state") != memory.state:
        return "", None
    return str(note.get("did", "")), note.get("before")


def commit_changes(tenant: "Tenant", changes: Sequence[tuple[Memory, Memory]]) -> list[Memory]:
    """Commit changes together: all, or none if somebody changed one of the memories since it was read.

    `changes` holds each memory as it was read, and as it is to be.

    Raises:
        ConflictError: a memory was changed meanwhile; nothing was written.
        StoreError: the commit failed; nothing was written.
    """
    from memory_assets.learn.briefing import tell_brief
    from memory_assets.stores.rows import to_arrow

    now = datetime.now(UTC)
    after = [replace(each, updated_at=now) for _, each in changes]
    if not tenant.memories.change_together(to_arrow(after).select(_COLUMNS), [each.updated_at for each, _ in changes]):
        number = changes[0][0].id
        raise ConflictError(f"The memory {number} was changed this moment; look at it (show {number}), then try again.")
    tell_brief(tenant, after)
    if not tenant.on_commit:
        tenant.memories.upkeep.after_commit()
    return after


def replacement(tenant: "Tenant", memory: Memory) -> Memory | None:
    """The active memory that says today what `memory` said before it was superseded, or before its edit was taken back."""
    followed = {memory.id}
    number = memory.superseded_by or memory.metadata.get(REVISES)
    while isinstance(number, int) and number not in followed:
        followed.add(number)
        for found in tenant.memories.get([number]):
            if found.state is State.ACTIVE:
                return found
            number = found.superseded_by
            break
        else:
            return None
    return None


def refuse_if_superseded(tenant: "Tenant", memory: Memory) -> None:
    """Refuse to change history.

    Raises:
        ConflictError: a newer version took the memory's place; the message names it.
    """
    if memory.state is State.SUPERSEDED:
        newer = replacement(tenant, memory)
        number = newer.id if newer else memory.superseded_by
        raise ConflictError(f"The memory {memory.id} is superseded by {number}; name that one.")


def refuse_if_replaced(tenant: "Tenant", memory: Memory) -> None:
    """Refuse to bring back a text beside the version that holds now.

    Raises:
        ConflictError: another version is in recall; the message names it.
    """
    if newer := replacement(tenant, memory):
        raise ConflictError(
            f"The memory {memory.id} stays out of recall, because {newer.id} says today what holds; edit or supersede that one."
        )


def refuse_if_from_file(memory: Memory) -> None:
    """Refuse to change here what the next run would read from a file again.

    Raises:
        ConflictError: a file says it; the message names the file.
    """
    if memory.source_key:
        path = memory.metadata.get("path") or memory.metadata.get("original_path") or memory.source_key
        raise ConflictError(f"The memory {memory.id} comes from {path}; change it there, and `memory run` takes the change in.")
