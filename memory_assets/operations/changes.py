"""Changes of what is remembered: edit, tag, supersede, forget, restore.

Each is one commit that knows what it read. `seen` is the `updated_at` that somebody looked at before: a memory that has another one now
is refused with ChangedMeanwhileError. It leaves a note of itself for `undo` in the memory's metadata, under `LAST_CHANGE`: what was
done, the state afterwards, and what was before. If another writer moved the memory into another state since, the note no longer counts.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from memory_assets.errors import ChangedMeanwhileError, ConflictError, InvalidInputError
from memory_assets.ingest.direct import revise_memory
from memory_assets.language.guard import guarded_text
from memory_assets.language.secrets import mask
from memory_assets.language.tags import normalise_tag
from memory_assets.language.validation import validate_tags
from memory_assets.learn.briefing import tell_brief
from memory_assets.models import LAST_CHANGE, MACHINE, REVISES, Memory, NewMemory, SecretPolicy, Source, State
from memory_assets.operations.answers import LocalTime, MemoryView, name_of, passage
from memory_assets.operations.fields import Content, Reference, Tags
from memory_assets.operations.given import find_memory
from memory_assets.stores.rows import to_arrow
from memory_assets.tenants import Tenant

_COLUMNS = ("id", "state", "superseded_by", "tags", "importance", "metadata", "updated_at")
"""What a change may set."""
_BY_STATE = {
    State.SUPERSEDED: "supersede",
    State.FORGOTTEN: "forget",
    State.ARCHIVED: "archive",
    State.VANISHED: "vanished from its source",
}


def note_change(memory: Memory, did: str, before: Any = None, at: datetime | None = None, **changes: Any) -> Memory:
    """`memory` as it is after a change of now, or `at` another time; `before` is what `undo` needs to take the change back."""
    changed = replace(memory, **changes)
    note = {"did": did, "state": changed.state, "before": before, "at": (at or datetime.now(UTC)).isoformat()}
    return replace(changed, metadata=changed.metadata | {LAST_CHANGE: note})


def last_change(memory: Memory) -> tuple[str, Any]:
    """What was last done to a memory, and what was before; "" if no note tells."""
    note = memory.metadata.get(LAST_CHANGE)
    if not isinstance(note, dict) or note.get("state") != memory.state:
        return "", None
    return str(note.get("did", "")), note.get("before")


def changed_at(memory: Memory | NewMemory) -> datetime | None:
    """When somebody last changed a memory, on whichever machine; None if no note tells."""
    note = memory.metadata.get(LAST_CHANGE)
    if not isinstance(note, dict) or note.get("state") != memory.state:
        return None
    try:
        return datetime.fromisoformat(note["at"]).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        return None


def guess_change(memory: Memory) -> str:
    """What was last done to a memory that has no note of it."""
    return _BY_STATE.get(memory.state) or ("edit" if REVISES in memory.metadata else "store")


def commit_changes(tenant: Tenant, changes: Sequence[tuple[Memory, Memory]]) -> list[Memory]:
    """Commit changes together: all, or none if somebody changed one of the memories since it was read.

    `changes` holds each memory as it was read, and as it is to be.
    """
    now = datetime.now(UTC)
    after = [replace(each, updated_at=now) for _, each in changes]
    if not tenant.memories.change_together(to_arrow(after).select(_COLUMNS), [each.updated_at for each, _ in changes]):
        number = changes[0][0].id
        raise ChangedMeanwhileError(f"The memory {number} was changed this moment; look at it (show {number}), then try again.")
    tell_brief(tenant, after)
    if not tenant.on_commit:
        tenant.memories.upkeep.after_commit()
    return after


def replacement(tenant: Tenant, memory: Memory) -> Memory | None:
    """The active memory that says today what `memory` said before it was superseded, or before its edit was taken back."""
    followed = {memory.id}
    number = memory.superseded_by or memory.metadata.get(REVISES)
    while isinstance(number, int) and number not in followed:
        followed.add(number)
        found = next(iter(tenant.memories.get([number])), None)
        if found is None or found.state is State.ACTIVE:
            return found
        number = found.superseded_by
    return None


def refuse_if_superseded(tenant: Tenant, memory: Memory) -> None:
    """Refuse to change history."""
    if memory.state is State.SUPERSEDED:
        newer = replacement(tenant, memory)
        number = newer.id if newer else memory.superseded_by
        raise ConflictError(f"The memory {memory.id} is superseded by {number}; name that one.")


def refuse_if_replaced(tenant: Tenant, memory: Memory) -> None:
    """Refuse to bring back a text beside the version that holds now."""
    if newer := replacement(tenant, memory):
        raise ConflictError(
            f"The memory {memory.id} stays out of recall, because {newer.id} replaced it; edit or supersede that one."
        )


def refuse_if_from_file(memory: Memory) -> None:
    """Refuse to change here what the next run would read from a file again."""
    if memory.source_key:
        path = memory.metadata.get("path") or memory.metadata.get("original_path") or memory.source_key
        raise ConflictError(f"The memory {memory.id} comes from {path}; change it there, and the next run takes the change in.")


_ITS_OWN = frozenset({"id", "external_id", "source_key", "created_at", "state", "superseded_by"})
"""What a newer version does not take over: which memory it is, since when, and what has become of it."""


class ChangedMemory(MemoryView):
    """A memory as it is after a change."""

    said: str = Field(exclude=True)
    """What was done, in words."""

    def text(self, local: LocalTime) -> str:
        return self.said


class EditedMemory(ChangedMemory):
    """The newer version, or the memory itself if its text is the same."""

    replaces: int | None = Field(description="The version that it replaces; null if nothing changed.")


def edit(tenant: Tenant, reference: str | int, content: Content, *, source: Source, seen: datetime | None = None) -> EditedMemory:
    """Correct what a memory says: a newer version takes its place, and the old one stays as history.

    What somebody gave it, tags too, goes over to the newer version, which is of the present; entities, actions and automatic tags are
    found anew. The same text, whatever white space is around it, changes nothing.
    """
    old = find_memory(tenant, reference, seen)
    refuse_if_from_file(old)
    refuse_if_superseded(tenant, old)
    if old.state is State.FORGOTTEN:
        raise ConflictError(f"The memory {old.id} is forgotten; restore it, then edit it.")
    kept = mask(content) if tenant.settings.secrets is SecretPolicy.MASK else content
    if kept.strip() == old.content.strip():
        said = f"Nothing changed: {old.id} says that already\n   {passage(old.content)}"
        return EditedMemory.of(old, replaces=None, said=said)
    automatic = tenant.analyzer.analyze(old.content).tags
    own = {
        "content": content,
        "source": source,
        "tags": tuple(tag for tag in old.tags if tag not in automatic),
        "metadata": {key: value for key, value in old.metadata.items() if key not in (LAST_CHANGE, MACHINE)} | {REVISES: old.id},
    }
    given = NewMemory(**{field.name: getattr(old, field.name) for field in fields(NewMemory) if field.name not in _ITS_OWN} | own)
    newer = revise_memory(tenant, old, given).memory
    tell_brief(tenant, [find_memory(tenant, old.id), newer])
    said = f"Edited: {old.id} is history, {newer.id} takes its place\n   {passage(newer.content)}"
    return EditedMemory.of(newer, replaces=old.id, said=said)


def tag(
    tenant: Tenant,
    reference: str | int,
    *,
    add: Tags = (),
    remove: Tags = (),
    seen: datetime | None = None,
) -> ChangedMemory:
    """Add tags to the memory of this id, and remove some."""
    memory = find_memory(tenant, reference, seen)
    refuse_if_from_file(memory)
    refuse_if_superseded(tenant, memory)
    gone = {normalise_tag(each, inflect=inflect) for each in validate_tags(remove) for inflect in (True, False)}
    given = (guarded_text(each, tenant.settings.secrets, "tag") for each in validate_tags(add))
    tags = dict.fromkeys([*memory.tags, *map(normalise_tag, given)])
    wanted = tuple(each for each in tags if each not in gone)
    if wanted != memory.tags:
        (memory,) = commit_changes(tenant, [(memory, note_change(memory, "tag", memory.tags, tags=wanted))])
    return ChangedMemory.of(memory, said=f"{name_of(memory)} · id {memory.id}\n   {', '.join(memory.tags) or 'no tags'}")


def supersede(
    tenant: Tenant,
    old: str | int,
    new: Annotated[Reference, Field(alias="new_id")],
    *,
    seen: datetime | None = None,
    seen_new: datetime | None = None,
) -> ChangedMemory:
    """Let another memory take the place of this one, which no longer holds and stays as history."""
    before, after = find_memory(tenant, old, seen), find_memory(tenant, new, seen_new)
    if before.id == after.id:
        raise InvalidInputError(f"The memory {before.id} cannot supersede itself; name the older one, then the newer one.")
    if after.state is not State.ACTIVE:
        raise InvalidInputError(f"The memory {after.id} is {after.state}; only an active memory can supersede another.")
    refuse_if_from_file(before)
    refuse_if_superseded(tenant, before)
    superseded = note_change(before, "supersede", before.state, state=State.SUPERSEDED, superseded_by=after.id)
    # The newer one changes in the same commit, so that of two opposite supersessions at once one is refused.
    now, _ = commit_changes(tenant, [(before, superseded), (after, note_change(after, "supersede", before.id))])
    return ChangedMemory.of(now, said=f"Superseded: {now.id} is history, {after.id} takes its place")


def forget(tenant: Tenant, reference: str | int, *, seen: datetime | None = None) -> ChangedMemory:
    """Take the memory of this id out of recall. It stays restorable."""
    return _move(tenant, find_memory(tenant, reference, seen), State.FORGOTTEN, "forget", "Forgotten")


def restore(tenant: Tenant, reference: str | int, *, seen: datetime | None = None) -> ChangedMemory:
    """Bring the memory of this id back into recall."""
    return _move(tenant, find_memory(tenant, reference, seen), State.ACTIVE, "restore", "In recall again")


def _move(tenant: Tenant, memory: Memory, state: State, did: str, said: str) -> ChangedMemory:
    """Move a memory into another state, unless it is history."""
    refuse_if_superseded(tenant, memory)
    if memory.state is not state:
        if state is State.ACTIVE:
            refuse_if_replaced(tenant, memory)
        (memory,) = commit_changes(tenant, [(memory, note_change(memory, did, memory.state, state=state))])
    return ChangedMemory.of(memory, said=f"{said}: {name_of(memory)} · id {memory.id}")
