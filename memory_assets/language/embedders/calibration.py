"""Calibration: maps each embedder's cosines to one common similarity scale, to which all thresholds refer.

Cosines spread differently: two unrelated notes have a cosine near 0 with one embedder and near 0.5 with another, so 0.7 means different
things. Pairs of the texts in `calibration.txt` fix the scale at four points:

    0.4     median of unrelated pairs
    0.6     99th percentile of unrelated pairs, at most nine tenths of the way to the next point
    0.75    median of related pairs, which say something else about the same thing
    0.9     95th percentile of pairs of short facts about one subject ("The boiler leaks", "The boiler is ten years old")

It is linear between these points, and from them to -1 and 1.
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
"""Name of a known embedder -> its cosines at `PLACES`, as `python -m memory_assets.language.embedders.calibration` prints them."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The calibration of one embedder."""

    cosines: tuple[float, ...] = PLACES
    """Its cosines at `PLACES`, ascending."""

    @property
    def separates_unrelated(self) -> bool:
        """Whether low similarity to all memories means that none of them answers a question."""
        return self.cosines != PLACES

    def similarity(self, cosine: npt.NDArray[np.floating]) -> Values:
        return np.interp(cosine, (-1, *self.cosines, 1), (-1, *PLACES, 1))

    def cosine(self, similarity: float) -> float:
        """Return the cosine for a similarity on the common scale; values above 1 are returned unchanged."""
        return float(np.interp(similarity, (-1, *PLACES, 1), (-1, *self.cosines, 1))) if similarity <= 1 else similarity


UNCALIBRATED = Scale()


def scale_of(embedder: str | None, kept: "tuple[float, ...] | None") -> Scale:
    """Return the scale of an embedder: the known one, else the measured one in `kept`, else plain cosines."""
    return Scale(MEASURED.get(embedder or "") or kept or PLACES)


def measure(embedder: Embedder) -> tuple[float, ...]:
    """Measure an embedder's cosines at `PLACES`; returns `PLACES` if it cannot separate related texts from unrelated ones."""
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
    """Return 16 notes with unrelated topics."""
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
