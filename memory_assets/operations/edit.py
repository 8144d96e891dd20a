"""Correct what a memory says: a newer version takes its place, and the old one stays as history."""

from dataclasses import fields
from typing import TYPE_CHECKING

from memory_assets.learn.briefing import tell_brief
from memory_assets.models import LAST_CHANGE, NewMemory, Source
from memory_assets.operations.answers import LocalTime, MemoryView, passage
from memory_assets.operations.changes import REVISES, refuse_if_from_file, refuse_if_superseded
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


_ITS_OWN = frozenset({"id", "external_id", "source_key", "created_at", "state", "superseded_by"})
"""What a newer version does not take over: which memory it is, since when, and what has become of it."""


class EditedMemory(MemoryView):
    """The newer version, and the id of the one that it replaces."""

    replaces: int

    def text(self, local: LocalTime) -> str:
        return f"Edited: {self.replaces} is history, {self.id} takes its place\n   {passage(self.content)}"


def edit(tenant: "Tenant", reference: str | int, content: str, *, source: Source) -> EditedMemory:
    """Replace the text of the memory of this id; text may be the first digits of it.

    What somebody gave it, tags too, goes over to the newer version, which is of the present; entities, actions and automatic tags are
    found anew.

    Raises:
        NotFoundError: there is none.
        ConflictError: a file says it, or it is not what it was when it was read; nothing was changed.
        ProcessingError: a step failed; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    from memory_assets.ingest.direct import revise_memory

    old = find_memory(tenant, reference)
    refuse_if_from_file(old)
    refuse_if_superseded(tenant, old)
    automatic = tenant.analyzer.analyze(old.content).tags
    own = {
        "content": content,
        "source": source,
        "tags": tuple(tag for tag in old.tags if tag not in automatic),
        "metadata": {key: value for key, value in old.metadata.items() if key != LAST_CHANGE} | {REVISES: old.id},
    }
    given = NewMemory(**{field.name: getattr(old, field.name) for field in fields(NewMemory) if field.name not in _ITS_OWN} | own)
    newer = revise_memory(tenant, old, given).memory
    tell_brief(tenant, [find_memory(tenant, old.id), newer])
    return EditedMemory.of(newer, replaces=old.id)
