"""Candidates are judged: every component of `memory_assets.recall.scoring`, for all candidates at once."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.recall import scoring
from memory_assets.recall.scoring import Weights
from memory_assets.recall.speakers import by_the_other_side
from memory_assets.recall.support import Support, support
from memory_assets.recall.turns import QUESTION_MARKS, with_turn_before
from memory_assets.stores.writing import folded, pieces

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.recall.candidates import Candidates
    from memory_assets.recall.question import Question
    from memory_assets.recall.view import View

    Values = npt.NDArray[np.float64]

_ABOUT_ASKING = frozenset({"ask", "asked", "asking", "asks", "question", "questions"})
_SHORT = 160
"""Characters, with heading, up to which a text that ends with a question says little else."""


@dataclass(slots=True)
class Judgement:
    """Scores of the candidates and the parts they consist of."""

    scores: "Values"
    parts: "list[tuple[str, float, Values, Values]]"
    """Name, effective weight, raw measure and value within 0..1 of each component that speaks."""
    support: Support
    said: float
    """Largest share of the question's idf mass whose exact words a candidate has."""
    notes: dict[str, str] = field(default_factory=dict)

    def reason(self, name: str, place: int) -> str:
        """For a person: what a component of one candidate rests on."""
        return self.support.reason(place) if name == "relation" else self.notes.get(name, "")


def judge(question: "Question", found: "Candidates", view: "View", weights: Weights, now: datetime) -> Judgement:
    """Judge candidates for a question as of `now`."""
    rows = view.timeline.rows(found.ids)
    known = rows >= 0
    coverage = _coverage(question, found, view)
    heard = with_turn_before(found, rows, view)
    parts: list[tuple[str, float, Values, Values]] = [
        ("vector", weights.vector, heard, scoring.scaled_cosine(heard)),
        ("keyword", weights.keyword, found.bm25, scoring.trust_in_words(coverage) * scoring.scaled_bm25(found.bm25)),
        ("content", weights.content, coverage, coverage),
    ]
    textual = sum(weight for _, weight, _, _ in parts)
    match = sum((weight * value for _, weight, _, value in parts), np.zeros(len(found))) / (textual or 1.0)
    backing = support(question, found, rows, match, view)
    if backing.value.any():
        parts.append(("relation", weights.relation, backing.value, backing.value))
    created = np.where(known, view.timeline.created[rows] if len(view.timeline) else 0, 0)
    notes = {}
    if question.interval:
        start, end = (_microseconds(bound) for bound in (question.interval.start, question.interval.end))
        near = np.where(known, scoring.closeness(created, start, end), 0.0)
        if (near >= 1.0).any():
            parts.append(("temporal", weights.temporal, near, near * (0.5 + 0.5 * match)))
            notes["temporal"] = f"{question.interval.start:%Y-%m-%d} to {question.interval.end:%Y-%m-%d}"
    tagged = _tagged(question, found, view)
    if tagged.any():
        parts.append(("tag", weights.tag, tagged, tagged * match))
    importance = np.where(known, view.timeline.importance[rows] if len(view.timeline) else 0.5, 0.5)
    if len(found) and importance.min() != importance.max():
        parts.append(("importance", weights.importance, importance, importance * match))
    fresh = np.where(known, scoring.recency(created, _microseconds(now)), 1.0)
    if fresh.max(initial=0.0) > 0.01:
        parts.append(("recency", weights.recency, fresh, fresh * match))
    total = sum(weight for _, weight, _, _ in parts) or 1.0
    kept = np.where(by_the_other_side(question, rows, view), scoring.OTHER_SIDE, 1.0)
    kept *= np.where(_asking(question, found), scoring.ASKING, 1.0)
    parts = [(name, weight / total, raw, kept * value) for name, weight, raw, value in parts if weight]
    scores = sum((weight * value for _, weight, _, value in parts), np.zeros(len(found)))
    return Judgement(scores, parts, backing, float(coverage.max(initial=0.0)), notes)


def _coverage(question: "Question", found: "Candidates", view: "View") -> "Values":
    """Share of the question's idf mass whose exact words occur in the text of each candidate that full text found."""
    idf = {term: view.terms.idf(term) for term in question.terms}
    total = sum(idf.values())
    if not total:
        return np.zeros(len(found))
    matched = ~np.isnan(found.bm25)
    held = [
        sum(map(idf.__getitem__, question.terms_in(text))) if is_matched else 0.0
        for text, is_matched in zip(found.texts, matched.tolist(), strict=True)
    ]
    return np.array(held) / total


def _asking(question: "Question", found: "Candidates") -> "npt.NDArray[np.bool_]":
    """Which candidates are short and end with a question mark; none where the question is about what was asked."""
    if not _ABOUT_ASKING.isdisjoint(question.terms):
        return np.zeros(len(found), bool)
    return np.array([len(text) <= _SHORT and text.endswith(QUESTION_MARKS) for text in found.texts], bool)


def _tagged(question: "Question", found: "Candidates", view: "View") -> "Values":
    """Share of the idf mass of the tags that the question names, among all that candidates have."""
    spoken = frozenset(question.terms)
    named: dict[str, float] = {}
    for tag in {tag for tags in found.tags for tag in tags}:
        parts = pieces(tag) or [part for part in folded(tag).replace("_", "-").split("-") if part]
        if parts and spoken.issuperset(parts):
            named[tag] = sum(view.terms.idf(part) for part in parts)
    if not named:
        return np.zeros(len(found))
    total = sum(named.values())
    return np.array([sum(named.get(tag, 0.0) for tag in set(tags)) / total for tags in found.tags])


def _microseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)
