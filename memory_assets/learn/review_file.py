"""PAI's `review.md`: the proposals as a file that a person edits, read back before it is written again.

What somebody changes in it counts: a status, the proposed text, the notes. Proposals in it that are not ours stay as they are.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory_assets.learn.proposals import Proposal, Status
from memory_assets.learn.reports import PIPELINE_VERSION, signal_line

NAME = "review.md"
_HEADING = re.compile(r"^## (LP-\d+) — .*$", re.MULTILINE)
_STATUS = re.compile(r"^- \*\*Status:\s*([A-Za-z]+)\s*\*\*", re.MULTILINE)
_CHANGE = re.compile(r"^- Proposed change:[ \t]*\n((?:[ \t]*>.*(?:\n|\Z)|[ \t]*\n(?=[ \t]*>))*)", re.MULTILINE)
_NOTES = re.compile(r"^- Notes:((?s:.*))", re.MULTILINE)
_END = re.compile(r"\n---\s*\Z")
_QUOTE = re.compile(r"^[ \t]*>[ \t]?", re.MULTILINE)
_DECISIONS = (Status.PENDING, Status.ACCEPTED, Status.DEFERRED, Status.REJECTED)
_SHOWN = (*_DECISIONS, Status.APPLIED)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a person's edit says of one proposal; None for what stands as it was."""

    id: str
    status: Status | None = None
    description: str | None = None
    body: str | None = None
    note: str | None = None


def render(proposals: Sequence[Proposal], before: str, *, at: str, reflections: int, ratings: int) -> str:
    """Return the file with all proposals but those that were withdrawn, and the proposals of `before` that are not ours.

    `at` is ISO 8601; `reflections` and `ratings` are the numbers that the last check read.
    """
    ours = {proposal.id for proposal in proposals}
    others = [text for identity, text in _sections(before) if identity not in ours]
    shown = sorted(
        (each for each in proposals if each.status in _SHOWN), key=lambda each: (_SHOWN.index(each.status), _reversed(each))
    )
    since = min((each.first_seen[:10] for each in shown), default=at[:10])
    head = (
        f"---\ngenerated: {at}\npipeline_version: {PIPELINE_VERSION}\nsignals_since: {since}\n"
        f"reflections: {reflections}\nratings: {ratings}\n---\n\n# Learning Review\n\n"
        "Change a status, the proposed change or the notes, save, and run `memory learn apply`.\n\n"
    )
    return head + "".join([*map(_section, shown), *others])


def read(text: str, proposals: Iterable[Proposal]) -> list[Decided]:
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
    taken = "".join(f"\n  - {each.path}" for each in proposal.silo_files)
    return (
        f"## {proposal.id} — {' '.join(proposal.name.split())}\n"
        f"- **Status: {proposal.status}** <!-- {' | '.join(_DECISIONS)} -->{done}\n"
        f"- Severity: {proposal.severity}\n"
        f"- Signal: {signal_line(proposal)}\n"
        f"- Trend: {proposal.trend}\n"
        f"- First seen: {proposal.first_seen[:10]}\n"
        f"- Target: FEEDBACK{', taken from' if taken else ''}{taken}\n"
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


def _reversed(proposal: Proposal) -> int:
    return -int(proposal.id.removeprefix("LP-"))
