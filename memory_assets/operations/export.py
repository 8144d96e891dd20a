"""Write all memories as JSON Lines, in every state, so that `memory import` takes them in again."""

from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.operations.answers import Answer, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Exported(Answer):
    """A file that was written."""

    file: Path
    memories: int

    def text(self, local: LocalTime) -> str:  # noqa: ARG002
        """How many, and where."""
        return f"{counted(self.memories)} written to {self.file}"


def export(tenant: "Tenant", file: Path) -> Exported:
    """Write all memories to `file`, one a line, as the store holds them and not by time, a batch in memory at once.

    Raises:
        InvalidInputError: no file can be there.
        StoreError: the memories cannot be read; the old file stays.
        OSError: the file cannot be written; the old one stays.
    """
    from memory_assets.stores.exchange import to_jsonl
    from memory_assets.stores.files import writing

    written = 0
    with writing(file) as lines:
        for memories in tenant.memories.batches():
            lines.write(to_jsonl(memories).encode())
            written += len(memories)
    return Exported(file=file.absolute(), memories=written)
