"""The files that `memory learn` keeps in the LEARNING folder, in PAI's formats.

A check writes `last-synthesis.md`, which PAI's sessions read. `review.md` shows the proposals and may be edited: it is read back before
it is written again. Edits of a status, the proposed text and the notes count. Proposals of other programs in it are preserved.
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
    """The input and results of a check."""

    at: datetime
    silos: MemoryFiles
    signals: Signals
    proposals: Sequence[Proposal]
    written: tuple[Path, ...]
    told: list[str]
    """Sentences for a person."""

    @property
    def open(self) -> list[Proposal]:
        """The pending, deferred and accepted proposals, most urgent first."""
        found = [each for each in self.proposals if each.status in (Status.PENDING, Status.DEFERRED, Status.ACCEPTED)]
        return sorted(found, key=lambda each: each.urgency)


def last_synthesis(checked: Checked) -> str:
    """Render `last-synthesis.md`: the themes, and the signals that agree."""
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
        *(_render_candidate(each) for each in checked.open),
        "### Behavioral Signals from Ratings\n",
        f"**Entries analyzed:** {len(signals.ratings)} | **Explicit feedback:** "
        f"{sum(each.evidence.weight >= 1 for each in signals.ratings)} | **Problem sessions:** {low}\n",
        "#### STOP (Low-Rating Patterns)\n",
        *_render_patterns(signals, low=True),
        "#### DO MORE (High-Rating Patterns)\n",
        *_render_patterns(signals, low=False),
        "### Cross-Referenced Signals\n",
        *(f"- **{each.name}** ({each.severity}): {signal_line(each)}" for each in crossed),
    ]
    return head + "\n".join(parts) + "\n"


def signal_line(proposal: Proposal) -> str:
    """Summarise the evidence for a proposal in the words of PAI's review."""
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


def _render_candidate(proposal: Proposal) -> str:
    quotes = "\n".join(f'- {each.at[:10]} {each.origin} — "{_one_line(each.quote)}"' for each in proposal.evidence[-_SHOWN:])
    return (
        f"#### {proposal.name} ({len(proposal.evidence)} occurrences, {proposal.severity} severity)\n"
        f"**Proposal:** {proposal.id} ({proposal.status})\n**Proposed fix:** {_one_line(proposal.description)}\n"
        f"**Target:** {HOME_OF[proposal.kind]}\n**Evidence:**\n{quotes}\n"
    )


def _render_patterns(signals: Signals, *, low: bool) -> list[str]:
    lines = [
        f"- **{_one_line(each.quote)}** ({each.score:g}/10{'' if each.weight >= 1 else ', inferred'})"
        for each in (signal.evidence for signal in signals.ratings)
        if each.quote and each.score is not None and (each.score <= PROBLEM if low else each.score >= PRAISE)
    ]
    return [*lines, ""]


def _one_line(text: str) -> str:
    return " ".join(text.split())


REVIEW_NAME, SYNTHESIS_NAME = REPORTS = "review.md", "last-synthesis.md"
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
    """A person's edit of one proposal; None for each part that is unchanged."""

    id: str
    status: Status | None = None
    description: str | None = None
    body: str | None = None
    note: str | None = None


def render_review(proposals: Sequence[Proposal], before: str, *, at: str, reflections: int, ratings: int) -> str:
    """Render `review.md`: all proposals except withdrawn ones, and other programs' proposals from `before`."""
    ours = {proposal.id for proposal in proposals}
    others = [text for identity, text in _split_sections(before) if identity not in ours]
    shown = sorted((each for each in proposals if each.status in _IN_REVIEW), key=lambda each: each.urgency)
    since = min((each.first_seen[:10] for each in shown), default=at[:10])
    head = (
        f"---\ngenerated: {at}\npipeline_version: {PIPELINE_VERSION}\nsignals_since: {since}\n"
        f"reflections: {reflections}\nratings: {ratings}\n---\n\n# Learning Review\n\n"
        "Change a status, the proposed change or the notes, save, and run `memory learn apply`.\n\n"
    )
    return head + "".join([*map(_render_section, shown), *others])


def read_review(text: str, proposals: Iterable[Proposal]) -> list[Decided]:
    """Return a person's edits of `review.md`, relative to the proposals that it was rendered from.

    An unknown status and a section that no longer looks like a proposal are ignored.
    """
    known = {proposal.id: proposal for proposal in proposals}
    decided: list[Decided] = []
    for identity, section in _split_sections(text):
        if proposal := known.get(identity):
            change = _diff_section(proposal, section)
            if change != Decided(identity):
                decided.append(change)
    return decided


def highest_number(text: str) -> int:
    """Return the highest number of a proposal of any program in `review.md`."""
    return max((int(identity.removeprefix("LP-")) for identity, _ in _split_sections(text)), default=0)


def _diff_section(proposal: Proposal, section: str) -> Decided:
    written = _render_section(proposal)
    status = None
    if (found := _STATUS.search(section)) and found[1].upper() in _DECISIONS and found[1].upper() != proposal.status:
        status = Status(found[1].upper())
    description = body = None
    now, was = (_CHANGE.search(text) for text in (section, written))
    if now and was and _unquote(now[1]) != _unquote(was[1]) and _unquote(now[1]):
        description, _, body = (part.strip() for part in _unquote(now[1]).partition("\n\n"))
        description = " ".join(description.split())
    note = _parse_note(section)
    return Decided(proposal.id, status, description, body, None if note == _parse_note(written) else note)


def _parse_note(section: str) -> str | None:
    """Return the text from `Notes:` to the rule at the section's end, quoted or not; None without `Notes:`."""
    if (found := _NOTES.search(_END.sub("\n", section))) is None:
        return None
    text = found[1].strip()
    is_quoted = found[1].partition("\n")[0].isspace() or found[1].startswith("\n")
    return _unquote(text) if is_quoted and all(line.lstrip().startswith(">") for line in text.split("\n")) else text


def _render_section(proposal: Proposal) -> str:
    text = "\n\n".join(filter(None, (proposal.description, proposal.body)))
    note = f"\n{_quote(proposal.note)}" if "\n" in proposal.note or proposal.note.startswith(">") else f" {proposal.note}"
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
        f"- Proposed change:\n{_quote(text)}\n"
        f"- Notes:{note}\n\n---\n\n"
    )


def _split_sections(text: str) -> list[tuple[str, str]]:
    text = text.replace("\r\n", "\n")
    starts = list(_HEADING.finditer(text))
    ends = [*(found.start() for found in starts), len(text)][1:]
    return [(found[1], text[found.start() : end]) for found, end in zip(starts, ends, strict=False)]


def _quote(text: str) -> str:
    return "\n".join(f"  > {line}".rstrip() for line in text.split("\n"))


def _unquote(text: str) -> str:
    return "\n".join(line.rstrip() for line in _QUOTE.sub("", text).strip().split("\n"))
