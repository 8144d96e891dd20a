"""Recall for a prompt: the memories that it needs, which may be none.

A search always has a best hit, but "run the tests again" needs none. So two things are weighed: whether prompts with such words need a
memory (the classifier `prompts`), and how likely the best hit answers (`memory_assets.recall.likelihood`). The weights were fitted to
the sessions of `sessions_train`, each prompt classified without its writer's sessions, and at two fifths of the weight to the same
prompts without the memories that they need; the thresholds were chosen on these and on two other sets of sessions (docs/recall.md).
"""

import math
from collections.abc import Callable
from datetime import datetime

from memory_assets.language.classifier import load
from memory_assets.language.english import word_set
from memory_assets.recall.search import Hit, read_query, search_with_bridges
from memory_assets.stores.filters import Filters
from memory_assets.tenants import Tenant

_HITS = 8
_MOST_READ = 12
_NEED, _LIKELIHOOD, _CONSTANT = 0.43, 0.57, -0.34
"""Weights of the log odds that the prompt needs a memory and that the best hit answers."""
_NEEDED, _SURE = -1.3, 0.1
"""Log odds from which hits are returned: by default, and with `only_sure`."""
_BESIDE = 0.02
"""Likelihood from which a hit is returned beside the best."""
_LONG, _BREADTH = 1_000, 0.1
"""Characters from which a memory loses rank with its length, and the power of that loss: one about many things resembles any prompt."""
_UNREAD, _SURE_UNREAD = 0.5, 0.9
"""Likelihoods from which hits are returned if the network read nothing, as of a prompt in a language that the classifier does not know."""


def find_for_prompt(
    tenant: Tenant,
    prompt: str,
    filters: Filters,
    now: datetime,
    is_known: Callable[[Hit], bool] = lambda _: False,
    *,
    only_sure: bool = False,
) -> list[Hit]:
    """Return the hits that a prompt needs, best first, without the known ones; a prompt without a topic ("looks good") needs none."""
    question = read_query(tenant, prompt, now)
    if word_set("prompts.talk").issuperset(question.terms):
        return []
    found = search_with_bridges(tenant, question, limit=_HITS, filters=filters, now=now, bridges=0, most_read=_MOST_READ).hits
    found.sort(key=lambda hit: -hit.score * (_LONG / max(len(hit.memory.content), _LONG)) ** _BREADTH)
    likely = [(hit, hit.likelihood or 0.0) for hit in found if not is_known(hit)]
    best = max((likelihood for _, likelihood in likely), default=0.0)
    if any(part.name == "answer" for hit in found for part in hit.components):
        log_odds = math.log((best + 1e-6) / (1 - best + 1e-6))
        odds = _NEED * load("prompts").scores(prompt)["needs"] + _LIKELIHOOD * log_odds + _CONSTANT
        is_needed, beside = odds >= (_SURE if only_sure else _NEEDED), _BESIDE
    else:
        is_needed, beside = best >= (_SURE_UNREAD if only_sure else _UNREAD), _UNREAD
    return [hit for hit, likelihood in likely if likelihood >= beside] if is_needed else []
