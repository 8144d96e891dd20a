"""Which sentences of a long text fit a question best."""

import math
from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain

from memory_assets.language.words import sentences, stems


def weigh_sentences(parts: Sequence[str], asked: Set[str]) -> list[float]:
    """Return how well each sentence fits the stems `asked`: a stem counts the more, the fewer sentences have it; 0 without any."""
    found = [asked & stems(each) for each in parts]
    counts = Counter(chain.from_iterable(found))
    return [math.fsum(math.log(1 + len(parts) / counts[each]) for each in matched) for matched in found]


def find_best_sentence(text: str, question: str) -> str:
    """Return the sentence that fits a question best: the first one if none has a word of it; empty for an empty text."""
    parts = sentences(text) or [""]
    weights = weigh_sentences(parts, stems(question))
    return parts[weights.index(max(weights))]
