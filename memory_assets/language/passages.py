"""Which sentences of a long text fit a question best."""

import math
from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain

from memory_assets.language.words import stems


def weigh_sentences(sentences: Sequence[str], asked: Set[str]) -> list[float]:
    """Return how well each sentence fits the stems `asked`: a stem counts the more, the fewer sentences have it; 0 without any."""
    found = [asked & stems(each) for each in sentences]
    counts = Counter(chain.from_iterable(found))
    return [math.fsum(math.log(1 + len(sentences) / counts[each]) for each in matched) for matched in found]
