"""Likelihood, 0..1, that a memory answers a question, from data that the search already has.

A logistic regression over three features, and a fourth for memories that the network read together with the question:

    gap     its cosine minus that of random memories of the store, in units of the difference between related and unrelated texts with
            this embedder: what is similar to everything is similar to any question
    said    share of the question's idf mass whose words it contains
    known   share of the question's idf mass whose words any memory contains
    read    the log odds of the network, see `memory_assets.recall.reading`

docs/recall.md names the training sets.
"""

from enum import StrEnum
from weakref import WeakKeyDictionary

import numpy as np

from memory_assets.arrays import Floats, Mask, Values
from memory_assets.language.embedders import Embedder
from memory_assets.language.embedders.bge import BGE_NAME
from memory_assets.language.embedders.calibration import Scale, unrelated_notes
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.e5 import E5_NAME
from memory_assets.language.languages import ENGLISH, recognise
from memory_assets.recall.candidates import Candidates
from memory_assets.recall.question import Question
from memory_assets.recall.view import View

_WEIGHTS, _CONSTANT = (9.9, 1.44, 3.39), -3.56
"""If the network read none of the candidates."""
_WEIGHTS_UNREAD, _CONSTANT_UNREAD = (8.6, 1.1, -0.2), -5.5
"""For candidates that it did not read, if it read others."""
_WEIGHTS_READ, _CONSTANT_READ = (2.7, 0.24, 0.78, 1.0), -1.25
"""For candidates that it read."""
_THRESHOLDS = {(False, False): 0.18, (False, True): 0.3, (True, False): 0.03, (True, True): 0.06}
"""(Network read candidates, question is bare words) -> likelihood of the best memory below which the search finds nothing. An answer
usually contains some of a query's bare words; a question may be phrased in entirely other words."""
_BESIDE, _BESIDE_UNREAD = 1 / 20, 1 / 80
"""Share of the best memory's odds from which a read and an unread memory is shown beside it."""
_LIKELY, _SURE = 0.5, 0.9
_ENOUGH = 50
"""Memories from which their mean vector is a good background. In a smaller store, notes on unrelated topics make up the rest."""
_ENOUGH_FOREIGN = 3
"""The same for a question in a language that these notes are not in: a multilingual embedder finds all texts of one language similar."""
_SPREAD = {E5_NAME: 0.65}
"""Embedder -> length of a query without what it shares with all prompts: its cosines differ more by the inverse."""
_SOME_DAY = "[3 May 2026]"
"""Heading of these notes, as memories have one."""

_notes: "WeakKeyDictionary[Embedder, Floats]" = WeakKeyDictionary()
"""Mean vector of these notes, by embedder."""


class Fit(StrEnum):
    """How well a memory fits a question, as a label."""

    SURE = "sure"
    LIKELY = "likely"
    NEAR = "near"
    """Only similar: perhaps no memory answers the question."""

    @classmethod
    def of(cls, likelihood: float, *, is_read: bool) -> "Fit":
        """Return the label of a likelihood; without the network's reading, similarity alone gives `NEAR`."""
        if not is_read:
            return cls.NEAR
        return cls.SURE if likelihood >= _SURE else cls.LIKELY if likelihood >= _LIKELY else cls.NEAR


def likelihoods(
    question: Question, found: Candidates, said: Values, logits: Values, view: View, embedder: Embedder, scale: Scale
) -> Values:
    """Return the likelihood of each candidate to answer the question; `logits` is NaN for those that the network did not read."""
    parts = parts_of(question, found, said, view, embedder, scale)
    read = ~np.isnan(logits)
    odds = parts @ _WEIGHTS_UNREAD + _CONSTANT_UNREAD if read.any() else parts @ _WEIGHTS + _CONSTANT
    odds[read] = np.column_stack([parts[read], logits[read]]) @ _WEIGHTS_READ + _CONSTANT_READ
    return 1 / (1 + np.exp(-odds))


def finds_something(question: Question, likely: Values, logits: Values) -> bool:
    """Return whether any memory is likely enough to be shown."""
    return bool(likely.max(initial=0.0) >= _THRESHOLDS[not np.isnan(logits).all(), question.is_bare])


def parts_of(question: Question, found: Candidates, said: Values, view: View, embedder: Embedder, scale: Scale) -> Floats:
    """Return the features gap, said and known of each candidate, shape (candidates, 3)."""
    idf = {term: view.terms.idf(term) for term in question.terms}
    total = sum(idf.values())
    known = sum(value for term, value in idf.items() if view.terms.knows(term)) / total if total else 1.0
    cosine = found.cosine[~np.isnan(found.cosine)]
    usual = float(found.vector @ _background_mean(view, embedder, question.text))
    gap = np.where(np.isnan(found.cosine), cosine.min(initial=usual), found.cosine) - usual
    gap *= _SPREAD.get(embedder.name, 1.0) / (scale.cosines[2] - scale.cosines[0])
    return np.column_stack([gap, said, np.full(len(found), known)])


def beside_the_best(likely: Values, logits: Values) -> Mask:
    """Return which memories are likely enough to be shown beside the best; `logits` is NaN for those that the network did not read."""
    odds = likely / (1 - likely)
    unread = np.isnan(logits) & ~np.isnan(logits).all()
    return odds >= odds.max(initial=0.0) * np.where(unread, _BESIDE_UNREAD, _BESIDE)


def _background_mean(view: View, embedder: Embedder, asked: str) -> Floats:
    enough = _ENOUGH if embedder.name == BGE_NAME or recognise(asked) == ENGLISH else _ENOUGH_FOREIGN
    if view.background.texts >= enough:
        return view.background.mean
    if embedder not in _notes:
        notes = unrelated_notes()
        _notes[embedder] = embed_in_context(embedder, notes, [_SOME_DAY] * len(notes)).in_context.mean(axis=0)
    share = view.background.texts / enough
    return (share * view.background.mean + (1 - share) * _notes[embedder]).astype(np.float32)
