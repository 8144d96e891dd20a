"""Similarities on one scale: the cosines of each embedder, read as the thresholds mean them.

Embedders spread differently: two unrelated notes have a cosine near 0 with one and near 0.5 with another, so that 0.7 means much with
the first and little with the second. The scale is fixed at four places by pairs of the texts beside this file:

    0.4     the middle of unrelated pairs
    0.6     what one unrelated pair in a hundred exceeds, at most nine tenths of the way to the next
    0.75    the middle of related pairs, which say something else of the same thing
    0.9     what as many related pairs exceed as pairs that say the same in other words fall below

and straight between them, as between these and -1 and 1.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.context import meanings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Embedder

PLACES = (0.4, 0.6, 0.75, 0.9)
_TEXTS = Path(__file__).with_name("calibration.txt")

MEASURED: dict[str, tuple[float, ...]] = {
    "bge-small-en-v1.5-int8": (0.255, 0.488, 0.526, 0.666),
    "minilm-l6-v2-int8": (0.197, 0.427, 0.53, 0.702),
    "multilingual-e5-small-q4": (0.542, 0.654, 0.666, 0.787),
    "wordllama-l2-supercat-256": (0.219, 0.414, 0.52, 0.643),
}
"""Name of an embedder whose weights are known -> its cosines at `PLACES`; `python -m memory_assets.language.embedders.calibration`
prints them."""
_BLIND_TO_THE_FOREIGN = frozenset({"wordllama-l2-supercat-256"})
"""Embedders whose measured similarities do not tell what a store says nothing about: a floor lost answers (docs/recall.md)."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How cosines of one embedder are read."""

    cosines: tuple[float, ...] = PLACES
    """At `PLACES`, ascending."""
    tells_the_foreign: bool = False
    """Whether a low similarity to all that is remembered says that nothing there answers a question."""

    def similarity(self, cosine: "npt.NDArray[np.floating]") -> "npt.NDArray[np.float64]":
        """On the common scale."""
        return np.interp(cosine, (-1, *self.cosines, 1), (-1, *PLACES, 1))

    def cosine(self, similarity: float) -> float:
        """The cosine that means a similarity of the common scale; what lies beyond both is the same on both."""
        return float(np.interp(similarity, (-1, *PLACES, 1), (-1, *self.cosines, 1))) if similarity <= 1 else similarity


AS_THEY_ARE = Scale()


def scale_of(embedder: str | None, kept: "tuple[float, ...] | None") -> Scale:
    """The scale of an embedder: the known one, else the one that was measured and kept, else cosines as they are."""
    known = MEASURED.get(embedder or "") or kept or PLACES
    return Scale(known, known != PLACES and embedder not in _BLIND_TO_THE_FOREIGN)


def measure(embedder: "Embedder") -> tuple[float, ...]:
    """The cosines at `PLACES`; `PLACES` themselves for an embedder that cannot tell related texts from others.

    Raises:
        EmbedderError: the texts cannot be embedded.
    """
    said, again, beside = (meanings_of(embedder, texts) for texts in zip(*_threes(), strict=True))
    unrelated = (said @ said.T)[np.triu_indices(len(said), 1)]
    related = np.concatenate([(said * beside).sum(axis=1), (again * beside).sum(axis=1)])
    same = np.sort((said * again).sum(axis=1))
    lost = np.arange(len(same)) / len(same) >= (related[None, :] > same[:, None]).mean(axis=1)
    usual, near = np.median(unrelated), np.median(related)
    cosines = usual, min(np.quantile(unrelated, 0.99), 0.1 * usual + 0.9 * near), near, same[np.argmax(lost)]
    rounded = tuple(round(float(cosine), 3) for cosine in cosines)
    return rounded if all(np.diff((-1, *rounded, 1)) > 0) else PLACES


@cache
def _threes() -> "Sequence[list[str]]":
    text = _TEXTS.read_text(encoding="utf-8").partition("\n")[2]
    return [three.splitlines() for three in text.strip().split("\n\n")]


if __name__ == "__main__":
    import sys

    from memory_assets.language.embedders import open_embedder

    for spec in sys.argv[1:]:
        opened = open_embedder(spec, cache_dir=Path.cwd())
        print(f'    "{opened.name}": {measure(opened)},')  # noqa: T201
