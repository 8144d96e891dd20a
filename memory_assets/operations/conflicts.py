"""List memories that contradict each other, and decide that both hold."""

from typing import Annotated, Any

from pydantic import Field

from memory_assets.graph.outdated import find_undecided, read_contradictions
from memory_assets.models import RelationType
from memory_assets.operations.answers import Answer, LocalTime, MemoryView, View, path_of
from memory_assets.operations.arguments import find_memory
from memory_assets.operations.fields import Limit, Reference
from memory_assets.operations.relate import Relation, relate
from memory_assets.tenants import Tenant


class ConflictView(View):
    """Two active memories that contradict each other."""

    older: MemoryView
    newer: MemoryView
    differs: str = Field(description="The difference, or the sentence that states it.")

    def entry(self, local: LocalTime, lead: str) -> str:
        return "\n".join([f"{lead}{self.differs}", self.older.entry(local, "   "), self.newer.entry(local, "   ")])


class Conflicts(Answer):
    """Undecided conflicts, the surest first."""

    conflicts: list[ConflictView]
    count: int = Field(description="Number of all of them, beyond `limit` too.")

    def text(self, local: LocalTime) -> str:
        if not self.conflicts:
            return f"No two memories contradict each other, as of the last {local.command('run')}."
        first = self.conflicts[0]
        lines = [each.entry(local, f"{number}. ") for number, each in enumerate(self.conflicts, start=1)]
        if more := self.count - len(self.conflicts):
            lines.append(f"And {more} more, listed once these are decided.")
        path = path_of(first.older)
        how = f"change the older one in {path}" if path else f"{local.program}supersede {first.older.id} {first.newer.id}"
        lines.append(f"The newer one holds: {how}")
        lines.append(f"Both hold: {local.keep_both(first.older.id, first.newer.id)}")
        lines.append("One is wrong: forget it.")
        return "\n".join(lines)


def conflicts(
    tenant: Tenant, reference: Annotated[Reference | None, Field(alias="memory_id")] = None, *, limit: Limit = 20
) -> Conflicts:
    """List pairs of active memories that contradict each other, as of the last `memory run`; of one memory if it is given.

    A relation that somebody has stated between the two decides the conflict.
    """
    pairs = find_pairs(tenant, find_memory(tenant, reference).id if reference is not None else None)
    shown = pairs[:limit]
    known = {memory.id: memory for memory in tenant.memories.get({end for pair in shown for end in pair[:2]})}
    found = []
    for one, other, note in shown:
        if {one, other} <= known.keys():
            older, newer = sorted((known[one], known[other]), key=lambda memory: (memory.created_at, memory.id))
            found.append(ConflictView(older=MemoryView.of(older), newer=MemoryView.of(newer), differs=note))
    return Conflicts(conflicts=found, count=len(pairs))


def find_pairs(tenant: Tenant, number: int | None = None) -> list[tuple[int, int, str]]:
    """Return undecided pairs of contradicting memories, each with what differs, the surest first; of one memory if it is given."""
    with tenant.catalog.interactive.read() as connection:
        pairs = read_contradictions(connection, None if number is None else [number])
    undecided = find_undecided(tenant, [(one, other) for one, other, _ in pairs])
    return [pair for pair in pairs if frozenset(pair[:2]) in undecided]


def decide_both_hold(tenant: Tenant, one: str | int, other: str | int, **options: Any) -> Relation:
    """Decide that both of two memories hold: state a relation, which every run keeps and `undo` takes back, with options of `relate`."""
    return relate(tenant, one, RelationType.RELATES_TO, other, note="both hold", **options)
