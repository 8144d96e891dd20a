"""What curation has before it, and what must hold of silos and homes."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from memory_assets.learn.homes import Homes
from memory_assets.learn.index import hooks_of
from memory_assets.learn.proposals import Decisions, Status
from memory_assets.learn.silos import Silos, read_index
from memory_assets.sources.files import RefusedFileError
from memory_assets.sources.memory_index import INDEX_NAME


@dataclass(frozen=True, slots=True)
class Backlog:
    """The memories in silos that were not curated yet."""

    by_type: dict[str, int]
    silos: int
    """In how many silos they lie."""
    rejected: int
    """Feedback that stays where it is because a person rejected it; it does not wait."""
    left: int
    """Files that are left alone and that their owner could mend."""

    @property
    def memories(self) -> int:
        """How many wait."""
        return sum(self.by_type.values())

    def __str__(self) -> str:
        memories, silos = "memory" if self.memories == 1 else "memories", "silo" if self.silos == 1 else "silos"
        return f"{self.memories:,} un-ingested {memories} across {self.silos:,} {silos}"


def count_backlog(silos: Silos, decisions: Decisions) -> Backlog:
    """Return what waits."""
    rejected = {
        each.key: each.digest
        for proposal in decisions.proposals
        if proposal.status is Status.REJECTED
        for each in proposal.silo_files
    }
    waiting = [entry for entry in silos.entries if rejected.get(entry.item.key) != entry.digest]
    return Backlog(
        by_type=dict(sorted(Counter(entry.item.kind.value for entry in waiting).items())),
        silos=len({entry.slug for entry in waiting}),
        rejected=len(silos.entries) - len(waiting),
        left=sum(not refusal.passed_over for refusal in silos.left),
    )


def doubled_names(homes: Homes) -> int:
    """Return how many entries have a name that another one of their home has."""
    return len(homes.entries) - len({(entry.kind, entry.name) for entry in homes.entries})


def dangling_pointers(projects_dir: Path) -> int:
    """Return how many files the indexes of all silos point to that are not there."""
    found = 0
    for index in projects_dir.glob(f"*/memory/{INDEX_NAME}"):
        try:
            found += sum(not (index.parent / name).exists() for name in hooks_of(read_index(index, projects_dir)))
        except RefusedFileError:
            continue
    return found
