"""The two files that a check leaves in the LEARNING folder, in PAI's formats: `mine-output.md` and `last-synthesis.md`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory_assets.learn.proposals import Proposal, Status
from memory_assets.learn.signals import PRAISE, PROBLEM, Signals
from memory_assets.sources.dating import utc_seconds

PIPELINE_VERSION = "1.0.0"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check worked on."""

    at: datetime
    learning_dir: Path
    signals: Signals
    feedback: int
    """Feedback files in silos."""
    proposals: Sequence[Proposal]

    @property
    def open(self) -> list[Proposal]:
        """The proposals that are, or may be, decided on."""
        return [each for each in self.proposals if each.status in (Status.PENDING, Status.DEFERRED, Status.ACCEPTED)]


def mine_output(checked: Checked) -> str:
    """Return `mine-output.md`: what was read, as it was."""
    signals = checked.signals
    levels = [signal.level for signal in signals.reflections]
    explicit = [each.evidence for each in signals.ratings if each.evidence.weight >= 1]
    sessions = signals.sessions()
    reflected = {
        "entries_analyzed": len(signals.reflections),
        "high": levels.count("HIGH"),
        "medium": levels.count("MEDIUM"),
        "low": levels.count("LOW"),
        "without_sentiment": levels.count(""),
        "quotes": [
            {"timestamp": each.evidence.at, "signal": each.level, "quote": each.evidence.quote}
            for each in signals.reflections
            if each.level == "HIGH"
        ],
    }
    rated = {
        "entries_analyzed": len(signals.ratings),
        "inferred": len(signals.ratings) - len(explicit),
        "explicit_feedback": [{"timestamp": each.at, "rating": each.score, "comment": each.quote} for each in explicit],
        "problem_sessions": _sessions(sessions, low=True),
        "high_sessions": _sessions(sessions, low=False),
    }
    head = _head(
        checked,
        stage="mine",
        ran_at=utc_seconds(checked.at),
        input_files=["MEMORY/LEARNING/REFLECTIONS/algorithm-reflections.jsonl", "MEMORY/LEARNING/SIGNALS/ratings.jsonl"],
        digest_used=False,
    )
    return (
        f"{head}## Reflection Mining Results\n\n```json\n{_json(reflected)}\n```\n\n"
        f"## Ratings Mining Results\n\n```json\n{_json(rated)}\n```\n"
    )


def last_synthesis(checked: Checked) -> str:
    """Return `last-synthesis.md`: the themes, and which signals agree."""
    crossed = [each for each in checked.open if len({evidence.origin for evidence in each.evidence}) > 1]
    head = _head(
        checked,
        stage="synthesise",
        generated=utc_seconds(checked.at),
        upgrade_candidates=len(checked.open),
        cross_referenced=True,
    )
    signals = checked.signals
    low = _sessions(signals.sessions(), low=True)
    high = sum(signal.level == "HIGH" for signal in signals.reflections)
    parts = [
        "## Internal Signals\n",
        "### Algorithm Reflections\n",
        f"**Entries analyzed:** {len(signals.reflections)} | **High-signal:** {high} | **Feedback files in silos:** {checked.feedback}\n",
        *(_candidate(each) for each in checked.open),
        "### Behavioral Signals from Ratings\n",
        f"**Entries analyzed:** {len(signals.ratings)} | **Explicit feedback:** "
        f"{sum(each.evidence.weight >= 1 for each in signals.ratings)} | **Problem sessions:** {len(low)}\n",
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
        for label, origin in (("silos", "silo"), ("reflections", "reflection"), ("ratings", "rating"))
        if (count := proposal.counted(origin))
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
        f"**Target:** FEEDBACK\n**Evidence:**\n{quotes}\n"
    )


def _patterns(signals: Signals, *, low: bool) -> list[str]:
    lines = [
        f"- **{_one_line(each.quote)}** ({each.score:g}/10{'' if each.weight >= 1 else ', inferred'})"
        for each in (signal.evidence for signal in signals.ratings)
        if each.quote and each.score is not None and (each.score <= PROBLEM if low else each.score >= PRAISE)
    ]
    return [*lines, ""]


def _sessions(sessions: dict[str, tuple[float, int]], *, low: bool) -> list[dict[str, object]]:
    return [
        {"session_id": session, "avg_rating": round(mean, 2), "entry_count": count}
        for session, (mean, count) in sorted(sessions.items(), key=lambda each: each[1])
        if (mean <= PROBLEM if low else mean >= PRAISE)
    ]


def _head(checked: Checked, **fields: object) -> str:
    counts = {
        "reflections_analyzed": len(checked.signals.reflections),
        "ratings_analyzed": len(checked.signals.ratings),
        "silo_feedback_analyzed": checked.feedback,
    }
    lines = [f"{name}: {_yaml(value)}" for name, value in ({"stage": fields.pop("stage")} | fields | counts).items()]
    lines.insert(2, f"pipeline_version: {PIPELINE_VERSION}")
    return "---\n" + "\n".join(lines) + "\n---\n\n"


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "".join(f"\n  - {each}" for each in value)
    return str(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1).replace("```", "'''")


def _one_line(text: str) -> str:
    return " ".join(text.split())
