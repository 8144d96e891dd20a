"""How likely a memory answers a question, 0..1, by what a search has of it already.

A logistic regression over three parts, and over a fourth of the memories that were read together with the question:

    gap     how much nearer in meaning it is than random memories of the store are, in units of how much nearer the embedder finds related
            texts than unrelated ones: what is near to everything is near to any question
    said    share of the question's idf mass whose words it has
    known   share of the question's idf mass whose words anything remembered has
    read    the log odds of the network, see `memory_assets.recall.reading`

docs/recall.md says which sets it was trained on.
"""

from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memory_assets.arrays import Floats, Mask, Values
from memory_assets.language.embedders import Embedder
from memory_assets.language.embedders.calibration import Scale, unrelated_notes
from memory_assets.language.embedders.context import embed_in_context

if TYPE_CHECKING:
    from memory_assets.recall.candidates import Candidates
    from memory_assets.recall.question import Question
    from memory_assets.recall.view import View

_WEIGHTS, _CONSTANT = (9.9, 1.44, 3.39), -3.56
"""If nothing is read ..."""
_WEIGHTS_UNREAD, _CONSTANT_UNREAD = (8.6, 1.1, -0.2), -5.5
"""... of what is not read beside what is ..."""
_WEIGHTS_READ, _CONSTANT_READ = (2.7, 0.24, 0.78, 1.0), -1.25
"""... and of what is read."""
_LEAST = {(False, False): 0.18, (False, True): 0.3, (True, False): 0.03, (True, True): 0.06}
"""Likelihood of the best memory below which a question finds nothing, by whether it was read and is bare words. Of bare words whoever
remembers something has some; a question may be put in other words throughout."""
_BESIDE, _BESIDE_UNREAD = 1 / 20, 1 / 80
"""Share of the odds of the best from which a memory that was read stands beside it, and one that was not."""
_LIKELY, _SURE = 0.5, 0.9
_ENOUGH = 50
"""Memories from which the mean of their vectors is that of random texts. What a smaller one lacks are notes about all sorts of things."""

_SOME_DAY = "[3 May 2026]"
"""What they are headed with, as memories are."""

_notes: "WeakKeyDictionary[Embedder, Floats]" = WeakKeyDictionary()
"""Mean vectors of those."""


class Fit(StrEnum):
    """How well a memory fits a question, in a word."""

    SURE = "sure"
    LIKELY = "likely"
    NEAR = "near"
    """Only near: what was asked may be remembered nowhere."""

    @classmethod
    def of(cls, likelihood: float) -> "Fit":
        return cls.SURE if likelihood >= _SURE else cls.LIKELY if likelihood >= _LIKELY else cls.NEAR


def likelihoods(
    question: "Question", found: "Candidates", said: Values, logits: Values, view: "View", embedder: Embedder, scale: Scale
) -> Values:
    """How likely each candidate answers a question.

    Args:
        question: what was asked.
        found: the candidates.
        said: share of the question's idf mass that each has the words of.
        logits: what the network that read some of them says; NaN for the others.
        view: what is known of the store.
        embedder: of the store's vectors.
        scale: of the embedder's similarities.
    """
    parts = parts_of(question, found, said, view, embedder, scale)
    read = ~np.isnan(logits)
    odds = parts @ _WEIGHTS_UNREAD + _CONSTANT_UNREAD if read.any() else parts @ _WEIGHTS + _CONSTANT
    odds[read] = np.column_stack([parts[read], logits[read]]) @ _WEIGHTS_READ + _CONSTANT_READ
    return 1 / (1 + np.exp(-odds))


def finds_something(question: "Question", likely: Values, logits: Values) -> bool:
    """Whether any memory is likely enough to be shown."""
    return bool(likely.max(initial=0.0) >= _LEAST[not np.isnan(logits).all(), question.is_bare])


def parts_of(question: "Question", found: "Candidates", said: Values, view: "View", embedder: Embedder, scale: Scale) -> Floats:
    """The gap of each candidate, what of the question it says, and what is known at all, shape (candidates, 3)."""
    idf = {term: view.terms.idf(term) for term in question.terms}
    total = sum(idf.values())
    known = sum(value for term, value in idf.items() if view.terms.knows(term)) / total if total else 1.0
    cosine = found.cosine[~np.isnan(found.cosine)]
    usual = float(found.vector @ _background(view, embedder))
    gap = np.where(np.isnan(found.cosine), cosine.min(initial=usual), found.cosine) - usual
    gap /= scale.cosines[2] - scale.cosines[0]
    return np.column_stack([gap, said, np.full(len(found), known)])


def beside_the_best(likely: Values, logits: Values) -> Mask:
    """Which memories are likely enough to stand beside the best; of those that were read `logits` has what the network says."""
    odds = likely / (1 - likely)
    unread = np.isnan(logits) & ~np.isnan(logits).all()
    return odds >= odds.max(initial=0.0) * np.where(unread, _BESIDE_UNREAD, _BESIDE)


def _background(view: "View", embedder: Embedder) -> Floats:
    """The mean vector of random memories."""
    count = view.background.texts
    if count >= _ENOUGH:
        return view.background.mean
    if embedder not in _notes:
        notes = unrelated_notes()
        _notes[embedder] = embed_in_context(embedder, notes, [_SOME_DAY] * len(notes)).in_context.mean(axis=0)
    share = count / _ENOUGH
    return (share * view.background.mean + (1 - share) * _notes[embedder]).astype(np.float32)
