"""Linear classifiers of English and German texts by their letters and words.

`tools/classifiers.py` trains them. They load in milliseconds, because hooks wait for them.
"""

import json
import re
from array import array
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import sqrt
from pathlib import Path
from zlib import crc32

BUCKETS = 1 << 14
LONGEST_GRAM = 5
_NAME = "N"
_WORD = re.compile(r"\w+|[?!:]")


@dataclass(frozen=True, slots=True)
class Classifier:
    """Binary linear classifiers over the same hashed features."""

    labels: tuple[str, ...]
    weights: tuple["array[int]", ...]
    """For each label the weight of each bucket, in multiples of its unit."""
    units: tuple[float, ...]
    biases: tuple[float, ...]

    def scores(self, text: str) -> dict[str, float]:
        """Return the log odds of each label."""
        found = features(text)
        return {
            label: bias + unit * sum(weights[bucket] * value for bucket, value in found.items())
            for label, weights, unit, bias in zip(self.labels, self.weights, self.units, self.biases, strict=True)
        }


@cache
def load(name: str) -> Classifier:
    """Load a classifier by the name of its file beside this module, once per process."""
    fields = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
    weights = tuple(array("b", b64decode(each)) for each in fields["weights"])
    return Classifier(tuple(fields["labels"]), weights, tuple(fields["units"]), tuple(fields["biases"]))


def features(text: str) -> dict[int, float]:
    """Return the unit vector of a text as weights by bucket.

    The features are words, pairs of neighbouring words, 2 to 5 neighbouring letters of a word, and pairs in which any capitalised
    word is replaced by one placeholder, because it may be a name.
    """
    counts: dict[int, int] = {}
    for part in _extract_parts(text):
        bucket = crc32(part.encode("utf-8", "surrogatepass")) % BUCKETS
        counts[bucket] = counts.get(bucket, 0) + 1
    length = sqrt(sum(counts.values())) or 1.0
    return {bucket: sqrt(count) / length for bucket, count in counts.items()}


def _extract_parts(text: str) -> Iterator[str]:
    written = _WORD.findall(text)
    words = ["^", *map(str.casefold, written), "$"]
    for one, two in pairwise(words):
        yield f"w {two}"
        yield f"p {one} {two}"
    shapes = ["^", *(_NAME if word.istitle() else word.casefold() for word in written), "$"]
    for one, two in pairwise(shapes):
        if _NAME in (one, two):
            yield f"n {one} {two}"
    for word in words[1:-1]:
        padded = f" {word} "
        for size in range(2, LONGEST_GRAM + 1):
            for start in range(len(padded) - size + 1):
                yield padded[start : start + size]
