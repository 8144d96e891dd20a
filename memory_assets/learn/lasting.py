"""Judges whether a sentence says something that later sessions should know, and of what kind.

A linear model over the letters and words of the sentence, trained by `tools/lasting_judge.py` on
`benchmarks/sets/lasting_train.jsonl`, in English and German. It loads in milliseconds: a hook waits for it.
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
"""The class of what is not worth keeping."""
_NAME = "N"
_WORD = re.compile(r"\w+|[?!:]")


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of each class, of which the first is `none`, for each bucket; a sentence scores their sum and a bias."""

    classes: tuple[str, ...]
    weights: tuple["array[int]", ...]
    """Whole numbers of `unit`."""
    biases: tuple[float, ...]
    unit: float
    threshold: float
    """What the best other class must be ahead of `none`."""


def judge(text: str) -> str:
    """The kind of what a sentence says (`user`, `feedback` or `project`); `none` if it is not worth keeping."""
    model = load_model()
    found = features(text)
    scores = [
        bias + model.unit * sum(weight[bucket] * value for bucket, value in found.items())
        for weight, bias in zip(model.weights, model.biases, strict=True)
    ]
    best = max(range(1, len(scores)), key=scores.__getitem__)
    return model.classes[best] if scores[best] - scores[0] >= model.threshold else NONE


def features(text: str) -> dict[int, float]:
    """Bucket -> weight of the parts of a sentence: words, pairs of neighbours, and 2 to 5 letters of a word; of length 1 together.

    In further pairs each capitalised word stands for any other, as names do.
    """
    counts: dict[int, int] = {}
    for part in _parts(text):
        bucket = crc32(part.encode("utf-8", "surrogatepass")) % BUCKETS
        counts[bucket] = counts.get(bucket, 0) + 1
    length = sqrt(sum(counts.values())) or 1.0
    return {bucket: sqrt(count) / length for bucket, count in counts.items()}


def _parts(text: str) -> Iterator[str]:
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
    """The trained model, read once."""
    held = json.loads(MODEL.read_text(encoding="utf-8"))
    weights = tuple(array("b", b64decode(each)) for each in held["weights"])
    return Model(tuple(held["classes"]), weights, tuple(held["biases"]), held["unit"], held["threshold"])
