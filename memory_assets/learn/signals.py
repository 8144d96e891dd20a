"""Signals for a change of behaviour: feedback in silos, reflections and ratings, each weighted by its confidence.

The rules are PAI's. A reflection's signal is HIGH up to a sentiment of 5, MEDIUM up to 7, LOW above, and one level higher if the task
went over budget, failed criteria or was repeated. Ratings up to 4 are problems, from 8 praise. A missing rating counts as missing.

Signals of like meaning are grouped, feedback files first. Unrelated texts have a cosine of 0.1 with one embedder and of 0.6 with another,
so cosines are measured from the mean of a few unrelated sentences.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from memory_assets.ingest.scans import read_items, refusals
from memory_assets.language.embedders.calibration import unrelated_notes
from memory_assets.learn.journal import Evidence
from memory_assets.learn.memory_files import MemoryFile
from memory_assets.models import Kind, Refusal, Source, SourceItem

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.catalog import Catalog

    Vectors = npt.NDArray[np.float32]

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

    def sessions(self) -> dict[str, float]:
        """Session -> its mean rating, each weighed by how sure it is."""
        rated: dict[str, list[Evidence]] = defaultdict(list)
        for signal in self.ratings:
            if signal.session and signal.evidence.score is not None:
                rated[signal.session].append(signal.evidence)
        return {
            session: sum((each.score or 0.0) * each.weight for each in found) / (sum(each.weight for each in found) or 1.0)
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


def file_signals(entries: Iterable[MemoryFile], kind: Kind, origin: Literal["silo", "home"]) -> list[Signal]:
    """The entries of one type among those of silos, or of the canonical homes."""
    signals: list[Signal] = []
    for entry in entries:
        item = entry.item
        if item.kind is not kind:
            continue
        text = f"{item.title.replace('-', ' ').replace('_', ' ')}. {item.description}\n{item.body}"[:_COMPARED]
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


Embed = Callable[[Sequence[str]], "Vectors"]
"""Texts to unit vectors, one row each."""

SAME_RULE = 0.76
"""Likeness, 0 for unrelated and 1 for equal, from which two feedback files state one rule. The same rule in other words lies from 0.67
to 0.77, its opposite at 0.54: rather two proposals for one rule than one for two."""
SAME_THEME = 0.35
"""Likeness from which a signal belongs to a theme. Over the sample home's signals 0.3 to 0.46 give the same themes."""


def group(signals: Sequence[Signal], embed: Embed) -> list[list[Signal]]:
    """Return the signals in groups that are about one thing; each signal in one of them, in the order of the first of each.

    Feedback files of one name, or that are all nearly the same, are one group. Each other signal joins the group that it is most like,
    or begins one; what went well and what went wrong never meet. All signals must have words; `embed` is called once.
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
    rules = _same_rules([signals[place] for place in files], vectors[files], floor)
    groups = [[files[place] for place in rule] for rule in rules]
    sums = [vectors[places].sum(axis=0) for places in groups]
    for place in order:
        if signals[place].entry:
            continue
        best, likeness = 0, -1.0
        if groups:
            middles = np.stack(sums)
            cosines = middles @ vectors[place] / np.linalg.norm(middles, axis=1)
            cosines[[signals[places[0]].praise != signals[place].praise for places in groups]] = -1.0
            best = int(cosines.argmax())
            likeness = (float(cosines[best]) - floor) / (1 - floor)
        if likeness >= SAME_THEME:
            groups[best].append(place)
            sums[best] = sums[best] + vectors[place]
        else:
            groups.append([place])
            sums.append(vectors[place])
    return [[signals[place] for place in places] for places in groups]


def _same_rules(files: Sequence[Signal], vectors: "Vectors", floor: float) -> list[list[int]]:
    """Return the files that state one rule, by their places: those of one name, and those that are like every other of a group."""
    groups: list[list[int]] = []
    named: dict[str, int] = {}
    of_place = np.full(len(files), -1)
    for place, signal in enumerate(files):
        name = signal.entry.item.title if signal.entry else ""
        likeness = (vectors[:place] @ vectors[place] - floor) / (1 - floor)
        least = np.full(len(groups), np.inf)
        np.minimum.at(least, of_place[:place], likeness)
        best = named.get(name, int(least.argmax()) if len(groups) else -1)
        if name not in named and (best < 0 or least[best] < SAME_RULE):
            best = len(groups)
            groups.append([])
        groups[best].append(place)
        of_place[place] = best
        named.setdefault(name, best)
    return groups


def most_telling(group: Sequence[Signal], embed: Embed) -> Signal:
    """Return the signal that lies nearest to the middle of its group; of equal ones the newest."""
    vectors = embed([signal.text for signal in group])
    weights = np.array([[signal.evidence.weight] for signal in group], np.float32)
    nearness = vectors @ (vectors * weights).sum(axis=0)
    return max(zip(nearness.round(4).tolist(), group, strict=True), key=lambda each: (each[0], each[1].evidence.at))[1]
