"""Similarities on one scale: the cosines of each embedder, read as the thresholds mean them.

Embedders spread differently: two unrelated notes have a cosine near 0 with one and near 0.5 with another, so that 0.7 means much with
the first and little with the second. The scale is fixed at four places by pairs of the texts beside this file:

    0.4     the middle of unrelated pairs
    0.6     what one unrelated pair in a hundred exceeds, at most nine tenths of the way to the next
    0.75    the middle of related pairs, which say something else of the same thing
    0.9     what one related pair in twenty exceeds among short facts of one subject ("The boiler leaks", "The boiler is ten years old")

and straight between them, as between these and -1 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memory_assets.arrays import Values
from memory_assets.language.embedders.context import meanings_of
from memory_assets.language.embedders.protocol import Embedder

PLACES = (0.4, 0.6, 0.75, 0.9)
_TEXTS = Path(__file__).with_name("calibration.txt")

MEASURED: dict[str, tuple[float, ...]] = {
    "bge-small-en-v1.5-int8": (0.255, 0.488, 0.526, 0.743),
    "multilingual-e5-small-q4": (0.542, 0.654, 0.666, 0.795),
}
"""Name of an embedder whose weights are known -> its cosines at `PLACES`; `python -m memory_assets.language.embedders.calibration`
prints them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How cosines of one embedder are read."""

    cosines: tuple[float, ...] = PLACES
    """At `PLACES`, ascending."""

    @property
    def tells_the_foreign(self) -> bool:
        """Whether a low similarity to all that is remembered says that nothing there answers a question."""
        return self.cosines != PLACES

    def similarity(self, cosine: npt.NDArray[np.floating]) -> Values:
        """On the common scale."""
        return np.interp(cosine, (-1, *self.cosines, 1), (-1, *PLACES, 1))

    def cosine(self, similarity: float) -> float:
        """The cosine that means a similarity of the common scale; what lies beyond both is the same on both."""
        return float(np.interp(similarity, (-1, *PLACES, 1), (-1, *self.cosines, 1))) if similarity <= 1 else similarity


AS_THEY_ARE = Scale()


def scale_of(embedder: str | None, kept: "tuple[float, ...] | None") -> Scale:
    """The scale of an embedder: the known one, else the one that was measured and kept, else cosines as they are."""
    return Scale(MEASURED.get(embedder or "") or kept or PLACES)


def measure(embedder: Embedder) -> tuple[float, ...]:
    """The cosines at `PLACES`; `PLACES` themselves for an embedder that cannot tell related texts from others."""
    notes, facts = _threes()
    said, again, beside = (meanings_of(embedder, texts) for texts in zip(*notes, strict=True))
    fact, repeated, other = (meanings_of(embedder, texts) for texts in zip(*facts, strict=True))
    unrelated = (said @ said.T)[np.triu_indices(len(said), 1)]
    related = np.concatenate([(said * beside).sum(axis=1), (again * beside).sum(axis=1)])
    alike = np.concatenate([(fact * other).sum(axis=1), (repeated * other).sum(axis=1)])
    usual, near = np.median(unrelated), np.median(related)
    cosines = usual, min(np.quantile(unrelated, 0.99), 0.1 * usual + 0.9 * near), near, np.quantile(alike, 0.95)
    rounded = tuple(round(float(cosine), 3) for cosine in cosines)
    return rounded if all(np.diff((-1, *rounded, 1)) > 0) else PLACES


def unrelated_notes() -> list[str]:
    """Notes that have nothing to do with each other."""
    return [said for said, _, _ in _threes()[0]][:16]


@cache
def _threes() -> Sequence[list[list[str]]]:
    text = _TEXTS.read_text(encoding="utf-8").partition("\n")[2]
    return [[three.splitlines() for three in part.strip().split("\n\n")] for part in text.split("====")]


if __name__ == "__main__":
    import sys

    from memory_assets.language.embedders import open_embedder

    for spec in sys.argv[1:]:
        opened = open_embedder(spec)
        print(f'    "{opened.name}": {measure(opened)},')  # noqa: T201
