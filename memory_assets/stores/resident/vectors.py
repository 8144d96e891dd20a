"""Unit vectors in memory: the signs of the components tell which may be near, the components tell how near those are.

Vectors that point the same way agree in the signs of most components, and counting in which 384 bits of 100,000 vectors differ
takes less than a millisecond (binary quantisation with re-ranking). Measured on 22,000 sentences under MiniLM with
`_OVERSAMPLING`: 98.8 % of the nearest hundred are found, and 99.9 % of the nearest ten.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_OVERSAMPLING = 20
"""Likely vectors measured for each one that is wanted."""
_FEWEST = 500
_ONE = 32_767
_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of one segment, scaled to length 1."""

    fixed: "npt.NDArray[np.int16]"
    """Components in units of 1 / `_ONE`, shape (n, dimension); that moves a cosine by less than 0.0002 and is half the memory."""
    signs: "npt.NDArray[np.uint64]"
    """Shape (dimension / 64, n): a bit is set where the component is positive."""

    @classmethod
    def of(cls, matrix: "npt.NDArray[np.floating]") -> "Vectors":
        """Vectors of any length, shape (n, dimension); a zero vector stays one."""
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return cls(np.rint(matrix * (_ONE / np.where(lengths > 0, lengths, 1))).astype(np.int16), _signs(matrix))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.fixed.nbytes + self.signs.nbytes

    @classmethod
    def joined(cls, several: "Sequence[Vectors]") -> "Vectors":
        """All vectors of several."""
        fixed = np.concatenate([each.fixed for each in several])
        return cls(fixed, np.concatenate([each.signs for each in several], axis=1))

    def where(self, mask: "npt.NDArray[np.bool_]") -> "Vectors":
        """Those that the mask of shape (n,) keeps."""
        return Vectors(self.fixed[mask], self.signs[:, mask])

    def unit(self, rows: "npt.NDArray[np.intp]") -> "npt.NDArray[np.float32]":
        """Some vectors in length 1, shape (len(rows), dimension)."""
        return self.fixed[rows].astype(np.float32) * np.float32(1 / _ONE)

    def nearest(
        self, vector: "npt.NDArray[np.float32]", allowed: "npt.NDArray[np.bool_]", limit: int, between: tuple[float, float]
    ) -> "tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]":
        """The allowed rows nearest to a unit vector and their cosine similarities, best first.

        Args:
            vector: shape (dimension,).
            allowed: shape (n,).
            limit: at most so many.
            between: similarities, both exclusive, between which a row counts.
        """
        wanted = max(_FEWEST, limit * _OVERSAMPLING)
        scaled = (vector / _ONE).astype(np.float32)
        while True:
            rows = self._likely(vector, allowed, wanted)
            similarity = self._measured(rows, scaled)
            inside = np.flatnonzero((between[0] < similarity) & (similarity < between[1]))
            beyond = np.count_nonzero(similarity <= between[0])
            if len(inside) >= limit or wanted >= len(self.fixed) or 2 * beyond > len(rows):
                if len(inside) > limit:
                    inside = np.sort(inside[np.argpartition(similarity[inside], -limit)[-limit:]])
                best = inside[np.argsort(-similarity[inside], kind="stable")]
                return rows[best], similarity[best]
            wanted *= 8

    def _measured(self, rows: "npt.NDArray[np.intp]", vector: "npt.NDArray[np.float32]") -> "npt.NDArray[np.float32]":
        """Product of some rows and a vector; a few rows at once stay in the processor's cache."""
        product = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _AT_ONCE):
            span = slice(start, start + _AT_ONCE)
            np.matmul(self.fixed.take(rows[span], axis=0).astype(np.float32), vector, out=product[span])
        return product

    def _likely(self, vector: "npt.NDArray[np.float32]", allowed: "npt.NDArray[np.bool_]", wanted: int) -> "npt.NDArray[np.intp]":
        """About `wanted` allowed rows whose signs differ least from the vector's; all where there are no more."""
        if len(self.fixed) <= wanted:
            return np.flatnonzero(allowed)
        differing = np.zeros(len(self.fixed), np.uint16)
        for signs, asked in zip(self.signs, _signs(vector[None])[:, 0], strict=True):
            differing += np.bitwise_count(signs ^ asked)
        differing[~allowed] = len(vector) + 1
        most = min(int(np.partition(differing, wanted)[wanted]), len(vector))
        return np.flatnonzero(differing <= most)


def _signs(matrix: "npt.NDArray[np.floating]") -> "npt.NDArray[np.uint64]":
    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
