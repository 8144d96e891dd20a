"""Stored state of curation: proposals with a person's decisions, and the journal of applies. It cannot be derived again.

`<tenant>/learn/proposals.json` has the proposals, and the digest of every silo file as the last check read it. Before its first step,
an apply writes its plan and a copy of every file that it changes:

    <tenant>/learn/applies/0001/plan.json    the steps; once it exists, the next apply finishes an interrupted one
                                contents     the old and new content of every file, concatenated
                                index-N      a silo's index before its lines were removed
                                done, undoing, undone
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

from pydantic import TypeAdapter

from memory_assets.errors import ConflictError, DamagedError, NotFoundError
from memory_assets.models import Kind
from memory_assets.sources.files import digest_of
from memory_assets.stores.files import replace_file


class Status(StrEnum):
    """The status of a proposal, in PAI's words."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    DEFERRED = "DEFERRED"
    REJECTED = "REJECTED"
    APPLIED = "APPLIED"
    WITHDRAWN = "WITHDRAWN"
    """Its evidence is gone."""


class Severity(StrEnum):
    """How urgent a theme is."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MODERATE = "MODERATE"
    LOW = "LOW"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A piece of evidence for a proposal."""

    key: str
    origin: str
    """`silo`, `reflection`, `rating`, or `home` for a canonical file."""
    quote: str
    at: str
    """ISO 8601, UTC."""
    weight: float = 1.0
    """1 if it was stated; its confidence if it was inferred."""
    score: float | None = None
    """1 to 10; None if there is none."""
    project: str = ""
    """Working directory that it comes from, if known."""
    path: str = ""
    digest: str = ""
    """Digest of a silo or home file when it was read."""

    def line(self) -> str:
        inferred = f", inferred with {self.weight:.0%}" if self.weight < 1 else ""
        score = "" if self.score is None else f", {self.score:g}/10"
        place = f" in {self.project}" if self.project else ""
        return f"{self.origin} of {self.at[:10]}{place}{score}{inferred}: {' '.join(self.quote.split())}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A canonical entry that might be written: feedback, or several entries of another home consolidated into one."""

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
    note: str = ""
    decided_at: str = ""
    decided_strength: float = 0.0
    decided_text: str = ""
    """Digest of its text at the time of the decision."""
    kind: Kind = Kind.FEEDBACK

    @property
    def strength(self) -> float:
        return round(sum(each.weight for each in self.evidence), 3)

    @property
    def average(self) -> float | None:
        """Weighted mean score; None without scores."""
        scored = [(each.score, each.weight) for each in self.evidence if each.score is not None]
        total = sum(weight for _, weight in scored)
        return sum(score * weight for score, weight in scored) / total if total else None

    @property
    def silo_files(self) -> tuple[Evidence, ...]:
        """The silo files that an accepted proposal deletes."""
        return tuple(each for each in self.evidence if each.origin == "silo")

    @property
    def home_files(self) -> tuple[Evidence, ...]:
        """The canonical files that an accepted proposal consolidates, oldest first."""
        return tuple(each for each in self.evidence if each.origin == "home")

    @property
    def leaving(self) -> tuple[Evidence, ...]:
        """The files that an accepted proposal deletes: all silo files, and all canonical files but the newest."""
        return self.silo_files + self.home_files[:-1]

    @property
    def text_digest(self) -> str:
        """Digest of the text and files that the proposal would write."""
        files = sorted(each.digest for each in self.silo_files + self.home_files)
        return blake2b(json.dumps([self.name, self.description, self.body, files]).encode(), digest_size=16).hexdigest()

    @property
    def urgency(self) -> tuple[int, int, float, str]:
        """Sort key: undecided proposals first, then the most urgent."""
        return list(Status).index(self.status), list(Severity).index(self.severity), -self.strength, self.id

    def decided(self, status: Status, at: str) -> "Proposal":
        return replace(self, status=status, decided_at=at, decided_strength=self.strength, decided_text=self.text_digest)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The results of the last check, and a person's decisions."""

    checked_at: str = ""
    checked: dict[str, str] = field(default_factory=dict)
    """Digest of each silo file, by memory key."""
    proposals: tuple[Proposal, ...] = ()
    reflections: int = 0
    ratings: int = 0
    reviews: tuple[str, ...] = ()
    """Digests of the last two versions of `review.md`. A file with another digest was edited by a person."""

    def find(self, reference: str) -> Proposal:
        """Return the proposal with an id such as `LP-001`, `lp-1` or `1`. Raise NotFoundError if there is none."""
        number = reference.strip().upper().removeprefix("LP-").lstrip("0")
        for proposal in self.proposals:
            if proposal.id.removeprefix("LP-").lstrip("0") == number:
                return proposal
        raise NotFoundError(f"There is no proposal {reference}; list the proposals (learn review).")

    def with_proposals(self, changed: Iterable[Proposal]) -> "Decisions":
        new = {proposal.id: proposal for proposal in changed}
        return replace(self, proposals=tuple(new.get(each.id, each) for each in self.proposals))


_DECISIONS = TypeAdapter(Decisions)


