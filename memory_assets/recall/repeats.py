"""Repeats: of memories that say the same, a list shows the one that fits best, and that one names the others.

Two memories say the same where one author wrote the same words in the same order, or where one has all words of the other and few
more. Case, marks, articles and "is" make no difference; a number, a negation or a condition does, and so does any exchanged word.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

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


class Distinct:
    """Memories, each beside the first that said the same."""

    def __init__(self) -> None:
        self._groups: list[Repeated] = []
        self._words: dict[int, list[str]] = {}

    def __iter__(self) -> Iterator[Repeated]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, memory: Memory) -> bool:
        """Put a memory beside the one that says the same; whether there is one."""
        for group in self._groups[:_COMPARED]:
            if self._same(group.first, memory):
                group.others.append(memory)
                return True
        return False

    def add(self, memory: Memory) -> None:
        self._groups.append(Repeated(memory))

    def _same(self, one: Memory, other: Memory) -> bool:
        if (one.author, one.state) != (other.author, other.state):
            return False
        shorter, longer = sorted((one, other), key=lambda memory: len(memory.content))
        if shorter.content == longer.content:
            return True
        if len(longer.content) > _LONGEST or len(shorter.content) < _SHARE / 2 * len(longer.content):
            return False
        return _says(self._words_of(longer), self._words_of(shorter)) or _says(self._words_of(shorter), self._words_of(longer))

    def _words_of(self, memory: Memory) -> list[str]:
        if memory.id not in self._words:
            self._words[memory.id] = [word for word in words(memory.content) if word not in word_set("repetitions.empty")]
        return self._words[memory.id]


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
