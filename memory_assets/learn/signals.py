"""Signals for a change of behaviour: feedback in silos, reflections and ratings, each weighted by its confidence.

The rules are PAI's. A reflection's signal is HIGH up to a sentiment of 5, MEDIUM up to 7, LOW above, and one level higher if the task
went over budget, failed criteria or was repeated. Ratings up to 4 are problems, from 8 praise. A missing rating counts as missing.

Signals of like meaning are grouped, feedback files first. Unrelated texts have a cosine of 0.1 with one embedder and of 0.6 with another,
so cosines are measured from the mean of a few unrelated sentences.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from memory_assets.arrays import Floats
from memory_assets.ingest.scans import read_items, refusals
from memory_assets.language.embedders.calibration import unrelated_notes
from memory_assets.learn.journal import Evidence
from memory_assets.learn.memory_files import MemoryFile
from memory_assets.models import Kind, Refusal, Source, SourceItem
from memory_assets.stores.catalog import Catalog

PROBLEM = 4.0
"""Highest rating, or mean rating of a session, that indicates a problem."""
PRAISE = 8.0
"""Lowest rating that is praise."""
_HIGH, _MEDIUM = 5.0, 7.0
_COMPARED_CHARACTERS = 240
"""Length of the compared part of a file: name, description and the rule at the start of its body."""
_LEVELS = ("LOW", "MEDIUM", "HIGH")


@dataclass(frozen=True, slots=True)
class Signal:
    """One piece of evidence, with its text and level."""

    evidence: Evidence
    text: str
    """Text that is compared with other signals; may be empty."""
    level: str
    """`HIGH`, `MEDIUM`, `LOW`, or empty without a score."""
    praise: bool = False
    session: str = ""
    entry: MemoryFile | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """All signals in the LEARNING store."""

    reflections: tuple[Signal, ...]
    ratings: tuple[Signal, ...]
    refusals: tuple[Refusal, ...]
    """Lines that cannot be read."""

    def sessions(self) -> dict[str, float]:
        """Return the mean rating of each session, weighted by confidence."""
        rated: dict[str, list[Evidence]] = defaultdict(list)
        for signal in self.ratings:
            if signal.session and signal.evidence.score is not None:
                rated[signal.session].append(signal.evidence)
        return {
            session: sum((each.score or 0.0) * each.weight for each in found) / (sum(each.weight for each in found) or 1.0)
            for session, found in rated.items()
        }


def read_signals(catalog: Catalog, projects: dict[str, str]) -> Signals:
    """Return the ratings and reflections of the last scan, in line order; `projects` maps sessions to working directories."""
    items = [each.item for each in read_items(catalog, Source.PAI_LEARNING) if "line" in each.item.metadata]
    items.sort(key=lambda item: (item.metadata["path"], item.metadata["line"]))
    refused = (refusal for refusal in refusals(catalog, Source.PAI_LEARNING) if refusal.path.endswith(".jsonl"))
    return Signals(
        tuple(_parse_reflection(item, projects) for item in items if item.kind is Kind.REFLECTION),
        tuple(_parse_rating(item, projects) for item in items if item.kind is Kind.RATING),
        tuple(refused),
    )


def file_signals(entries: Iterable[MemoryFile], kind: Kind, origin: Literal["silo", "home"]) -> list[Signal]:
    """Return the signals of the silo or home entries of one kind."""
    signals: list[Signal] = []
    for entry in entries:
        item = entry.item
        if item.kind is not kind:
            continue
        text = f"{item.title.replace('-', ' ').replace('_', ' ')}. {item.description}\n{item.body}"[:_COMPARED_CHARACTERS]
        evidence = Evidence(
            key=item.key,
            origin=origin,
            quote=item.description or " ".join(item.body.split())[:280],
            at=entry.written_at.isoformat(),
            project=item.project,
            path=str(entry.path),
            digest=entry.digest,
        )
        signals.append(Signal(evidence, text, "HIGH", session=item.session, entry=entry))
    return signals


def _parse_reflection(item: SourceItem, projects: dict[str, str]) -> Signal:
    fields: dict[str, Any] = item.metadata["fields"]
    first, second = (str(fields.get(f"reflection_q{number}") or "").strip() for number in (1, 2))
    sentiment = _read_score(fields, "implied_sentiment")
    rank = None if sentiment is None else (sentiment <= _MEDIUM) + (sentiment <= _HIGH)
    troubled = fields.get("within_budget") is False or any(
        (_read_score(fields, name) or 0) > 0 for name in ("criteria_failed", "rework_count")
    )
    if troubled:
        rank = 1 if rank is None else min(rank + 1, len(_LEVELS) - 1)
    evidence = _make_evidence(item, "reflection", second or first, 1.0, sentiment, projects)
    return Signal(evidence, " ".join(filter(None, (second, first))), "" if rank is None else _LEVELS[rank], session=item.session)


def _parse_rating(item: SourceItem, projects: dict[str, str]) -> Signal:
    fields: dict[str, Any] = item.metadata["fields"]
    comments = [str(fields.get(name) or "").strip() for name in ("comment", "sentiment_summary")]
    score = _read_score(fields, "rating")
    evidence = _make_evidence(item, "rating", ", ".join(dict.fromkeys(filter(None, comments))), item.confidence, score, projects)
    level = "" if score is None or PROBLEM < score < PRAISE else "HIGH"
    return Signal(evidence, ". ".join(filter(None, comments)), level, score is not None and score >= PRAISE, item.session)


def _make_evidence(
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


def _read_score(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


Embed = Callable[[Sequence[str]], Floats]
"""Embeds texts as unit vectors, one row each."""

SAME_RULE = 0.76
"""Similarity, 0 for unrelated and 1 for equal, from which two feedback files state one rule. The same rule in other words has 0.67 to
0.77, its opposite 0.54. The threshold is high because two proposals for one rule are better than one proposal for two rules."""
SAME_THEME = 0.35
"""Similarity from which a signal belongs to a theme. On the sample home's signals, 0.3 to 0.46 give the same themes."""


