"""Classifier of sentences that later sessions should know, and of their kind.

A linear model over the letters and words of an English or German sentence, trained by `tools/lasting_judge.py` on
`benchmarks/sets/lasting_train.jsonl`. It loads in milliseconds, because a hook waits for it.
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

MODEL = Path(__file__).with_name("lasting.json")
BUCKETS = 1 << 14
LONGEST_GRAM = 5
NONE = "none"
"""The class of sentences that are not worth keeping."""
_NAME = "N"
_WORD = re.compile(r"\w+|[?!:]")


@dataclass(frozen=True, slots=True)
class Model:
    """A linear classifier over hashed features."""

    classes: tuple[str, ...]
    """The first class is `none`."""
    weights: tuple["array[int]", ...]
    """For each class the weight of each bucket, in multiples of `unit`."""
    biases: tuple[float, ...]
    unit: float
    threshold: float
    """Margin by which the best other class must beat `none`."""


def judge(text: str) -> str:
    """Return the kind of a sentence (`user`, `feedback` or `project`), or `none` if it is not worth keeping."""
    model = load_model()
    found = features(text)
    scores = [
        bias + model.unit * sum(weight[bucket] * value for bucket, value in found.items())
        for weight, bias in zip(model.weights, model.biases, strict=True)
    ]
    best = max(range(1, len(scores)), key=scores.__getitem__)
    return model.classes[best] if scores[best] - scores[0] >= model.threshold else NONE


def features(text: str) -> dict[int, float]:
    """Return the unit vector of a sentence as weights by bucket.

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


@cache
def load_model() -> Model:
    """Load the trained model, once per process."""
    fields = json.loads(MODEL.read_text(encoding="utf-8"))
    weights = tuple(array("b", b64decode(each)) for each in fields["weights"])
    return Model(tuple(fields["classes"]), weights, tuple(fields["biases"]), fields["unit"], fields["threshold"])
