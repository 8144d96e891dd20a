"""The score of each candidate: the eight components of seed 003, section 3, and a ninth, each within 0..1, and their weighted mean.

    score = sum(weight * value) / sum(weight of the applicable components)

A component that does not apply to a question (no time in it, none of the store's tags, no graph yet) is left out of the sum for all
candidates, so that it changes no order. Three components judge the text itself; their weighted mean is the *match*:

    vector      cosine similarity, min-max scaled among the nearest; a reply takes on a share of that of the turn before it
    keyword     BM25 relative to the best, times the largest content value: if no text contains much of the question, single common
                words count little, and meaning decides
    content     share of the question's idf mass whose exact words occur in the text

Each of the next five is scaled by the match of the memory itself or of related memories, so it cannot lift a memory that does not match:

    relation    support from the graph, see `memory_assets.recall.support`
    temporal    1 within the time that the question names, less with distance; if the question asks for nothing else, 1 or 0, it also
                counts a time that the text names, it is not scaled, and it outweighs the others
    tag         idf share of the tags that the question names; it lifts, it never excludes
    importance  as stored
    recency     exp(-days / 30)

The ninth takes milliseconds, so it is computed only for the best by the other eight:

    answer      log odds that the text answers, by a network that reads it together with the question; -4..4 scaled to 0..1, or -2..4
                if many texts were read, because among unlikely answers the other eight rank better
"""

import re
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.arrays import Mask, Rows, Times, Values
from memory_assets.language.english import word_set
from memory_assets.language.words import fold, pieces, topic_words
from memory_assets.models import ASSISTANTS
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import QUESTION_MARKS, Question
from memory_assets.recall.support import Support, by_authors, by_the_other_side, support
from memory_assets.recall.view import View
from memory_assets.settings import Settings
from memory_assets.stores.feed import microseconds

if TYPE_CHECKING:
    from memory_assets.language.intervals import Interval

OTHER_SIDE = 0.5
"""Factor of every component if the assistant wrote the memory and the question is about the user, or vice versa."""
ASKING = 0.7
"""Factor of every component of a short question: it resembles the query without answering it."""
AFTER_STATEMENT, AFTER_QUESTION = 0.3, 0.6
"""Share of the previous turn's similarity that a reply by another author takes on. Assistants' replies are long enough without it."""
NARROWEST = 0.05
"""Minimum span of the cosines that are scaled to 0..1. Models spread differently: with bge-small the best and the hundredth are .03 to .12
apart; in a store of a few memories a difference below .05 means nothing."""
_RECENCY_DAYS = 30.0
_MAX_ODDS, _MIN_ODDS, _MIN_ODDS_IN_DEPTH = 4.0, -4.0, -2.0
_SHORT = 160
"""Maximum characters, heading included, of a text that counts as a question if it ends with a question mark."""
_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each component before division by the sum; 0 disables it."""

    vector: float = 0.35
    keyword: float = 0.05
    relation: float = 0.35
    content: float = 0.25
    temporal: float = 0.15
    tag: float = 0.05
    importance: float = 0.05
    recency: float = 0.05
    answer: float = 0.45

    @classmethod
    def of(cls, settings: Settings) -> "Weights":
        return cls(**{each.name: getattr(settings, f"weight_{each.name}") for each in fields(cls)})


@dataclass(slots=True)
class Scores:
    """Scores of the candidates and their components."""

    values: Values
    parts: list[tuple[str, float, Values, Values]]
    """Name, effective weight, raw measure and value within 0..1 of each applicable component."""
    support: Support
    coverage: "Values"
    """Share of the question's idf mass whose exact words each candidate contains."""
    total: float
    """Sum of the applicable components' weights, before division."""
    kept: Values
    """Factor of every component of a candidate: `OTHER_SIDE` and `ASKING` lower it."""
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, weight: float, raw: Values, value: Values) -> None:
        total, value = self.total + weight, self.kept * value
        self.parts = [(each, share * self.total / total, one, scaled) for each, share, one, scaled in self.parts]
        self.parts.append((name, weight / total, raw, value))
        self.values = (self.values * self.total + weight * value) / total
        self.total = total

    def reason(self, name: str, place: int) -> str:
        """Explain a candidate's component to a person; may be empty."""
        return self.support.reason(place) if name == "relation" else self.notes.get(name, "")


