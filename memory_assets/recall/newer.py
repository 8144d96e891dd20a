"""The newer of two answers: no graph knows every change, so a newer text that answers as well may tell what holds.

A logistic regression over what the search already knows. `tools/statement_judge/newer.py` fits it; docs/recall.md names its training sets.
"""

import numpy as np

from memory_assets.arrays import Rows, Values
from memory_assets.language.changes import announces, tells_the_present
from memory_assets.models import Memory, Source, is_time_guessed
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.reading import PASSAGE_CHARACTERS
from memory_assets.recall.view import View
from memory_assets.stores.memories import MemoryStore

_WEIGHTS, _CONSTANT = (2.32, 0.27, 0.12, 0.83, -0.66), -3.69
_LEAST_SHARE = 0.3
"""Share of the best score below which a newer text is not looked at."""
_LEAST_ODDS = 2 / 3
"""Odds that the newer text answers and the best does not, from which it comes first: 40 %, as the outdated one misleads."""
_DAY_MICROSECONDS = 86_400_000_000
"""Answers of one day tell the same story."""


def find_newer_answer(
    store: MemoryStore, view: View, found: Candidates, likely: Values, outdated: Rows, scores: Values
) -> int | None:
    """Return the candidate that may answer in place of the best, which is older; None if there is none.

    `likely` is the likelihood of each to answer. `outdated` are those that the graph knows to be outdated. Only short texts are compared:
    of a long one another part may be new.
    """
    places, features = newer_than_best(view, found, likely, outdated, scores)
    odds = np.exp(features @ _WEIGHTS + _CONSTANT)
    order = np.argsort(-odds, kind="stable")
    places = places[order[odds[order] >= _LEAST_ODDS]]
    if not len(places):
        return None
    both = np.append(places, scores.argmax())
    memories = store.take(found.ids[both].tolist(), found.row_ids[both].tolist())
    newer = [memories.get(number) for number in found.ids[both].tolist()]
    older = newer.pop()
    return next((place for place, each in zip(places.tolist(), newer, strict=True) if may_replace(older, each)), None)


def newer_than_best(view: View, found: Candidates, likely: Values, outdated: Rows, scores: Values) -> tuple[Rows, Values]:
    """Return the candidates near the best, newer by a day and not by another author, and their features, shape (candidates, 5).

    The features are the share of the best score, the log odds that it answers, the logarithm of the days between the two, whether it is the
    next best, and whether both are turns of conversations.
    """
    if len(found) < 2 or scores.max() <= 0:
        return np.zeros(0, np.intp), np.zeros((0, len(_WEIGHTS)))
    first, second = np.argsort(-scores, kind="stable")[:2].tolist()
    rows = view.timeline.rows(found.ids)
    created, session, author = (view.timeline.values(name, rows, -1) for name in ("created", "session", "author"))
    days = (created - created[first]) / _DAY_MICROSECONDS
    is_other = (author != author[first]) & (author >= 0) & (author[first] >= 0)
    is_near = scores >= _LEAST_SHARE * scores[first]
    newer = np.setdiff1d(np.flatnonzero((days >= 1) & is_near & ~is_other), outdated)
    answers = np.clip(likely[newer], 1e-4, 1 - 1e-4)
    is_turn = (session >= 0) & ~view.timeline.values("filed", rows, True)
    turns = is_turn[newer] & is_turn[first]
    features = scores[newer] / scores[first], np.log(answers / (1 - answers)), np.log(days[newer]), newer == second, turns
    return newer, np.column_stack(features).astype(np.float64)


def may_replace(older: Memory | None, newer: Memory | None) -> bool:
    """Return whether the newer may tell what holds: the present, at a known time, and announced if both are turns of conversations."""
    if not older or not newer or is_time_guessed(newer.metadata) or not tells_the_present(newer.content):
        return False
    is_short = max(len(older.content), len(newer.content)) <= PASSAGE_CHARACTERS
    are_turns = all(each.session and each.source is not Source.CLAUDE_SILO for each in (older, newer))
    return is_short and (not are_turns or announces(newer.content))
