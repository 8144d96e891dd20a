"""How relevant a node is to a topic (seed 004, Relevance Scoring).

    score = 0.40 / graph distance + 0.35 * semantic similarity + 0.25 * recency

The graph distance of a start is 1, of its neighbours 2, and so on. Where nothing is embedded, the similarity is left out and the
weights are 0.60 and 0.40. Recency is exp(-days / 30); 0.5 where nobody knows when a node was modified.
"""

import math
from datetime import datetime

DISTANCE_WEIGHT, SEMANTIC_WEIGHT, RECENCY_WEIGHT = 0.40, 0.35, 0.25
DISTANCE_WEIGHT_ALONE, RECENCY_WEIGHT_ALONE = 0.60, 0.40
"""Without embeddings."""
LENS_BOOST = 0.1
"""What a node gains that the lens prefers; no score exceeds 1."""
_RECENCY_DAYS = 30.0
_UNKNOWN_RECENCY = 0.5


def score(hops: int, similarity: float | None, recency: float, *, boosted: bool = False) -> float:
    """The score, 0..1.

    `hops` counts the links to the nearest start; `similarity` is 0..1, None where nothing is embedded; the lens prefers
    a `boosted` node.
    """
    closeness = 1.0 / (hops + 1)
    if similarity is None:
        total = DISTANCE_WEIGHT_ALONE * closeness + RECENCY_WEIGHT_ALONE * recency
    else:
        total = DISTANCE_WEIGHT * closeness + SEMANTIC_WEIGHT * similarity + RECENCY_WEIGHT * recency
    return min(1.0, total + LENS_BOOST * boosted)


def recency(modified: datetime | None, now: datetime) -> float:
    """1 for what was modified this moment or lies ahead, falling to 1/e in 30 days. Both times are aware."""
    if modified is None:
        return _UNKNOWN_RECENCY
    return math.exp(-max(0.0, (now - modified).total_seconds()) / 86_400 / _RECENCY_DAYS)
