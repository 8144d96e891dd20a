"""The relation component: support of a candidate by the graph, given which other candidates match.

A plain count of edges would lift well-connected memories for any question. So support comes from the match of related memories: the
neighbours in the session, those joined by a typed edge, those that mention the same rare entity; and from the author whom the question
names.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memory_assets.arrays import Mask, Rows, Values
from memory_assets.models import ASSISTANTS, USERS
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import Question
from memory_assets.recall.timeline import name_words
from memory_assets.recall.view import View

SESSION = (0.75, 0.4, 0.2)
"""Share of the match of neighbours at distance 1, 2 and 3 in the session. Files that a session wrote are independent texts and get none."""
NAMED = 0.6
"""Share of its own match that a memory gets if the question names its author."""
EDGE = 0.5
"""Share of the match at the other end of the best typed edge, times its confidence."""
ENTITY = 0.3
"""Share of the match of the best memory that mentions the same entity, times the entity's rarity."""
_SUPPORTERS = 40
"""Number of best candidates that pass on support."""
_REDUNDANT_ORIGINS = frozenset({"session", "similar", "same text", "entities", "creative"})
"""Origins of edges that repeat what sessions, entities and vectors show."""


@dataclass(slots=True)
class Support:
    """The value of the relation component, capped at 1, and the four parts it is the sum of."""

    value: Values
    session: Values
    named: Values
    edge: Values
    entity: Values

    def reason(self, place: int) -> str:
        parts = [
            (self.session[place], "next to matches in its session"),
            (self.named[place], "written by someone the question names"),
            (self.edge[place], "linked to a match"),
            (self.entity[place], "mentions an entity of a match"),
        ]
        return ", ".join(f"{text} {value:.2f}" for value, text in parts if value > 0.005)


def support(question: Question, found: Candidates, rows: Rows, match: Values, view: View) -> Support:
    """Return the support of each candidate; `rows` are their rows in the timeline, `match` the match of their own texts."""
    strength = _strength(match)
    session = _from_session(found, rows, strength, view)
    named = NAMED * by_authors(lambda author: not question.spoken.isdisjoint(name_words(author)), rows, view) * match
    edge = EDGE * _from_edges(found, strength, view)
    entity = ENTITY * _from_entities(found, strength, view)
    return Support(np.minimum(1.0, session + named + edge + entity), session, named, edge, entity)


def _strength(match: Values) -> Values:
    """Return the match that each candidate passes on: nothing outside the best `_SUPPORTERS`, rising to all of it at the top."""
    top = match.max(initial=0.0)
    bar = np.partition(match, -_SUPPORTERS)[-_SUPPORTERS] if len(match) >= _SUPPORTERS else 0.0
    return np.clip((match - bar) / (top - bar), 0.0, 1.0) * top if top > bar else np.zeros_like(match)


def _from_session(found: Candidates, rows: Rows, strength: Values, view: View) -> Values:
    total = np.zeros(len(found))
    is_turn = ~view.timeline.values("filed", rows, True)
    for distance, share in enumerate(SESSION, start=1):
        for step in (-distance, distance):
            beside = view.timeline.neighbour(rows, step)
            places = found.places(view.timeline.values("id", beside, -1))
            total += np.where((places >= 0) & is_turn, share * strength[places], 0.0)
    return total


def _from_edges(found: Candidates, strength: Values, view: View) -> Values:
    best = np.zeros(len(found))
    edges = view.graph.edges
    if not len(edges):
        return best
    redundant = np.array([origin in _REDUNDANT_ORIGINS for origin in view.graph.origins.names])
    for (places, at), end in ((edges.outgoing(found.ids), "target"), (edges.incoming(found.ids), "source")):
        others = found.places(edges.columns[end][at])
        counted = (others >= 0) & ~redundant[edges.columns["origin"][at]]
        np.maximum.at(best, places, np.where(counted, strength[others] * edges.columns["confidence"][at], 0.0))
    return best


def _from_entities(found: Candidates, strength: Values, view: View) -> Values:
    mentions = view.graph.mentions
    best = np.zeros(len(found))
    if not len(mentions) or not len(found):
        return best
    places, at = mentions.outgoing(found.ids)
    entities = mentions.columns["target"][at]
    total = max(2, len(view.timeline))
    strengths: dict[int, list[tuple[float, int]]] = {}
    for place, entity in zip(places.tolist(), entities.tolist(), strict=True):
        if strength[place] > 0:
            strengths.setdefault(entity, []).append((float(strength[place]), place))
    if not strengths:
        return best
    named = np.array(sorted(strengths))
    rarity = np.clip(1.0 - np.log(np.maximum(1, mentions.incoming_counts(named))) / np.log(total), 0.0, 1.0)
    rarity_of = dict(zip(named.tolist(), rarity.tolist(), strict=True))
    for place, entity in zip(places.tolist(), entities.tolist(), strict=True):
        if entity in strengths:
            strongest = max((value for value, leader in strengths[entity] if leader != place), default=0.0)
            best[place] = max(best[place], strongest * rarity_of[entity])
    return best


def by_authors(is_meant: Callable[[str], bool], rows: Rows, view: View) -> Mask:
    """Return which rows of the timeline, -1 for unknown ones, have an author whose name passes `is_meant`."""
    authors = view.timeline.values("author", rows, -1)
    meant = [code for code in np.unique(authors[authors >= 0]).tolist() if is_meant(view.timeline.authors.names[code])]
    return np.isin(authors, meant)


def by_the_other_side(question: Question, rows: Rows, view: View) -> Mask:
    """Return which rows, in a store with conversations, were written by the side that the question does not ask about.

    Assistants' replies are long and repeat what the user said, so they match most questions about the user. A note has no author and
    belongs to neither side.
    """
    if not view.timeline.authors.has_any(ASSISTANTS):
        return np.zeros(len(rows), bool)
    others = USERS if question.to_listener else ASSISTANTS
    return by_authors(lambda name: name.lower() in others, rows, view)
