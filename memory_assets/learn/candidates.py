"""What wants to be an entry of the canonical homes: silo memories as the last check read them, and accepted proposals."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.learn.canonical import learned_file, moved_file, provenance, render
from memory_assets.learn.proposals import Decisions, Evidence, Proposal, Status
from memory_assets.learn.silos import SiloEntry, Silos
from memory_assets.models import Kind


@dataclass(frozen=True, slots=True)
class Waiting:
    """A silo memory that this apply does not take, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that wants to be the entry of its name in its home."""

    kind: Kind
    name: str
    description: str
    body: str
    written_at: datetime
    sources: tuple[SiloEntry, ...]
    """Newest first; empty where it was learned from ratings and reflections alone."""
    proposal: Proposal | None = None

    @property
    def said(self) -> tuple[str, str]:
        """What it says, for comparison."""
        return said_by(self.description, self.body)

    def file(self, now: datetime, learning_dir: Path, hooks: Sequence[str], others: Iterable[str]) -> bytes:
        """The canonical file that it would be."""
        if not self.sources:
            assert self.proposal
            return _learned(self, self.proposal.evidence, now, learning_dir)
        newest = replace(self.sources[0], hooks=tuple(hooks))
        if self.proposal is None or (len(self.sources) == 1 and not self.proposal.edited):
            return moved_file(newest, now, others)
        merged = [*(str(each.path) for each in self.sources[1:]), *others]
        fields = {"name": self.name, "description": self.description, "type": self.kind.value, "created": iso(self.written_at)}
        return render(fields | provenance(newest, now, merged), f"\n{self.body}\n")


def candidates(silos: Silos, decisions: Decisions, waiting: list[Waiting]) -> Iterator[Candidate]:
    """Yield them; what is not taken, and why, goes to `waiting`."""
    proposed = {each.key: proposal for proposal in decisions.proposals for each in proposal.silo_files}
    unchanged: dict[str, SiloEntry] = {}
    for entry in silos.entries:
        key = entry.item.key
        checked = decisions.checked.get(key)
        if checked != entry.digest:
            waiting.append(Waiting(entry.path, "it changed since the check" if checked else "no check has seen it yet"))
            continue
        unchanged[key] = entry
        if entry.item.kind is not Kind.FEEDBACK:
            said = said_by(entry.item.description, entry.item.body)
            yield Candidate(entry.item.kind, entry.item.title, *said, entry.written_at, (entry,))
        elif (proposal := proposed.get(key)) is None or proposal.status is not Status.ACCEPTED:
            waiting.append(Waiting(entry.path, _undecided(proposal)))
    for proposal in decisions.proposals:
        if proposal.status is not Status.ACCEPTED:
            continue
        sources = [unchanged[each.key] for each in proposal.silo_files if each.key in unchanged]
        if len(sources) < len(proposal.silo_files):
            waiting += [Waiting(entry.path, f"{proposal.id} is of a file that changed since the check") for entry in sources]
            continue
        sources.sort(key=lambda entry: entry.written_at, reverse=True)
        times = [datetime.fromisoformat(each.at) for each in proposal.evidence]
        written = sources[0].written_at if sources else max(times)
        said = (proposal.description, proposal.body)
        if len(sources) == 1 and not proposal.edited:
            said = said_by(sources[0].item.description, sources[0].item.body)
        yield Candidate(Kind.FEEDBACK, proposal.name, *said, written, tuple(sources), proposal)


def _undecided(proposal: Proposal | None) -> str:
    if proposal is None:
        return "it is feedback that no check has proposed yet"
    if proposal.status is Status.REJECTED:
        return "its proposal was rejected"
    return f"its proposal is {proposal.status}; `memory learn review` decides"


def _learned(candidate: Candidate, evidence: Sequence[Evidence], now: datetime, learning_dir: Path) -> bytes:
    newest = max(evidence, key=lambda each: each.at)
    return learned_file(
        candidate.name,
        candidate.description,
        f"\n{candidate.body}\n",
        source_cwd=newest.project or str(learning_dir),
        original_path=newest.path,
        evidence="\n".join(each.quote for each in evidence).encode(),
        ingested_at=now,
    )


def said_by(description: str, body: str) -> tuple[str, str]:
    """Return what an entry says, for comparison: a body that only repeats the description is none."""
    description, body = description.strip(), body.strip()
    return description, "" if body == description else body


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat()