def score(question: Question, found: Candidates, view: View, weights: Weights, now: datetime) -> Scores:
    """Score candidates for a question as of `now`."""
    rows = view.timeline.rows(found.ids)
    known = rows >= 0
    coverage = _coverage(question, found, view)
    cosine = with_turn_before(found, rows, view)
    parts: list[tuple[str, float, Values, Values]] = [
        ("vector", weights.vector, cosine, scaled_cosine(cosine)),
        ("keyword", weights.keyword, found.bm25, trust_in_words(coverage) * scaled_bm25(found.bm25)),
        ("content", weights.content, coverage, coverage),
    ]
    textual = sum(weight for _, weight, _, _ in parts)
    match = sum((weight * value for _, weight, _, value in parts), np.zeros(len(found))) / (textual or 1.0)
    backing = support(question, found, rows, match, view)
    if backing.value.any():
        parts.append(("relation", weights.relation, backing.value, backing.value))
    created = view.timeline.values("created", rows, 0)
    notes = {}
    if question.interval:
        start, end = (microseconds(bound) for bound in (question.interval.start, question.interval.end))
        near = np.where(known, closeness(created, start, end), 0.0)
        share, weight = 0.5 + 0.5 * match, weights.temporal
        if question.asks_for_time:
            near = ((near >= 1.0) | _tells_of(question, question.interval, found, created)).astype(float)
            share, weight = 1.0, weights.temporal and sum(astuple(weights)) - weights.temporal
        if (near >= 1.0).any():
            parts.append(("temporal", weight, near, near * share))
            days = question.interval.start, question.interval.end - timedelta(microseconds=1)
            notes["temporal"] = " to ".join(f"{moment.astimezone(question.zone):%Y-%m-%d}" for moment in days)
    tagged = _tag_shares(question, found, view)
    if tagged.any():
        parts.append(("tag", weights.tag, tagged, tagged * match))
    importance = view.timeline.values("importance", rows, 0.5)
    if len(found) and importance.min() != importance.max():
        parts.append(("importance", weights.importance, importance, importance * match))
    fresh = np.where(known, recency(created, microseconds(now)), 1.0)
    if fresh.max(initial=0.0) > 0.01:
        parts.append(("recency", weights.recency, fresh, fresh * match))
    total = sum(weight for _, weight, _, _ in parts) or 1.0
    kept = np.where(by_the_other_side(question, rows, view), OTHER_SIDE, 1.0) * np.where(_asks(question, found), ASKING, 1.0)
    parts = [(name, weight / total, raw, kept * value) for name, weight, raw, value in parts if weight]
    values = sum((weight * value for _, weight, _, value in parts), np.zeros(len(found)))
    return Scores(values, parts, backing, coverage, total, kept, notes)


def with_turn_before(found: Candidates, rows: Rows, view: View) -> Values:
    """Return the candidates' cosines, raised for replies by a share of the previous turn's distance from the lowest cosine.

    A reply such as "Not before April" rarely matches by itself. One that the vector index did not return starts at the lowest cosine; it
    stays NaN if the index did not return the previous turn either.
    """
    known = ~np.isnan(found.cosine)
    if not known.any():
        return found.cosine
    last = found.cosine[known].min()
    before = view.timeline.neighbour(rows, -1)
    places = found.places(view.timeline.values("id", before, -1))
    author, author_before = (view.timeline.values("author", each, -1) for each in (rows, before))
    replies = (places >= 0) & known[places] & (author >= 0) & (author_before >= 0) & (author != author_before)
    replies &= ~by_authors(lambda name: name.lower() in ASSISTANTS, rows, view)
    if not replies.any():
        return found.cosine
    asks = np.array([any(mark in text for mark in QUESTION_MARKS) for text in found.texts])
    share = np.where(asks[places], AFTER_QUESTION, AFTER_STATEMENT)
    gained = np.where(replies, share * (found.cosine[places] - last), 0.0)
    return np.where(known, found.cosine, np.where(gained > 0, last, np.nan)) + gained


def trust_in_words(coverage: Values) -> float:
    """Return the factor of the keyword component: the largest content value among the candidates."""
    return float(coverage.max(initial=0.0))


