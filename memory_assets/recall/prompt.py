"""Recall for a prompt: the memories that it needs, which may be none.

A search always has a best hit, but "run the tests again" needs none. So a hit must be likely to answer (`memory_assets.recall.likelihood`).
The thresholds were chosen on three sets of written sessions (docs/recall.md), which disagree on the cost of lower ones: an unneeded line
costs thirty tokens, a missing one may cost the work.
"""

from collections.abc import Set
from datetime import datetime
from typing import TYPE_CHECKING

from memory_assets.language.english import word_set
from memory_assets.recall.search import Hit, read_query, search_with_bridges
from memory_assets.stores.filters import Filters

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_HITS = 8
_MOST_READ = 12
_LIKELY, _SURE = 0.15, 0.5
"""Likelihood of the best hit from which hits are returned: by default, and with `only_sure`."""
_BESIDE = 0.04
"""Likelihood from which a hit is returned beside the best."""
_UNREAD, _SURE_UNREAD = 0.9, 0.95
"""The same thresholds if the network read nothing: by words and vectors alone, many memories look likely."""


def find_for_prompt(
    tenant: "Tenant", prompt: str, filters: Filters, now: datetime, known: Set[int] = frozenset(), *, only_sure: bool = False
) -> list[Hit]:
    """Return the hits that a prompt needs, best first, without the `known` ones; a prompt without a topic ("looks good") needs none.

    Raises:
        StoreError: the store's vectors are another embedder's, or it cannot be read.
        EmbedderError: the prompt cannot be embedded.
    """
    question = read_query(tenant, prompt, now)
    if word_set("prompts.talk").issuperset(question.terms):
        return []
    found = search_with_bridges(tenant, question, limit=_HITS, filters=filters, now=now, bridges=0, most_read=_MOST_READ).hits
    likely = [(hit, hit.likelihood or 0.0) for hit in found if hit.memory.id not in known]
    is_read = any(part.name == "answer" for hit in found for part in hit.components)
    likely_from, sure_from, beside = (_LIKELY, _SURE, _BESIDE) if is_read else (_UNREAD, _SURE_UNREAD, _UNREAD)
    if max((likelihood for _, likelihood in likely), default=0.0) < (sure_from if only_sure else likely_from):
        return []
    return [hit for hit, likelihood in likely if likelihood >= beside]
