"""What a prompt recalls: the memories that it needs, none where it needs none.

A search always has a best hit. A session must not be told it with every "run the tests again", so each hit is judged by three figures:
how near its meaning is to the prompt's on the common scale, the share of the prompt's telling words (by idf mass) that it has, and its
BM25. The weights are a logistic regression over benchmarks/sets/sessions_train.jsonl, 432 prompts of which 180 need nothing.
"""

from collections.abc import Set
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.arrays import Values
from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.context import meanings_of
from memory_assets.recall.search import Hit, read_query, search_with_bridges
from memory_assets.stores.filters import Filters

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_HITS = 8
_NEAREST = 50
_WEIGHTS = (4.0, 1.1, 0.3)
_CONSTANT = -3.1
_MOST_BM25 = 15.0
_LIKELY, _SURE = 0.72, 0.85
"""Probability of the best hit from which a prompt is told something, and from which it is with `sure`."""
_BESIDE = 0.6
"""Probability from which a hit is told beside the best."""


def find_for_prompt(
    tenant: "Tenant", prompt: str, filters: Filters, now: datetime, known: Set[int] = frozenset(), *, only_sure: bool = False
) -> list[Hit]:
    """The hits that a prompt needs, best first, without the `known` ones.

    Raises:
        StoreError: the store's vectors are another embedder's, or it cannot be read.
        EmbedderError: the prompt cannot be embedded.
    """
    question = read_query(tenant, prompt, now)
    if not question.terms:
        return []
    found = search_with_bridges(tenant, question, limit=_HITS, filters=filters, now=now, bridges=0).hits
    hits = [hit for hit in found if hit.memory.id not in known]
    if not hits:
        return []
    likely = _probabilities(tenant, prompt, hits, filters)
    least = _SURE if only_sure else _LIKELY
    if likely.max() < least:
        return []
    return [hit for hit, probability in zip(hits, likely.tolist(), strict=True) if probability >= _BESIDE]


def _probabilities(tenant: "Tenant", prompt: str, hits: list[Hit], filters: Filters) -> Values:
    scale = scale_of(tenant.embedder.name, tenant.memories.columns.scale)
    nearest = tenant.memories.alike(meanings_of(tenant.embedder, [prompt])[0], _NEAREST, filters)
    similarity = dict(zip(nearest["id"].to_pylist(), scale.similarity(nearest["similarity"].to_numpy()).tolist(), strict=True))
    parts = [{part.name: part.raw for part in hit.components} for hit in hits]
    features = [
        (similarity.get(hit.memory.id, 0.0), each["content"] or 0.0, min(each["keyword"] or 0.0, _MOST_BM25))
        for hit, each in zip(hits, parts, strict=True)
    ]
    return 1 / (1 + np.exp(-(np.array(features) @ _WEIGHTS + _CONSTANT)))