def scaled_cosine(cosine: Values) -> Values:
    """Scale cosines to 0..1 by min-max, NaN to 0; the lowest is above 0, so that being found counts."""
    known = cosine[~np.isnan(cosine)]
    if not len(known):
        return np.zeros_like(cosine)
    span = max(float(known.max() - known.min()), NARROWEST)
    return np.nan_to_num(1.0 - 0.95 * (known.max() - cosine) / span, nan=0.0)


def scaled_bm25(bm25: Values) -> Values:
    """Scale BM25 scores relative to the best, NaN to 0."""
    best = float(bm25[~np.isnan(bm25)].max(initial=0.0))
    return np.nan_to_num(bm25 / best, nan=0.0) if best else np.zeros_like(bm25)


def scaled_logits(logits: Values, *, in_depth: bool = False) -> Values:
    """Scale log odds of -4..4 to 0..1, NaN to 0; of -2..4 `in_depth`, if many texts were read."""
    least = _MIN_ODDS_IN_DEPTH if in_depth else _MIN_ODDS
    return np.nan_to_num(np.clip((logits - least) / (_MAX_ODDS - least), 0.0, 1.0))


def closeness(created: Times, start: int, end: int) -> Values:
    """Return 1 within start..end, decreasing with distance in units of its length (at least a day). Times are in microseconds."""
    distance = np.maximum(0, np.maximum(start - created, created - (end - 1)))
    return np.exp(-distance / max(end - start, _DAY_MICROSECONDS))


def recency(created: Times, now: int) -> Values:
    """Return exp(-days / 30) of the age; times are microseconds since 1970."""
    return np.exp(-np.maximum(0, now - created) / _DAY_MICROSECONDS / _RECENCY_DAYS)


def _coverage(question: Question, found: Candidates, view: View) -> Values:
    """Return the share of the question's idf mass whose exact words, or an entity of the kind it asks for, each candidate has."""
    idf = {term: view.terms.idf(term) for term in question.terms}
    total = sum(idf.values())
    if not total:
        return np.zeros(len(found))
    kind, of_kind = question.kind, np.zeros(len(found), bool)
    if kind:
        of_kind = np.isin(found.ids, view.graph.mentioning(kind[1]))
    masses = [
        sum(map(idf.__getitem__, question.terms_in(text) | ({kind[0]} if kind and is_named else set()))) if is_matched else 0.0
        for text, is_matched, is_named in zip(found.texts, (~np.isnan(found.bm25)).tolist(), of_kind.tolist(), strict=True)
    ]
    return np.array(masses) / total


def _tells_of(question: Question, interval: "Interval", found: Candidates, created: Times) -> Mask:
    """Return which candidates name a time within the interval, in the words of the question; the year may be that of their creation."""
    from memory_assets.language.intervals import find_interval

    words = {fold(word) for word in topic_words(question.text[slice(*interval.span)]) if not re.fullmatch(r"\d{4}", word)}
    told = np.zeros(len(found), bool)
    for place, text in enumerate(found.texts):
        text = text.partition("] ")[2]
        if words and words <= question.terms_in(text):
            named = find_interval(text, datetime.fromtimestamp(created[place] / 1e6, UTC), question.zone)
            told[place] = named is not None and interval.start <= named.start < interval.end
    return told


def _asks(question: Question, found: Candidates) -> Mask:
    """Return which candidates are short and end with a question mark; none if the query is about questions asked."""
    if not word_set("question.about_asking").isdisjoint(question.terms):
        return np.zeros(len(found), bool)
    return np.array([len(text) <= _SHORT and text.endswith(QUESTION_MARKS) for text in found.texts], bool)


def _tag_shares(question: Question, found: Candidates, view: View) -> Values:
    """Return each candidate's share of the idf mass of the candidates' tags that the question names."""
    named: dict[str, float] = {}
    for tag in {tag for tags in found.tags for tag in tags}:
        parts = pieces(tag) or [part for part in fold(tag).replace("_", "-").split("-") if part]
        if parts and set(question.terms).issuperset(parts):
            named[tag] = sum(view.terms.idf(part) for part in parts)
    if not named:
        return np.zeros(len(found))
    total = sum(named.values())
    return np.array([sum(named.get(tag, 0.0) for tag in set(tags)) / total for tags in found.tags])
