"""Read a question and the texts of its best candidates together: which of them answer, rather than speak of the same things.

The network (`memory_assets.language.judge`) takes a millisecond or more for each text, so it reads few, and of a long text the part
that has most of the question's words.
"""

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.judge import answer_logits
from memory_assets.language.languages import recognise
from memory_assets.language.words import sentences, stems
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


def read(question: Question, found: Candidates, scores: Values, most: int = MOST_READ) -> Values:
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
    parts = [_part(found.texts[place], question) for place in best.tolist()]
    letters = np.cumsum([len(part) + min(len(question.text), _LONGEST) if part else 0 for part in parts])
    count = max(FEWEST_READ, int(np.searchsorted(letters, most * _LETTERS, "right")))
    texts = {place: part for place, part in zip(best[:count].tolist(), parts, strict=False) if not part or _is_known(part)}
    told = [place for place, part in texts.items() if part]
    if told:
        answering = answer_logits(question.text, [texts[place] for place in told])
        logits[list(texts)] = answering.mean()
        logits[told] = answering
    return logits


def _is_known(text: str) -> bool:
    return recognise(text) in (None, "en", "de")


def _part(text: str, question: Question) -> str:
    """A text, or of a long one its beginning and the sentences around the one that has most of the question's words."""
    if len(text) <= _LONGEST:
        return text
    parts = sentences(text[:_LOOKED_THROUGH])
    shared = [len(question.stems & stems(part)) for part in parts]
    place = max(range(len(parts)), key=shared.__getitem__, default=0)
    if not place:
        return text[:_LONGEST]
    opening = parts[0][: _LONGEST // 3]
    return f"{opening} {' '.join(parts[place : place + 3])}"[:_LONGEST]
