"""What speaks for a change of behaviour: feedback in silos, reflections, and ratings, each as much as it is sure of.

The rules are PAI's: a reflection's signal is HIGH up to a sentiment of 5, MEDIUM up to 7, LOW above, and one more where the task went
over budget, failed criteria or was done again; ratings up to 4 are problems, from 8 on things to do more of. A rating that was inferred
counts as much as its confidence says. One that is missing is missing.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory_assets.ingest.scans import read_items, refusals
from memory_assets.learn.memory_files import MemoryFile
from memory_assets.learn.proposals import Evidence
from memory_assets.models import Kind, Refusal, Source, SourceItem

if TYPE_CHECKING:
    from memory_assets.stores.catalog import Catalog

PROBLEM = 4.0
"""Rating, or mean of a session, up to which something is wrong."""
PRAISE = 8.0
"""Rating from which something is to be done again."""
_HIGH, _MEDIUM = 5.0, 7.0
_COMPARED = 240
"""Characters of a file that are compared: name, description, and the rule that its body begins with."""
_LEVELS = ("LOW", "MEDIUM", "HIGH")


@dataclass(frozen=True, slots=True)
class Signal:
    """One piece of evidence, and what it takes part in."""

    evidence: Evidence
    text: str
    """What is compared with other signals; empty where it has no words."""
    level: str
    """`HIGH`, `MEDIUM`, `LOW`, or nothing where it has no score."""
    praise: bool = False
    session: str = ""
    entry: MemoryFile | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """All that the LEARNING store collected."""

    reflections: tuple[Signal, ...]
    ratings: tuple[Signal, ...]
    refusals: tuple[Refusal, ...]
    """Lines that cannot be read."""

    def sessions(self) -> dict[str, tuple[float, int]]:
        """Session -> its mean rating, each weighed by how sure it is, and how many there are."""
        rated: dict[str, list[Evidence]] = defaultdict(list)
        for signal in self.ratings:
            if signal.session and signal.evidence.score is not None:
                rated[signal.session].append(signal.evidence)
        return {
            session: (
                sum((each.score or 0.0) * each.weight for each in found) / (sum(each.weight for each in found) or 1.0),
                len(found),
            )
            for session, found in rated.items()
        }


def read_signals(catalog: "Catalog", projects: dict[str, str]) -> Signals:
    """Return the ratings and reflections of the last scan, in the order of their lines.

    `projects` maps sessions to working directories, where these are known.
    """
    items = [each.item for each in read_items(catalog, Source.PAI_LEARNING) if "line" in each.item.metadata]
    items.sort(key=lambda item: (item.metadata["path"], item.metadata["line"]))
    refused = (refusal for refusal in refusals(catalog, Source.PAI_LEARNING) if refusal.path.endswith(".jsonl"))
    return Signals(
        tuple(_reflection(item, projects) for item in items if item.kind is Kind.REFLECTION),
        tuple(_rating(item, projects) for item in items if item.kind is Kind.RATING),
        tuple(refused),
    )


def silo_signals(entries: Iterable[MemoryFile]) -> list[Signal]:
    """The feedback among the entries of silos."""
    return [_from_silo(entry) for entry in entries if entry.item.kind is Kind.FEEDBACK]


def sessions_of(entries: Iterable[MemoryFile]) -> dict[str, str]:
    """Session -> working directory, as silo files name them."""
    return {entry.item.session: entry.item.project for entry in entries if entry.item.session}


def _from_silo(entry: MemoryFile) -> Signal:
    item = entry.item
    text = f"{item.title.replace('-', ' ').replace('_', ' ')}. {item.description}\n{item.body}"[:_COMPARED]
    evidence = Evidence(
        key=item.key,
        origin="silo",
        quote=item.description or " ".join(item.body.split())[:280],
        at=entry.written_at.isoformat(),
        project=item.project,
        path=str(entry.path),
        digest=entry.digest,
    )
    return Signal(evidence, text, "HIGH", session=item.session, entry=entry)


def _reflection(item: SourceItem, projects: dict[str, str]) -> Signal:
    fields: dict[str, Any] = item.metadata["fields"]
    first, second = (str(fields.get(f"reflection_q{number}") or "").strip() for number in (1, 2))
    sentiment = _score(fields, "implied_sentiment")
    rank = None if sentiment is None else (sentiment <= _MEDIUM) + (sentiment <= _HIGH)
    troubled = fields.get("within_budget") is False or any(
        (_score(fields, name) or 0) > 0 for name in ("criteria_failed", "rework_count")
    )
    if troubled:
        rank = 1 if rank is None else min(rank + 1, len(_LEVELS) - 1)
    evidence = _evidence(item, "reflection", second or first, 1.0, sentiment, projects)
    return Signal(evidence, " ".join(filter(None, (second, first))), "" if rank is None else _LEVELS[rank], session=item.session)


def _rating(item: SourceItem, projects: dict[str, str]) -> Signal:
    fields: dict[str, Any] = item.metadata["fields"]
    said = [str(fields.get(name) or "").strip() for name in ("comment", "sentiment_summary")]
    score = _score(fields, "rating")
    evidence = _evidence(item, "rating", ", ".join(dict.fromkeys(filter(None, said))), item.confidence, score, projects)
    level = "" if score is None or PROBLEM < score < PRAISE else "HIGH"
    return Signal(evidence, ". ".join(filter(None, said)), level, score is not None and score >= PRAISE, item.session)


def _evidence(
    item: SourceItem, origin: str, quote: str, weight: float, score: float | None, projects: dict[str, str]
) -> Evidence:
    return Evidence(
        key=item.key,
        origin=origin,
        quote=quote,
        at=item.created_at.isoformat() if item.created_at and item.metadata["fields"].get("timestamp") else "",
        weight=weight,
        score=score,
        project=projects.get(item.session, ""),
        path=item.metadata["path"],
    )


def _score(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
