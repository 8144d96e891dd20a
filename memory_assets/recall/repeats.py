"""Repeats: of memories that say the same, a list shows the best, which lists the others.

Two memories say the same if one author wrote the same words in the same order, or if one contains all words of the other and few more.
Case, punctuation, articles and "is" are ignored; an additional number, negation or condition, or any exchanged word, is a difference.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from memory_assets.language.english import word_set
from memory_assets.language.words import words
from memory_assets.models import Memory

_LONGEST = 2_000
"""Maximum characters of texts compared by words; longer ones are the same only if they are identical."""
_SHARE = 0.75
"""Minimum share of the longer text's words that the shorter one contains."""
_COMPARED = 100
"""Number of best memories that the others are compared with, so that a long list does not take quadratic time."""
_FEWEST = 4
"""Minimum words of a text that may repeat a longer one."""


@dataclass(slots=True)
class Repeated:
    """A memory and lower-ranked ones that say the same."""

    first: Memory
    others: list[Memory] = field(default_factory=list)


def join(memory: Memory, distinct: Sequence[Repeated]) -> bool:
    """Add a memory to the first that says the same; returns whether there is one."""
    same = next((each for each in distinct[:_COMPARED] if _are_same(each.first, memory)), None)
    if same:
        same.others.append(memory)
    return same is not None


def _are_same(one: Memory, other: Memory) -> bool:
    if (one.author, one.state) != (other.author, other.state):
        return False
    shorter, longer = sorted((one.content, other.content), key=len)
    if shorter == longer:
        return True
    if len(longer) > _LONGEST or len(shorter) < _SHARE / 2 * len(longer):
        return False
    return _contains(_words_of(longer), _words_of(shorter)) or _contains(_words_of(shorter), _words_of(longer))


@lru_cache(maxsize=1 << 8)
def _words_of(text: str) -> list[str]:
    return [word for word in words(text) if word not in word_set("repetitions.empty")]


def _contains(more: list[str], less: list[str]) -> bool:
    """Return whether `more` has the words of `less` in order, and besides them only a few that make no difference."""
    if more == less:
        return bool(more)
    if len(less) < max(_FEWEST, _SHARE * len(more)) or len(less) >= len(more):
        return False
    rest = iter(more)
    if not all(word in rest for word in less):
        return False
    extra = Counter(more) - Counter(less)
    deciding = word_set("repetitions.deciding")
    return not any(word in deciding or "n't" in word or any(map(str.isdigit, word)) for word in extra)
