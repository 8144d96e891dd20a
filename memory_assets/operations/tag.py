"""Give a memory tags, or take them from it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.errors import ConflictError
from memory_assets.operations.answers import LocalTime, MemoryView
from memory_assets.operations.edit import refuse_if_from_file
from memory_assets.operations.given import find_memory

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class TaggedMemory(MemoryView):
    """A memory with the tags that it has now."""

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """Its name and its tags."""
        return f"{self.name} · id {self.id}\n   {', '.join(self.tags) or 'no tags'}"


def tag(tenant: "Tenant", reference: str | int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> TaggedMemory:
    """Add tags to the memory of this id, and remove some; text may be the first digits of the id.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: a tag is blank, too long or not valid Unicode.
        ConflictError: a file says which tags it has, or somebody else changed it this moment; nothing was changed.
        StoreError: the commit failed; nothing was changed.
    """
    import pyarrow as pa

    from memory_assets.language.tags import normalise_tag
    from memory_assets.language.validation import validate_tags
    from memory_assets.stores.rows import SCHEMA

    memory = find_memory(tenant, reference)
    refuse_if_from_file(memory)
    gone = {normalise_tag(each) for each in validate_tags(remove)}
    tags = dict.fromkeys([*memory.tags, *(normalise_tag(each) for each in validate_tags(add))])
    wanted = tuple(each for each in tags if each not in gone)
    if wanted != memory.tags:
        columns = {"id": [memory.id], "tags": [wanted], "updated_at": [datetime.now(UTC)]}
        rows = pa.table(columns, schema=pa.schema([SCHEMA.field(name) for name in columns]))
        if not tenant.memories.update(rows, [memory.updated_at]):
            raise ConflictError(f"The memory {memory.id} was changed this moment; run the command again.")
    return TaggedMemory.model_validate(find_memory(tenant, memory.id))
