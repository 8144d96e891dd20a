"""The files that `memory learn` keeps in the LEARNING folder, in PAI's formats.

A check writes `last-synthesis.md`, which PAI's sessions read. `review.md` shows the proposals as a file that a person edits: it is read
back before it is written again. A status, the proposed text and the notes count; proposals in it that are not ours stay as they are.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory_assets.learn.journal import Proposal, Status
from memory_assets.learn.memory_files import HOME_OF, MemoryFiles
from memory_assets.learn.signals import PRAISE, PROBLEM, Signals
from memory_assets.models import Kind
from memory_assets.sources.dating import utc_seconds

PIPELINE_VERSION = "1.0.0"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check worked on, and wrote."""

    at: datetime
    silos: MemoryFiles
    signals: Signals
    proposals: Sequence[Proposal]
    written: tuple[Path, ...]
    told: list[str]
    """Sentences for a person."""

    @property
    def open(self) -> list[Proposal]:
        """The proposals that are, or may be, decided on, the most urgent first."""
        found = [each for each in self.proposals if each.status in (Status.PENDING, Status.DEFERRED, Status.ACCEPTED)]
        return sorted(found, key=lambda each: each.urgency)


def last_synthesis(checked: Checked) -> str:
    """Return `last-synthesis.md`: the themes, and which signals agree."""
    crossed = [each for each in checked.open if len({evidence.origin for evidence in each.evidence}) > 1]
    signals, silos = checked.signals, checked.silos
    feedback = silos.counts.get(Kind.FEEDBACK, 0)
    low = sum(mean <= PROBLEM for mean in signals.sessions().values())
    high = sum(signal.level == "HIGH" for signal in signals.reflections)
    head = (
        f"---\nstage: synthesise\ngenerated: {utc_seconds(checked.at)}\npipeline_version: {PIPELINE_VERSION}\n"
        f"upgrade_candidates: {len(checked.open)}\ncross_referenced: true\nreflections_analyzed: {len(signals.reflections)}\n"
        f"ratings_analyzed: {len(signals.ratings)}\nsilo_feedback_analyzed: {feedback}\n---\n\n"
    )
    parts = [
        "## Internal Signals\n",
        "### Algorithm Reflections\n",
        f"**Entries analyzed:** {len(signals.reflections)} | **High-signal:** {high} | **Feedback files in silos:** {feedback}\n",
        *(_candidate(each) for each in checked.open),
        "### Behavioral Signals from Ratings\n",
        f"**Entries analyzed:** {len(signals.ratings)} | **Explicit feedback:** "
        f"{sum(each.evidence.weight >= 1 for each in signals.ratings)} | **Problem sessions:** {low}\n",
        "#### STOP (Low-Rating Patterns)\n",
        *_patterns(signals, low=True),
        "#### DO MORE (High-Rating Patterns)\n",
        *_patterns(signals, low=False),
        "### Cross-Referenced Signals\n",
        *(f"- **{each.name}** ({each.severity}): {signal_line(each)}" for each in crossed),
    ]
    return head + "\n".join(parts) + "\n"


def signal_line(proposal: Proposal) -> str:
    """How much speaks for a proposal, as PAI's review writes it."""
    counts = ", ".join(
        f"{label} ({count})"
        for label, origin in (("silos", "silo"), ("reflections", "reflection"), ("ratings", "rating"), ("homes", "home"))
        if (count := sum(each.origin == origin for each in proposal.evidence))
    )
    inferred = sum(each.origin == "rating" and each.weight < 1 for each in proposal.evidence)
    mean = "" if proposal.average is None else f", avg {proposal.average:.1f}/10"
    doubt = f", {inferred} of them inferred" if inferred else ""
    number = len(proposal.evidence)
    return f"{number} {'occurrence' if number == 1 else 'occurrences'} across {counts}{doubt}{mean}"


def _candidate(proposal: Proposal) -> str:
    quotes = "\n".join(f'- {each.at[:10]} {each.origin} — "{_one_line(each.quote)}"' for each in proposal.evidence[-_SHOWN:])
    return (
        f"#### {proposal.name} ({len(proposal.evidence)} occurrences, {proposal.severity} severity)\n"
        f"**Proposal:** {proposal.id} ({proposal.status})\n**Proposed fix:** {_one_line(proposal.description)}\n"
        f"**Target:** {HOME_OF[proposal.kind]}\n**Evidence:**\n{quotes}\n"
    )


def _patterns(signals: Signals, *, low: bool) -> list[str]:
    lines = [
        f"- **{_one_line(each.quote)}** ({each.score:g}/10{'' if each.weight >= 1 else ', inferred'})"
        for each in (signal.evidence for signal in signals.ratings)
        if each.quote and each.score is not None and (each.score <= PROBLEM if low else each.score >= PRAISE)
    ]
    return [*lines, ""]


def _one_line(text: str) -> str:
    return " ".join(text.split())


