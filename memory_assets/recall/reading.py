"""Read a question and the texts of its best candidates together: which of them answer, rather than speak of the same things.

The network (`memory_assets.language.judge`) takes a millisecond or more for each text, so it reads few, and of a long text the part
that has most of the question's words.
"""

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.judge import answer_logits
from memory_assets.language.words import is_unspaced, sentences, stems
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import Question

MOST_READ = 8
"""Candidates that are read, the best by everything else."""
_LEAST_SHARE = 0.5
"""Share of the best score from which a candidate is read."""
_LONGEST = 360
"""Characters of a text that are read."""


def read(question: Question, found: Candidates, scores: Values) -> Values:
    """Log odds that each candidate answers the question; NaN for those that were not read.

    One that neither index found, a neighbour in a session, has no text at hand and gets the mean of the others.
    """
    logits = np.full(len(found), np.nan)
    if not question.terms or is_unspaced(question.text):
        return logits
    best = np.argsort(-scores, kind="stable")[:MOST_READ]
    best = best[scores[best] >= _LEAST_SHARE * scores[best].max(initial=0.0)]
    places = [place for place in best.tolist() if found.texts[place]]
    if places:
        read_ones = answer_logits(question.text, [_part(found.texts[place], question) for place in places])
        logits[best] = read_ones.mean()
        logits[places] = read_ones
    return logits


def _part(text: str, question: Question) -> str:
    """A text, or of a long one its beginning and the sentences around the one that has most of the question's words."""
    if len(text) <= _LONGEST:
        return text
    parts = sentences(text)
    shared = [len(question.stems & stems(part)) for part in parts]
    place = max(range(len(parts)), key=lambda each: shared[each])
    if not place:
        return text[:_LONGEST]
    opening = parts[0][: _LONGEST // 3]
    return f"{opening} {' '.join(parts[place : place + 3])}"[:_LONGEST]
