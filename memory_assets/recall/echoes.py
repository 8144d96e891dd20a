"""Echoes: what is remembered already and says the same as a new memory, or perhaps the contrary.

Both are read from the words alone, sentence by sentence, and only of memories whose meaning is near. A contradiction is a guess:
the same sentence once with and once without a negation, or with another end, such as a number, a day or a tool.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from memory_assets.models import Memory
from memory_assets.recall.splash import NEAREST

_MOST = 3
_SENTENCES = 20
"""Of a memory so many sentences are compared with those of another."""
_COMMON = 2
"""Telling words that two sentences must share, at least, to speak of one matter."""
_SHARE = 0.5
"""Share of the longer one's telling words that both have."""
_EXCHANGED = 2
"""Telling words that a contradiction exchanges, at most."""
_WORD = re.compile(r"[\w']+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_NEGATION = re.compile(r"\b(?:not|never|no|no longer|cannot|without)\b|n't\b", re.IGNORECASE)
_ONE_AT_A_TIME = frozenset({"own", "owns", "owned", "lead", "leads", "maintain", "maintains", "head", "heads", "responsible"})
"""Words by which a sentence gives one part to one holder, so that another holder contradicts it."""


class Echo(StrEnum):
    """How an older memory stands to a new one."""

    REPEATED = "repeated"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Echoing:
    """An older memory and how the new one stands to it."""

    memory: Memory
    echo: Echo
    similarity: float


def echoes(new: Memory, near: Iterable[tuple[Memory, float]]) -> list[Echoing]:
    """Those of `near`, which `memory_assets.recall.splash.alike` finds, that `new` repeats or seems to contradict; the most alike first."""
    heard: list[Echoing] = []
    for old, similarity in near:
        if old.content_hash == new.content_hash:
            heard.append(Echoing(old, Echo.REPEATED, 1.0))
        elif contradicts(new.content, old.content):
            heard.append(Echoing(old, Echo.CONTRADICTED, similarity))
        elif similarity >= NEAREST:
            heard.append(Echoing(old, Echo.REPEATED, similarity))
    return heard[:_MOST]


def contradicts(new: str, old: str) -> bool:
    """Whether a sentence of `new` seems to say the contrary of one of `old`."""
    before = [_Said.of(sentence) for sentence in _SENTENCE_END.split(old)[:_SENTENCES]]
    now = [_Said.of(sentence) for sentence in _SENTENCE_END.split(new)[:_SENTENCES]]
    return any(one.contradicts(other) for one in now for other in before)


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence: its telling words in order, and whether it denies them."""

    words: tuple[str, ...]
    denied: bool

    @classmethod
    def of(cls, sentence: str) -> "_Said":
        words = dict.fromkeys(word.casefold() for word in _WORD.findall(sentence))
        telling = tuple(word for word in words if word not in _stop_words() and not _NEGATION.search(word))
        return cls(telling, bool(_NEGATION.search(sentence)))

    def contradicts(self, other: "_Said") -> bool:
        mine, theirs = set(self.words), set(other.words)
        common = mine & theirs
        if len(common) < _COMMON or len(common) < _SHARE * max(len(mine), len(theirs)):
            return False
        gained, lost = mine - theirs, theirs - mine
        if max(len(gained), len(lost)) > _EXCHANGED:
            return False
        if self.denied != other.denied:
            return True
        same_subject = self.words[0] == other.words[0]
        return bool(gained and lost) and (same_subject or not common.isdisjoint(_ONE_AT_A_TIME))


@cache
def _stop_words() -> frozenset[str]:
    from spacy.lang.en.stop_words import STOP_WORDS

    return frozenset(STOP_WORDS) | {"like"}
