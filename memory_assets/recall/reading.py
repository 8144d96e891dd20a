"""Scores by the network whether the best candidates answer a question, not only share its topic.

The network (`memory_assets.language.judge`) takes a millisecond or more per text, so it reads few texts, and of a long text only the
passage most similar to the question's words.
"""

from collections.abc import Callable, Sequence

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.judge import answer_logits
from memory_assets.language.languages import recognise
from memory_assets.language.nearness import nearness
from memory_assets.language.passages import Weigh
from memory_assets.language.words import fold, sentences
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import Question

FEWEST_READ, MOST_READ = 3, 8
"""Minimum and maximum number of candidates that a search reads, the best by the other components; short texts allow more."""
_LETTERS = 125
"""Budget of characters per candidate, of question and text together, beyond the minimum number."""
_MIN_SHARE, _MIN_SHARE_IN_DEPTH = 0.6, 0.3
"""Share of the best score from which a candidate is read: by default, and if more than `MOST_READ` may be."""
PASSAGE_CHARACTERS = 360
_SEARCHED_CHARACTERS = 20_000
"""Characters of a text among which its passage is chosen."""
_MOST_SENTENCES, _SENTENCE_CHARACTERS = 12, 160
"""Sentences of a text, from its beginning, that are read one by one, and how much of each."""
_LEAST_LOGIT, _PER_LOGIT = -2.5, 0.5
"""Log odds up to which a sentence weighs no more than an unread one, and the weight of each further unit: a rare word weighs about 2."""
_FIRST = 0.35
"""Additional weight of a passage's first sentence, which determines the passage."""


def read(question: Question, found: Candidates, scores: Values, idf: Callable[[str], float], most: int = MOST_READ) -> Values:
    """Return the log odds that each candidate answers the question; NaN for those not read. At most `most` are read.

    The network was trained on English and German and does not read other languages. A candidate that neither index returned, a
    neighbour in a session, has no text here and gets the mean of the others.
    """
    logits = np.full(len(found), np.nan)
    if not question.terms or not _is_known(question.text):
        return logits
    best = np.argsort(-scores, kind="stable")[:most]
    least = _MIN_SHARE if most <= MOST_READ else _MIN_SHARE_IN_DEPTH
    best = best[scores[best] >= least * scores[best].max(initial=0.0)]
    letters = [min(len(found.texts[place]), PASSAGE_CHARACTERS) for place in best.tolist()]
    cost = np.cumsum([each + min(len(question.text), PASSAGE_CHARACTERS) if each else 0 for each in letters])
    count = max(FEWEST_READ, int(np.searchsorted(cost, most * _LETTERS, "right")))
    parts = {place: passage(found.texts[place], question, idf) for place in best[:count].tolist()}
    texts = {place: part for place, part in parts.items() if not part or _is_known(part)}
    with_text = [place for place, part in texts.items() if part]
    if with_text:
        answering = answer_logits(question.text, [texts[place] for place in with_text])
        logits[list(texts)] = answering.mean()
        logits[with_text] = answering
    return logits


def weigh_answers(question: str) -> Weigh:
    """Return a function that weighs the sentences of a text by whether they answer; it reads each once, in languages that it knows."""
    read: dict[str, float] = {}

    def weigh(texts: Sequence[str]) -> list[float]:
        shown = {text: text[:_SENTENCE_CHARACTERS] for text in texts[:_MOST_SENTENCES] if text not in read}
        new = [text for text in shown if _is_known(shown[text])] if _is_known(question) else []
        logits = answer_logits(question, [shown[text] for text in new])
        read.update(zip(new, (_PER_LOGIT * np.maximum(logits - _LEAST_LOGIT, 0)).tolist(), strict=True))
        return [read.get(text, 0.0) for text in texts]

    return weigh


def _is_known(text: str) -> bool:
    return recognise(text) in (None, "en", "de")


def passage(text: str, question: Question, idf: Callable[[str], float]) -> str:
    """Return a short text whole, of a long one its beginning and the sentences most similar to the question's words, weighted by idf."""
    if len(text) <= PASSAGE_CHARACTERS:
        return text
    parts = sentences(text[:_SEARCHED_CHARACTERS]) or [""]
    near = nearness(question.topic, parts)
    mass = np.array([idf(term) for term in map(fold, question.topic)])
    opening = parts[0][: PASSAGE_CHARACTERS // 3]
    ends = np.cumsum([len(part) + 1 for part in parts])

    def worth(first: int) -> float:
        room = PASSAGE_CHARACTERS - (len(opening) if first else 0)
        end = max(first + 1, int(np.searchsorted(ends, ends[first] - len(parts[first]) - 1 + room, "right")))
        covered = np.maximum(near[:, 0], near[:, first:end].max(axis=1))
        return float(mass @ (covered + _FIRST * near[:, first]))

    place = max(range(len(parts)), key=worth)
    return f"{opening} {' '.join(parts[place:])}"[:PASSAGE_CHARACTERS] if place else text[:PASSAGE_CHARACTERS]