def group(signals: Sequence[Signal], embed: Embed) -> list[list[Signal]]:
    """Group the signals by theme, in the order of each group's first signal.

    Feedback files with the same name, or that are all nearly the same, are one group. Each other signal joins the most similar group
    or starts a new one. Praise and problems are never in one group. All signals must have words; `embed` is called once.
    """
    if not signals:
        return []
    unrelated = unrelated_notes()
    vectors = embed([*unrelated, *(signal.text for signal in signals)])
    reference, vectors = vectors[: len(unrelated)], vectors[len(unrelated) :]
    pairs = np.triu_indices(len(reference), 1)
    floor = float((reference @ reference.T)[pairs].mean())
    order = sorted(range(len(signals)), key=lambda place: (signals[place].evidence.at, signals[place].evidence.key))
    files = [place for place in order if signals[place].entry]
    rules = _group_rules([signals[place] for place in files], vectors[files], floor)
    groups = [[files[place] for place in rule] for rule in rules]
    sums = [vectors[places].sum(axis=0) for places in groups]
    for place in order:
        if signals[place].entry:
            continue
        best, similarity = 0, -1.0
        if groups:
            centroids = np.stack(sums)
            cosines = centroids @ vectors[place] / np.linalg.norm(centroids, axis=1)
            cosines[[signals[places[0]].praise != signals[place].praise for places in groups]] = -1.0
            best = int(cosines.argmax())
            similarity = (float(cosines[best]) - floor) / (1 - floor)
        if similarity >= SAME_THEME:
            groups[best].append(place)
            sums[best] = sums[best] + vectors[place]
        else:
            groups.append([place])
            sums.append(vectors[place])
    return [[signals[place] for place in places] for places in groups]


def _group_rules(files: Sequence[Signal], vectors: Floats, floor: float) -> list[list[int]]:
    """Group the positions of files that state one rule: files of one name, and files similar to every other file of a group."""
    groups: list[list[int]] = []
    group_by_name: dict[str, int] = {}
    group_by_place = np.full(len(files), -1)
    for place, signal in enumerate(files):
        name = signal.entry.item.title if signal.entry else ""
        similarities = (vectors[:place] @ vectors[place] - floor) / (1 - floor)
        least = np.full(len(groups), np.inf)
        np.minimum.at(least, group_by_place[:place], similarities)
        best = group_by_name.get(name, int(least.argmax()) if len(groups) else -1)
        if name not in group_by_name and (best < 0 or least[best] < SAME_RULE):
            best = len(groups)
            groups.append([])
        groups[best].append(place)
        group_by_place[place] = best
        group_by_name.setdefault(name, best)
    return groups


def most_telling(group: Sequence[Signal], embed: Embed) -> Signal:
    """Return the signal nearest to the weighted centroid of its group; the newest of equal ones."""
    vectors = embed([signal.text for signal in group])
    weights = np.array([[signal.evidence.weight] for signal in group], np.float32)
    nearness = vectors @ (vectors * weights).sum(axis=0)
    return max(zip(nearness.round(4).tolist(), group, strict=True), key=lambda each: (each[0], each[1].evidence.at))[1]
