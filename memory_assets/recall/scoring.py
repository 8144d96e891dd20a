"""The eight components of a score (seed 003, section 3), each within 0..1, and how they add up.

    score = sum(weight * value) / sum(weight of the components that speak)

A component that has nothing to say about a question (no time in it, none of the store's tags, no graph yet) is left out of the
sum for all candidates alike, so that it neither drags nor lifts anybody. Three components judge the text itself; their weighted mean
is the *match*:

    vector      cosine similarity, min-max scaled among the nearest
    keyword     BM25 relative to the best, times the largest content value: where no text says much of what was
                asked, the words that happen to occur count for little, and meaning decides
    content     share of the question's idf mass whose exact words occur in the text

The other five cannot make a memory relevant that does not match at all, because each is scaled by the match of the memory itself
or of the memories it stands next to:

    relation    support from the graph: neighbours in the session, typed edges and shared entities pass on a part of
                the match of the memories they lead to; who and what the question names counts too
    temporal    1 within the time that the question names, less with distance
    tag         idf share of the tags that the question names; it lifts, it never gates
    importance  as stored
    recency     exp(-days / 30)
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.settings import Settings

OTHER_SIDE = 0.5
"""What is left of every component where the assistant said it and the question is about the user, or the other way round."""
ASKING = 0.7
"""What is left of every component of a short text that asks something: it resembles the question, and the answer stands elsewhere."""
RECENCY_DAYS = 30.0
"""Days after which recency has fallen to 1/e."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight of each component before division by the sum; 0 switches one off."""

    vector: float = 0.35
    keyword: float = 0.05
    relation: float = 0.35
    content: float = 0.25
    temporal: float = 0.15
    tag: float = 0.05
    importance: float = 0.05
    recency: float = 0.05

    @classmethod
    def of(cls, settings: "Settings") -> "Weights":
        """The weights of the settings."""
        return cls(**{field.name: getattr(settings, f"weight_{field.name}") for field in fields(cls)})


NARROWEST = 0.05
"""Cosine similarities that lie closer together than this are not stretched to the whole of 0..1. Models spread differently: with
bge-small .03 to .12 lie between the best and the hundredth; in a store of a few memories less than .05 says nothing."""


def scaled_cosine(cosine: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
    """Min-max scaled to 0..1, NaN to 0; the lowest keeps a little, so that being found at all counts."""
    known = cosine[~np.isnan(cosine)]
    if not len(known):
        return np.zeros_like(cosine)
    span = max(float(known.max() - known.min()), NARROWEST)
    return np.nan_to_num(1.0 - 0.95 * (known.max() - cosine) / span, nan=0.0)


def scaled_bm25(bm25: "npt.NDArray[np.float64]") -> "npt.NDArray[np.float64]":
    """Relative to the best, NaN to 0."""
    known = bm25[~np.isnan(bm25)]
    best = float(known.max(initial=0.0))
    return np.nan_to_num(bm25 / best, nan=0.0) if best else np.zeros_like(bm25)


def trust_in_words(coverage: "npt.NDArray[np.float64]") -> float:
    """How much full text can be trusted with a question: the largest content value among the candidates."""
    return float(coverage.max(initial=0.0))


def closeness(created: "npt.NDArray[np.int64]", start: int, end: int) -> "npt.NDArray[np.float64]":
    """1 for times within start..end, falling with the distance to it in units of its length (at least a day).

    All three are microseconds since 1970.
    """
    distance = np.maximum(0, np.maximum(start - created, created - (end - 1)))
    return np.exp(-distance / max(end - start, 86_400_000_000))


def recency(created: "npt.NDArray[np.int64]", now: int) -> "npt.NDArray[np.float64]":
    """exp(-days / 30) of the age; both times are microseconds since 1970."""
    days = np.maximum(0, now - created) / 86_400_000_000
    return np.exp(-days / RECENCY_DAYS)
