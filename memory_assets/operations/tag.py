"""Give a memory tags, or take them from it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.changes import commit_changes, note_change, refuse_if_from_file, refuse_if_superseded
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class TaggedMemory(MemoryView):
    """A memory with the tags that it has now."""

    def text(self, local: LocalTime) -> str:
        return f"{self.name} · id {self.id}\n   {', '.join(self.tags) or 'no tags'}"


def tag(tenant: "Tenant", reference: str | int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> TaggedMemory:
    """Add tags to the memory of this id, and remove some; text may be the first digits of the id.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: a tag is blank, too long or not valid Unicode.
        ConflictError: a file says which tags it has, or somebody else changed it this moment; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    from memory_assets.language.tags import normalise_tag
    from memory_assets.language.validation import validate_tags

    memory = find_memory(tenant, reference)
    refuse_if_from_file(memory)
    refuse_if_superseded(tenant, memory)
    gone = {normalise_tag(each) for each in validate_tags(remove)}
    tags = dict.fromkeys([*memory.tags, *(normalise_tag(each) for each in validate_tags(add))])
    wanted = tuple(each for each in tags if each not in gone)
    if wanted != memory.tags:
        (memory,) = commit_changes(tenant, [(memory, note_change(memory, "tag", memory.tags, tags=wanted))])
    return TaggedMemory.model_validate(memory)