REVIEW_NAME = "review.md"
_HEADING = re.compile(r"^## (LP-\d+) — .*$", re.MULTILINE)
_STATUS = re.compile(r"^- \*\*Status:\s*([A-Za-z]+)\s*\*\*", re.MULTILINE)
_CHANGE = re.compile(r"^- Proposed change:[ \t]*\n((?:[ \t]*>.*(?:\n|\Z)|[ \t]*\n(?=[ \t]*>))*)", re.MULTILINE)
_NOTES = re.compile(r"^- Notes:((?s:.*))", re.MULTILINE)
_END = re.compile(r"\n---\s*\Z")
_QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_DECISIONS = (Status.PENDING, Status.ACCEPTED, Status.DEFERRED, Status.REJECTED)
_IN_REVIEW = (*_DECISIONS, Status.APPLIED)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person's edit says of one proposal; None for what stands as it was."""

    id: str
    status: Status | None = None
    description: str | None = None
    body: str | None = None
    note: str | None = None


def render_review(proposals: Sequence[Proposal], before: str, *, at: str, reflections: int, ratings: int) -> str:
    """Return the file with all proposals but those that were withdrawn, and the proposals of `before` that are not ours.

    `at` is ISO 8601; `reflections` and `ratings` are the numbers that the last check read.
    """
    ours = {proposal.id for proposal in proposals}
    others = [text for identity, text in _sections(before) if identity not in ours]
    shown = sorted((each for each in proposals if each.status in _IN_REVIEW), key=lambda each: each.urgency)
    since = min((each.first_seen[:10] for each in shown), default=at[:10])
    head = (
        f"---\ngenerated: {at}\npipeline_version: {PIPELINE_VERSION}\nsignals_since: {since}\n"
        f"reflections: {reflections}\nratings: {ratings}\n---\n\n# Learning Review\n\n"
        "Change a status, the proposed change or the notes, save, and run `memory learn apply`.\n\n"
    )
    return head + "".join([*map(_section, shown), *others])


def read_review(text: str, proposals: Iterable[Proposal]) -> list[Decided]:
    """Return what a person changed in the file, compared with the proposals it was made of.

    A status that is none of PAI's words, and what does not look like a proposal any more, change nothing.
    """
    known = {proposal.id: proposal for proposal in proposals}
    decided: list[Decided] = []
    for identity, section in _sections(text):
        if proposal := known.get(identity):
            change = _changed(proposal, section)
            if change != Decided(identity):
                decided.append(change)
    return decided


def highest_number(text: str) -> int:
    """Return the highest number of a proposal in the file, whoever it is from."""
    return max((int(identity.removeprefix("LP-")) for identity, _ in _sections(text)), default=0)


def _changed(proposal: Proposal, section: str) -> Decided:
    written = _section(proposal)
    status = None
    if (found := _STATUS.search(section)) and found[1].upper() in _DECISIONS and found[1].upper() != proposal.status:
        status = Status(found[1].upper())
    description = body = None
    now, was = (_CHANGE.search(text) for text in (section, written))
    if now and was and _unquoted(now[1]) != _unquoted(was[1]) and _unquoted(now[1]):
        description, _, body = (part.strip() for part in _unquoted(now[1]).partition("\n\n"))
        description = " ".join(description.split())
    note = _note(section)
    return Decided(proposal.id, status, description, body, None if note == _note(written) else note)


def _note(section: str) -> str | None:
    """Return the notes of a proposal: all that follows `Notes:` up to the rule at its end, quoted or not."""
    if (found := _NOTES.search(_END.sub("\n", section))) is None:
        return None
    text = found[1].strip()
    is_quoted = found[1].partition("\n")[0].isspace() or found[1].startswith("\n")
    return _unquoted(text) if is_quoted and all(line.lstrip().startswith(">") for line in text.split("\n")) else text


def _section(proposal: Proposal) -> str:
    text = "\n\n".join(filter(None, (proposal.description, proposal.body)))
    note = f"\n{_quoted(proposal.note)}" if "\n" in proposal.note or proposal.note.startswith(">") else f" {proposal.note}"
    done = f"\n- Applied: {proposal.decided_at}" if proposal.status is Status.APPLIED else ""
    taken = "".join(f"\n  - {each.path}" for each in proposal.leaving)
    return (
        f"## {proposal.id} — {' '.join(proposal.name.split())}\n"
        f"- **Status: {proposal.status}** <!-- {' | '.join(_DECISIONS)} -->{done}\n"
        f"- Severity: {proposal.severity}\n"
        f"- Signal: {signal_line(proposal)}\n"
        f"- Trend: {proposal.trend}\n"
        f"- First seen: {proposal.first_seen[:10]}\n"
        f"- Target: {HOME_OF[proposal.kind]}{', taken from' if taken else ''}{taken}\n"
        f"- Proposed change:\n{_quoted(text)}\n"
        f"- Notes:{note}\n\n---\n\n"
    )


def _sections(text: str) -> list[tuple[str, str]]:
    """Return each proposal of the file with its id."""
    text = text.replace("\r\n", "\n")
    starts = list(_HEADING.finditer(text))
    ends = [*(found.start() for found in starts), len(text)][1:]
    return [(found[1], text[found.start() : end]) for found, end in zip(starts, ends, strict=False)]


def _quoted(text: str) -> str:
    return "\n".join(f"  > {line}".rstrip() for line in text.split("\n"))


def _unquoted(text: str) -> str:
    return "\n".join(line.rstrip() for line in _QUOTE.sub("", text).strip().split("\n"))