def read_decisions(folder: Path) -> Decisions:
    """Read the decisions in a tenant's learn folder; empty before the first check. Raise DamagedError if they are unreadable."""
    path = folder / "proposals.json"
    try:
        return _DECISIONS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return Decisions()
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Write the decisions to a tenant's learn folder."""
    replace_file(folder / "proposals.json", _DECISIONS.dump_json(decisions, indent=1) + b"\n")


_PLAN = "plan.json"
_CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class Placed:
    """A canonical file that an apply writes."""

    path: str
    digest: str
    """Digest of the new content."""
    before: str | None
    """Digest of the old content; None if there is no file."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A silo file, or a consolidated home file, that an apply deletes once its canonical file holds its content."""

    path: str
    digest: str
    mtime_ns: int
    mode: int
    key: str
    canonical: str
    canonical_digest: str
    """Digest that the canonical file must have before this file is deleted."""
    canonical_key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one apply."""

    number: int
    made_at: str
    """ISO 8601, UTC."""
    placed: tuple[Placed, ...]
    taken: tuple[Taken, ...]
    proposals: tuple[str, ...] = ()
    """Ids of the accepted proposals that it executes."""
    told: tuple[str, ...] = ()
    """Sentences for a person about merged and replaced entries."""
    folders: tuple[str, ...] = ()
    """Folders that it creates for canonical files, outer ones first."""
    made_by: str = ""
    """User and machine, such as `mira on otter`."""
    contents: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Offset and length of each file in the journal's `contents`, by digest; empty before the apply begins."""


_PLANS = TypeAdapter(Plan)


class Journal:
    """The applies of one tenant. Methods that read a plan raise DamagedError if it is unreadable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """Return the numbers of all applies in ascending order. An apply counts once its plan is written."""
        if not self.folder.is_dir():
            return []
        return sorted(int(each.name) for each in self.folder.iterdir() if each.name.isdigit() and (each / _PLAN).exists())

    def latest(self) -> int | None:
        """Return the number of the last apply that is not undone; None if there is none."""
        return next((number for number in reversed(self.numbers()) if not self.has(number, "undone")), None)

    def unfinished(self) -> int | None:
        """Return the number of the apply that was interrupted while it was executed or undone; None if there is none."""
        for number in reversed(self.numbers()):
            if not self.has(number, "undone") and (self.has(number, "undoing") or not self.has(number, "done")):
                return number
        return None

    def moves(self) -> dict[str, str]:
        """Return the key of the canonical memory that each silo memory became, by the silo memory's key."""
        plans = (self.plan(number) for number in self.numbers() if not self.has(number, "undoing"))
        return {taken.key: taken.canonical_key for plan in plans for taken in plan.taken}

    def written(self) -> dict[str, set[str]]:
        """Return the digests of everything that applies wrote or found at each canonical path."""
        found: dict[str, set[str]] = defaultdict(set)
        for number in self.numbers():
            for placed in self.plan(number).placed:
                found[placed.path] |= {placed.digest, placed.before or ""}
        return found

    def begin(self, plan: Plan, contents: Mapping[str, bytes]) -> None:
        """Record an apply: first the old and new content of its files, then its plan. From then on it will be finished."""
        ends = accumulate(map(len, contents.values()))
        spans = {digest: (end - len(data), len(data)) for (digest, data), end in zip(contents.items(), ends, strict=True)}
        replace_file(self.copies(plan.number), b"".join(contents.values()))
        replace_file(self._folder_of(plan.number) / _PLAN, _PLANS.dump_json(replace(plan, contents=spans), indent=1) + b"\n")

    def plan(self, number: int) -> Plan:
        path = self._folder_of(number) / _PLAN
        try:
            return _PLANS.validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from error

    def copies(self, number: int) -> Path:
        """Return the path of the file with the old and new content of all files of an apply."""
        return self._folder_of(number) / _CONTENTS

    def contents(self, number: int) -> dict[str, bytes]:
        """Read the old and new content of all files of an apply, by digest.

        Raise ConflictError if the copies were deleted, DamagedError if they are unreadable.
        """
        path = self.copies(number)
        spans = self.plan(number).contents
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise ConflictError(
                f"Apply {number} cannot be undone: its copies are gone, as after an erasure or a scan that masked secrets."
            ) from error
        except OSError as error:
            raise _damaged(path, error) from error
        found = {digest: data[start : start + length] for digest, (start, length) in spans.items()}
        if any(digest_of(content) != digest for digest, content in found.items()):
            raise DamagedError(f"{path} is damaged; restore it from a backup.")
        return found

    def has(self, number: int, mark: str) -> bool:
        """Whether an apply has the mark `done`, `undoing` or `undone`."""
        return (self._folder_of(number) / mark).exists()

    def mark(self, number: int, mark: str) -> None:
        """Mark an apply as `done`, `undoing` or `undone`."""
        replace_file(self._folder_of(number) / mark, b"")

    def index(self, number: int, place: int) -> Path:
        """Return the path of the backup of a silo's index."""
        return self._folder_of(number) / f"index-{place}"

    def _folder_of(self, number: int) -> Path:
        return self.folder / f"{number:04}"


def _damaged(path: Path, error: Exception) -> DamagedError:
    return DamagedError(f"{path} cannot be read ({error}); restore it from a backup, or move it away to continue without it.")
