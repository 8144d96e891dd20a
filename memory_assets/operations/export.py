"""Write all memories as JSON Lines, in every state and with their relations, so that `memory import` takes them in again."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_assets.operations.answers import Answer, LocalTime, counted

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


class Exported(Answer):
    """A file that was written."""

    file: Path
    memories: int

    def text(self, local: LocalTime) -> str:
        return f"{counted(self.memories)} written to {self.file}"


def export(tenant: "Tenant", file: Path) -> Exported:
    """Write all memories to `file`, one a line, as the store holds them and not by time, a batch in memory at once.

    Raises:
        InvalidInputError: no file can be there.
        StoreError: the memories cannot be read; the old file stays.
        OSError: the file cannot be written; the old one stays.
    """
    from memory_assets.stores.files import writing

    written = 0
    with writing(file) as lines:
        for text in exported_lines(tenant):
            lines.write(text.encode())
            written += text.count("\n")
    return Exported(file=file.absolute(), memories=written)


def exported_lines(tenant: "Tenant") -> Iterator[str]:
    """All memories as JSON Lines, a batch at a time.

    Raises:
        StoreError: the memories cannot be read; the lines given before are whole.
    """
    from memory_assets.stores.exchange import to_jsonl

    relations: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in tenant.relations.scan().sort_by([("target_id", "ascending"), ("type", "ascending")]).to_pylist():
        relations[row.pop("source_id")].append({name: value for name, value in row.items() if name != "id"})
    for memories in tenant.memories.batches():
        yield to_jsonl(memories, relations)
