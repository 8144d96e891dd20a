"""Repeats: of memories that say the same, a list shows the one that fits best, and that one names the others.

Two memories say the same where one author wrote the same words in the same order, or where one has all words of the other and few
more. Case, marks, articles and "is" make no difference; a number, a negation or a condition does, and so does any exchanged word.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from memory_assets.language.english import word_set
from memory_assets.language.words import words
from memory_assets.models import Memory

_LONGEST = 2_000
"""Characters up to which texts are compared word by word; longer ones are the same only to the letter."""
_SHARE = 0.75
"""Of the words of the longer one so many are those of the shorter one."""
_COMPARED = 100
"""The best of a list to which the others are compared, so that a long list costs no square of its length."""
_FEWEST = 4
"""Words from which a text may say the same as one that says more."""


@dataclass(slots=True)
class Repeated:
    """A memory and those further down that say the same."""

    first: Memory
    others: list[Memory] = field(default_factory=list)


def join(memory: Memory, distinct: Sequence[Repeated]) -> bool:
    """Put a memory beside the first that says the same; whether there is one."""
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
    return _says(_words_of(longer), _words_of(shorter)) or _says(_words_of(shorter), _words_of(longer))


@lru_cache(maxsize=1 << 8)
def _words_of(text: str) -> list[str]:
    return [word for word in words(text) if word not in word_set("repetitions.empty")]


def _says(more: list[str], less: list[str]) -> bool:
    """Whether `more` has the words of `less` in their order, and beside them few that decide nothing."""
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
