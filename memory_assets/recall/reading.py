"""Read a question and the texts of its best candidates together: which of them answer, rather than speak of the same things.

The network (`memory_assets.language.judge`) takes a millisecond or more for each text, so it reads few, and of a long text the part
that comes nearest to the question's words.
"""

from collections.abc import Callable

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.judge import answer_logits
from memory_assets.language.languages import recognise
from memory_assets.language.nearness import nearness
from memory_assets.language.words import fold, sentences
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import Question

FEWEST_READ, MOST_READ = 3, 8
"""Candidates that a search reads, the best by everything else: at least three, and as many more as are short."""
_LETTERS = 125
"""Letters of question and text that are read of each candidate on average, beyond the first three."""
_LEAST_SHARE, _LEAST_SHARE_IN_DEPTH = 0.6, 0.3
"""Share of the best score from which a candidate is read, and where more than `MOST_READ` are."""
_LONGEST = 360
"""Characters of a text that are read ..."""
_LOOKED_THROUGH = 20_000
"""... and in which they are looked for."""
_FIRST = 0.35
"""How much the first sentence of a part counts once more: the others are only seen beside it."""


def read(question: Question, found: Candidates, scores: Values, idf: Callable[[str], float], most: int = MOST_READ) -> Values:
    """Log odds that each candidate answers the question; NaN for those that were not read, all but `most`.

    The network was trained on English and German; other languages are left to the other components. A candidate that neither index
    found, a neighbour in a session, has no text at hand and gets the mean of the others.
    """
    logits = np.full(len(found), np.nan)
    if not question.terms or not _is_known(question.text):
        return logits
    best = np.argsort(-scores, kind="stable")[:most]
    least = _LEAST_SHARE if most <= MOST_READ else _LEAST_SHARE_IN_DEPTH
    best = best[scores[best] >= least * scores[best].max(initial=0.0)]
    letters = [min(len(found.texts[place]), _LONGEST) for place in best.tolist()]
    cost = np.cumsum([each + min(len(question.text), _LONGEST) if each else 0 for each in letters])
    count = max(FEWEST_READ, int(np.searchsorted(cost, most * _LETTERS, "right")))
    parts = {place: passage(found.texts[place], question, idf) for place in best[:count].tolist()}
    texts = {place: part for place, part in parts.items() if not part or _is_known(part)}
    told = [place for place, part in texts.items() if part]
    if told:
        answering = answer_logits(question.text, [texts[place] for place in told])
        logits[list(texts)] = answering.mean()
        logits[told] = answering
    return logits


def _is_known(text: str) -> bool:
    return recognise(text) in (None, "en", "de")


def passage(text: str, question: Question, idf: Callable[[str], float]) -> str:
    """A text, or of a long one its beginning and the sentences that come nearest to the question's words, rare ones above all."""
    if len(text) <= _LONGEST:
        return text
    parts = sentences(text[:_LOOKED_THROUGH]) or [""]
    near = nearness(question.topic, parts)
    mass = np.array([idf(term) for term in map(fold, question.topic)])
    opening = parts[0][: _LONGEST // 3]
    ends = np.cumsum([len(part) + 1 for part in parts])

    def worth(first: int) -> float:
        room = _LONGEST - (len(opening) if first else 0)
        end = max(first + 1, int(np.searchsorted(ends, ends[first] - len(parts[first]) - 1 + room, "right")))
        told = np.maximum(near[:, 0], near[:, first:end].max(axis=1))
        return float(mass @ (told + _FIRST * near[:, first]))

    place = max(range(len(parts)), key=worth)
    return f"{opening} {' '.join(parts[place:])}"[:_LONGEST] if place else text[:_LONGEST]
