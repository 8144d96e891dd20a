"""Proposals: feedback that a person is to decide on, and what they decided. Nothing of it can be derived again.

They lie beside the memories, in `<tenant>/learn/proposals.json`, with the digest of every silo file as the last check read it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from pathlib import Path

from pydantic import TypeAdapter

from memory_assets.errors import DamagedError, NotFoundError
from memory_assets.stores.files import replace_file


class Status(StrEnum):
    """Where a proposal stands, in PAI's words."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    DEFERRED = "DEFERRED"
    REJECTED = "REJECTED"
    APPLIED = "APPLIED"
    WITHDRAWN = "WITHDRAWN"
    """What it was made of is gone."""


class Severity(StrEnum):
    """How urgent a theme is."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MODERATE = "MODERATE"
    LOW = "LOW"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that speaks for a proposal."""

    key: str
    """Under which `memory run` knows it."""
    origin: str
    """`silo`, `reflection` or `rating`."""
    quote: str
    at: str
    """ISO 8601, UTC."""
    weight: float = 1.0
    """1 for what was stated, its confidence for what was inferred."""
    score: float | None = None
    """1 to 10; None where there is none, which says nothing."""
    project: str = ""
    """Working directory that it comes from, where that is known."""
    path: str = ""
    """The file that it stands in."""
    digest: str = ""
    """Of a silo file, as it was read."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One entry of FEEDBACK that might be written."""

    id: str
    """`LP-001`."""
    name: str
    description: str
    body: str
    severity: Severity
    evidence: tuple[Evidence, ...]
    first_seen: str
    status: Status = Status.PENDING
    trend: str = "new"
    edited: bool = False
    """Whether a person wrote its text."""
    note: str = ""
    decided_at: str = ""
    decided_strength: float = 0.0
    """Its strength when it was decided on."""
    decided_text: str = ""
    """Digest of its text when it was decided on."""

    @property
    def strength(self) -> float:
        """How much speaks for it: what was inferred counts as much as it is sure."""
        return round(sum(each.weight for each in self.evidence), 3)

    @property
    def average(self) -> float | None:
        """Mean score, each weighed; None without any."""
        scored = [(each.score, each.weight) for each in self.evidence if each.score is not None]
        total = sum(weight for _, weight in scored)
        return sum(score * weight for score, weight in scored) / total if total else None

    @property
    def silo_files(self) -> tuple[Evidence, ...]:
        """The files that accepting it takes out of their silos."""
        return tuple(each for each in self.evidence if each.origin == "silo")

    @property
    def text_digest(self) -> str:
        """Digest of what would be written."""
        files = sorted(each.digest for each in self.silo_files)
        return blake2b(json.dumps([self.name, self.description, self.body, files]).encode(), digest_size=16).hexdigest()

    @property
    def urgency(self) -> tuple[int, int, float, str]:
        """A key that sorts the proposals to decide on before others, and the most urgent first."""
        return list(Status).index(self.status), list(Severity).index(self.severity), -self.strength, self.id

    def counted(self, origin: str) -> int:
        """How much of its evidence is of one origin."""
        return sum(each.origin == origin for each in self.evidence)

    def decided(self, status: Status, at: str) -> "Proposal":
        """It after a person's decision."""
        return replace(self, status=status, decided_at=at, decided_strength=self.strength, decided_text=self.text_digest)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the last check found and what was decided."""

    checked_at: str = ""
    checked: dict[str, str] = field(default_factory=dict)
    """Key of each silo memory -> digest of its file."""
    proposals: tuple[Proposal, ...] = ()
    reflections: int = 0
    ratings: int = 0
    reviews: tuple[str, ...] = ()
    """Digests of `review.md` as it was written last, and before: any other was edited by a person."""

    def find(self, reference: str) -> Proposal:
        """The proposal of an id: `LP-001`, `lp-1` or `1`."""
        number = reference.strip().upper().removeprefix("LP-").lstrip("0")
        for proposal in self.proposals:
            if proposal.id.removeprefix("LP-").lstrip("0") == number:
                return proposal
        raise NotFoundError(f"There is no proposal {reference}; `memory learn review` lists them.")

    def with_proposals(self, changed: Iterable[Proposal]) -> "Decisions":
        """The same with some proposals in place of those of their ids."""
        new = {proposal.id: proposal for proposal in changed}
        return replace(self, proposals=tuple(new.get(each.id, each) for each in self.proposals))


def read_decisions(folder: Path) -> Decisions:
    """What is kept in a tenant's learn folder; nothing before the first check."""
    path = folder / "proposals.json"
    try:
        return _decisions().validate_json(path.read_bytes())
    except FileNotFoundError:
        return Decisions()
    except (OSError, ValueError) as error:
        raise DamagedError(
            f"{path} cannot be read ({error}); restore it from a backup, or move it away to begin anew."
        ) from error


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Replace the file."""
    replace_file(folder / "proposals.json", _decisions().dump_json(decisions, indent=1) + b"\n")


@cache
def _decisions() -> TypeAdapter[Decisions]:
    return TypeAdapter(Decisions)
