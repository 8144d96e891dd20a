"""Changes of memories: edit, tag, supersede, forget, restore.

Each change is one commit that fails if the memory was changed since it was read. `seen` is the `updated_at` that the caller knows; if
it is stale, the operation raises ChangedMeanwhileError. A change records itself for `undo` in the memory's metadata under `LAST_CHANGE`:
the operation, the state after it, and the value before it. The record is ignored if another writer has changed the state since.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from memory_assets.errors import ChangedMeanwhileError, ConflictError, InvalidInputError
from memory_assets.ingest.direct import revise_memory
from memory_assets.language.guard import guard_text
from memory_assets.language.passages import passage
from memory_assets.language.secrets import mask
from memory_assets.language.tags import normalise_tag
from memory_assets.language.validation import validate_tags
from memory_assets.learn.briefing import update_brief
from memory_assets.models import LAST_CHANGE, MACHINE, REVISES, Memory, NewMemory, SecretPolicy, Source, State
from memory_assets.operations.answers import LocalTime, MemoryView, describe_masked, name_of, path_of
from memory_assets.operations.arguments import find_memory
from memory_assets.operations.fields import Content, Reference, Tags
from memory_assets.stores.rows import to_arrow
from memory_assets.tenants import Tenant

_COLUMNS = ("id", "state", "superseded_by", "tags", "importance", "metadata", "updated_at")
"""Columns that a change may write."""
_BY_STATE = {
    State.SUPERSEDED: "supersede",
    State.FORGOTTEN: "forget",
    State.ARCHIVED: "archive",
    State.VANISHED: "vanished from its source",
}


def record_change(memory: Memory, did: str, before: Any = None, at: datetime | None = None, **changes: Any) -> Memory:
    """Return `memory` with changed fields and a record of the change, made now or `at`; `undo` restores the value `before`."""
    changed = replace(memory, **changes)
    note = {"did": did, "state": changed.state, "before": before, "at": (at or datetime.now(UTC)).isoformat()}
    return replace(changed, metadata=changed.metadata | {LAST_CHANGE: note})


def last_change(memory: Memory) -> tuple[str, Any]:
    """Return the last recorded operation on a memory and the value before it; "" and None if none is recorded."""
    note = _read_note(memory)
    return str(note.get("did", "")), note.get("before")


def changed_at(memory: Memory | NewMemory) -> datetime | None:
    """Return when a memory was last changed, on any machine; None if no change is recorded, or without a time."""
    try:
        return datetime.fromisoformat(_read_note(memory)["at"]).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        return None


def _read_note(memory: Memory | NewMemory) -> dict[str, Any]:
    """Return the record of the last change; empty if there is none, or if another writer has changed the state since."""
    note = memory.metadata.get(LAST_CHANGE)
    return note if isinstance(note, dict) and note.get("state") == memory.state else {}


def guess_change(memory: Memory) -> str:
    """Guess the last operation on a memory that records none, from its state."""
    return _BY_STATE.get(memory.state) or ("edit" if REVISES in memory.metadata else "store")


def commit_changes(tenant: Tenant, changes: Sequence[tuple[Memory, Memory]]) -> list[Memory]:
    """Commit pairs of a memory as it was read and as it shall be; return the written memories.

    Raise ChangedMeanwhileError, and write none, if another writer changed one of them since it was read.
    """
    now = datetime.now(UTC)
    after = [replace(each, updated_at=now) for _, each in changes]
    if not tenant.memories.change_together(to_arrow(after).select(_COLUMNS), [each.updated_at for each, _ in changes]):
        number = changes[0][0].id
        raise ChangedMeanwhileError(f"The memory {number} was changed this moment; look at it (show {number}), then try again.")
    update_brief(tenant, zip([before for before, _ in changes], after, strict=True))
    if not tenant.on_commit:
        tenant.memories.upkeep.after_commit()
    return after


def find_replacement(tenant: Tenant, memory: Memory) -> Memory | None:
    """Return the active memory that replaced or revises `memory`, directly or through others; None if there is none.

    For the text of an edit that was taken back, that is the memory that the edit corrected.
    """
    followed, versions = {memory.id}, [memory]
    while versions:
        linked = [number for each in versions if isinstance(number := each.superseded_by or each.metadata.get(REVISES), int)]
        versions = [each for each in (*tenant.memories.get(linked), *_find_revising(tenant, versions)) if each.id not in followed]
        if found := next((each for each in versions if each.state is State.ACTIVE), None):
            return found
        followed.update(each.id for each in versions)
    return None


def _find_revising(tenant: Tenant, versions: Sequence[Memory]) -> list[Memory]:
    """Return the memories that edits of these made, those too that were taken back."""
    said = " OR ".join(f"contains(metadata, '\"{REVISES}\": {each.id}')" for each in versions)
    found = tenant.memories.get(tenant.memories.scan(("id",), said)["id"].to_pylist())
    return [each for each in found if each.metadata.get(REVISES) in {version.id for version in versions}]


def refuse_if_superseded(tenant: Tenant, memory: Memory) -> None:
    """Raise ConflictError if the memory is superseded: history cannot be changed."""
    if memory.state is State.SUPERSEDED:
        newer = find_replacement(tenant, memory)
        number = newer.id if newer else memory.superseded_by
        raise ConflictError(f"The memory {memory.id} is superseded by {number}; name that one.")


def refuse_if_outdated(tenant: Tenant, memory: Memory) -> None:
    """Raise ConflictError if an active memory replaced this one, or if its file no longer says it: the next run would retire it."""
    if newer := find_replacement(tenant, memory):
        raise ConflictError(
            f"The memory {memory.id} stays out of recall, because {newer.id} replaced it; edit or supersede that one."
        )
    if path := path_of(memory):
        from memory_assets.ingest.memories import is_unsaid

        if memory.state is State.VANISHED or is_unsaid(tenant.catalog.interactive, memory):
            raise ConflictError(
                f"The memory {memory.id} stays out of recall, because {path} did not say it at the last run; put the file back and run"
                " `memory run`, or store the text anew (`memory store TEXT`)."
            )


def refuse_if_from_file(memory: Memory) -> None:
    """Raise ConflictError if the memory comes from a file: the next run would read the old text again."""
    if path := path_of(memory):
        raise ConflictError(f"The memory {memory.id} comes from {path}; change it there, and the next run takes the change in.")


_NOT_INHERITED = frozenset({"id", "external_id", "source_key", "created_at", "state", "superseded_by"})
"""Fields that a newer version does not inherit."""


class ChangedMemory(MemoryView):
    """A memory after a change."""

    summary: str = Field(exclude=True)
    """The change in words."""

    def text(self, local: LocalTime) -> str:
        return self.summary


class EditedMemory(ChangedMemory):
    """The new version, or the memory itself if its text is the same."""

    replaces: int | None = Field(description="The version that it replaces; null if nothing changed.")
    masked: list[str] = Field(default=[], description="Kinds of keys and passwords that were masked in it.")


def edit(tenant: Tenant, reference: str | int, content: Content, *, source: Source, seen: datetime | None = None) -> EditedMemory:
    """Correct a memory's text: a new version replaces it, and the old one stays as history.

    The new version keeps the fields that somebody gave, and the tags that the analyzer does not find in the old text: a stored tag
    does not say who gave it. Its time is now, and its entities, actions and automatic tags are extracted anew. If only line ends or
    surrounding white space differ, nothing changes.
    """
    old = find_memory(tenant, reference, seen)
    refuse_if_from_file(old)
    refuse_if_superseded(tenant, old)
    if old.state is State.FORGOTTEN:
        raise ConflictError(f"The memory {old.id} is forgotten; restore it, then edit it.")
    kept = mask(content) if tenant.settings.secrets is SecretPolicy.MASK else content
    if kept.replace("\r\n", "\n").strip() == old.content.replace("\r\n", "\n").strip():
        summary = f"Nothing changed: {old.id} already says that\n   {passage(old.content)}"
        return EditedMemory.of(old, replaces=None, summary=summary)
    automatic = tenant.analyzer.analyze(old.content).tags
    own = {
        "content": content,
        "source": source,
        "tags": tuple(tag for tag in old.tags if tag not in automatic),
        "metadata": {key: value for key, value in old.metadata.items() if key not in (LAST_CHANGE, MACHINE)} | {REVISES: old.id},
    }
    given = NewMemory(
        **{field.name: getattr(old, field.name) for field in fields(NewMemory) if field.name not in _NOT_INHERITED} | own
    )
    stored = revise_memory(tenant, old, given)
    newer = stored.memory
    update_brief(tenant, [(old, find_memory(tenant, old.id)), (None, newer)])
    summary = f"Edited: {old.id} is history, {newer.id} takes its place\n   {passage(newer.content)}"
    if stored.masked:
        summary += f"\n   masked {describe_masked(stored.masked)}"
    return EditedMemory.of(newer, replaces=old.id, masked=stored.masked, summary=summary)


def tag(
    tenant: Tenant, reference: str | int, *, add: Tags = (), remove: Tags = (), seen: datetime | None = None
) -> ChangedMemory:
    """Add tags to a memory, remove tags from it, or both."""
    memory = find_memory(tenant, reference, seen)
    refuse_if_from_file(memory)
    refuse_if_superseded(tenant, memory)
    given = [normalise_tag(guard_text(each, tenant.settings.secrets, "tag")) for each in validate_tags(add)]
    gone = {normalise_tag(each, inflect=inflect) for each in validate_tags(remove) for inflect in (True, False)} - {*given}
    wanted = tuple(each for each in dict.fromkeys([*memory.tags, *given]) if each not in gone)
    if wanted != memory.tags:
        (memory,) = commit_changes(tenant, [(memory, record_change(memory, "tag", memory.tags, tags=wanted))])
    return ChangedMemory.of(memory, summary=f"{name_of(memory)} · id {memory.id}\n   {', '.join(memory.tags) or 'no tags'}")


def supersede(
    tenant: Tenant,
    old: str | int,
    new: Annotated[Reference, Field(alias="new_id")],
    *,
    seen: datetime | None = None,
    seen_new: datetime | None = None,
) -> ChangedMemory:
    """Replace a memory that no longer holds by another one; the old one stays as history."""
    before, after = find_memory(tenant, old, seen), find_memory(tenant, new, seen_new)
    if before.id == after.id:
        raise InvalidInputError(f"The memory {before.id} cannot supersede itself; name the older one, then the newer one.")
    if after.state is not State.ACTIVE:
        raise InvalidInputError(f"The memory {after.id} is {after.state}; only an active memory can supersede another.")
    refuse_if_from_file(before)
    refuse_if_superseded(tenant, before)
    superseded = record_change(before, "supersede", before.state, state=State.SUPERSEDED, superseded_by=after.id)
    # The newer one changes in the same commit, so that one of two concurrent opposite supersessions fails.
    now, _ = commit_changes(tenant, [(before, superseded), (after, record_change(after, "supersede", before.id))])
    return ChangedMemory.of(now, summary=f"Superseded: {now.id} is history, {after.id} takes its place")


def forget(tenant: Tenant, reference: str | int, *, seen: datetime | None = None) -> ChangedMemory:
    """Take a memory out of recall; it can be restored."""
    return _change_state(tenant, find_memory(tenant, reference, seen), State.FORGOTTEN, "forget", "Forgotten")


def restore(tenant: Tenant, reference: str | int, *, seen: datetime | None = None) -> ChangedMemory:
    """Bring a memory back into recall."""
    return _change_state(tenant, find_memory(tenant, reference, seen), State.ACTIVE, "restore", "In recall again")


def _change_state(tenant: Tenant, memory: Memory, state: State, did: str, summary: str) -> ChangedMemory:
    refuse_if_superseded(tenant, memory)
    if memory.state is not state:
        if state is State.ACTIVE:
            refuse_if_outdated(tenant, memory)
        (memory,) = commit_changes(tenant, [(memory, record_change(memory, did, memory.state, state=state))])
    return ChangedMemory.of(memory, summary=f"{summary}: {name_of(memory)} · id {memory.id}")
