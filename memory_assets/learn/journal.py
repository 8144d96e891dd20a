"""What curation keeps: proposals with what a person decided, and the journal of applies. Nothing of it can be derived again.

`<tenant>/learn/proposals.json` has the proposals, and the digest of every silo file as the last check read it. What an apply is going to
do is on the disk before its first step, with a copy of all that it changes:

    <tenant>/learn/applies/0001/plan.json    the steps; once it is there the apply will be finished, by whoever comes next
                                contents     every file as it was, and as it is going to be, one after the other
                                index-N      a silo's index as it was just before its lines were taken out
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
    """`silo`, `reflection`, `rating`, or `home` for a canonical file."""
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
    """Of a file, as it was read."""

    def line(self) -> str:
        """It in one line."""
        inferred = f", inferred with {self.weight:.0%}" if self.weight < 1 else ""
        score = "" if self.score is None else f", {self.score:g}/10"
        place = f" in {self.project}" if self.project else ""
        return f"{self.origin} of {self.at[:10]}{place}{score}{inferred}: {' '.join(self.quote.split())}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One canonical entry that might be written: of feedback, or several entries of another home consolidated into one."""

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
    kind: Kind = Kind.FEEDBACK
    """The home that it belongs to."""

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
    def home_files(self) -> tuple[Evidence, ...]:
        """The canonical files that accepting it makes one, the oldest first."""
        return tuple(each for each in self.evidence if each.origin == "home")

    @property
    def leaving(self) -> tuple[Evidence, ...]:
        """The files that accepting it deletes: those in silos, and of canonical ones all but the newest."""
        return self.silo_files + self.home_files[:-1]

    @property
    def text_digest(self) -> str:
        """Digest of what would be written."""
        files = sorted(each.digest for each in self.silo_files + self.home_files)
        return blake2b(json.dumps([self.name, self.description, self.body, files]).encode(), digest_size=16).hexdigest()

    @property
    def urgency(self) -> tuple[int, int, float, str]:
        """A key that sorts the proposals to decide on before others, and the most urgent first."""
        return list(Status).index(self.status), list(Severity).index(self.severity), -self.strength, self.id

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
        raise NotFoundError(f"There is no proposal {reference}; look at those that there are (learn review).")

    def with_proposals(self, changed: Iterable[Proposal]) -> "Decisions":
        """The same with some proposals in place of those of their ids."""
        new = {proposal.id: proposal for proposal in changed}
        return replace(self, proposals=tuple(new.get(each.id, each) for each in self.proposals))


_DECISIONS = TypeAdapter(Decisions)


def read_decisions(folder: Path) -> Decisions:
    """What is kept in a tenant's learn folder; nothing before the first check."""
    path = folder / "proposals.json"
    try:
        return _DECISIONS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return Decisions()
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def write_decisions(folder: Path, decisions: Decisions) -> None:
    """Replace the file."""
    replace_file(folder / "proposals.json", _DECISIONS.dump_json(decisions, indent=1) + b"\n")


_PLAN = "plan.json"
_CONTENTS = "contents"


@dataclass(frozen=True, slots=True)
class Placed:
    """A canonical file that is written."""

    path: str
    digest: str
    """Of what it will hold."""
    before: str | None
    """Digest of what it holds; None where there is no such file."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A file of a silo, or of a home if it is consolidated with another, that is deleted once what it says is in its canonical file."""

    path: str
    digest: str
    mtime_ns: int
    mode: int
    key: str
    """Under which `memory run` knows it."""
    canonical: str
    """Path of the file that holds what it says."""
    canonical_digest: str
    """Of that file: nothing is deleted unless it holds this."""
    canonical_key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What one apply does."""

    number: int
    made_at: str
    """ISO 8601, UTC."""
    placed: tuple[Placed, ...]
    taken: tuple[Taken, ...]
    proposals: tuple[str, ...] = ()
    """Ids of the accepted proposals that it carries out."""
    told: tuple[str, ...] = ()
    """Sentences for a person: what was merged, what another replaced."""
    folders: tuple[str, ...] = ()
    """Folders that the canonical files need and that were not there, outer ones first."""
    made_by: str = ""
    """User and machine, such as `mira on otter`."""
    contents: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Place and length of each file among the copies, by digest; empty before the apply begins."""


_WRITTEN = TypeAdapter(Plan)


class Journal:
    """The applies of one tenant; methods that read a plan raise DamagedError if it cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """The applies that were begun, the first one first; what a kill left before its plan was whole does not count."""
        if not self.folder.is_dir():
            return []
        return sorted(int(each.name) for each in self.folder.iterdir() if each.name.isdigit() and (each / _PLAN).exists())

    def latest(self) -> int | None:
        """The last apply that was not undone."""
        return next((number for number in reversed(self.numbers()) if not self.has(number, "undone")), None)

    def unfinished(self) -> int | None:
        """The apply, or undo, that a kill left; there is at most one."""
        for number in reversed(self.numbers()):
            if not self.has(number, "undone") and (self.has(number, "undoing") or not self.has(number, "done")):
                return number
        return None

    def moves(self) -> dict[str, str]:
        """Which canonical memory each silo memory became, by their keys."""
        plans = (self.plan(number) for number in self.numbers() if not self.has(number, "undoing"))
        return {taken.key: taken.canonical_key for plan in plans for taken in plan.taken}

    def written(self) -> dict[str, set[str]]:
        """By path of a canonical file: the digests of all that applies wrote there."""
        found: dict[str, set[str]] = defaultdict(set)
        for number in self.numbers():
            for placed in self.plan(number).placed:
                found[placed.path] |= {placed.digest, placed.before or ""}
        return found

    def begin(self, plan: Plan, contents: Mapping[str, bytes]) -> None:
        """Write an apply down: first all that it changes and writes, then its plan. From then on it will be finished."""
        ends = accumulate(map(len, contents.values()))
        spans = {digest: (end - len(data), len(data)) for (digest, data), end in zip(contents.items(), ends, strict=True)}
        replace_file(self.copies(plan.number), b"".join(contents.values()))
        written = _WRITTEN.dump_json(replace(plan, contents=spans), indent=1) + b"\n"
        replace_file(self._of(plan.number) / _PLAN, written)

    def plan(self, number: int) -> Plan:
        """The plan of an apply."""
        path = self._of(number) / _PLAN
        try:
            return _WRITTEN.validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from error

    def copies(self, number: int) -> Path:
        """The file that holds all that an apply changed, as it was and as it was going to be."""
        return self._of(number) / _CONTENTS

    def contents(self, number: int) -> dict[str, bytes]:
        """The files of an apply as the journal keeps them, by digest."""
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
        """Whether an apply bears a mark: `done`, `undoing`, `undone`."""
        return (self._of(number) / mark).exists()

    def mark(self, number: int, mark: str) -> None:
        """Give an apply a mark."""
        replace_file(self._of(number) / mark, b"")

    def index(self, number: int, place: int) -> Path:
        """The file that keeps a silo's index as it was just before lines were taken out."""
        return self._of(number) / f"index-{place}"

    def _of(self, number: int) -> Path:
        return self.folder / f"{number:04}"


def _damaged(path: Path, error: Exception) -> DamagedError:
    return DamagedError(f"{path} cannot be read ({error}); restore it from a backup, or move it away to do without it.")
