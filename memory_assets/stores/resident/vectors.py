"""Unit vectors in memory: the signs of the components tell which may be near, the components tell how near those are.

Vectors that point the same way agree in the signs of most components, and counting in which 384 bits of 100,000 vectors differ
takes less than a millisecond (binary quantisation with re-ranking). Measured on 22,000 sentences under MiniLM with
`_OVERSAMPLING`: 98.8 % of the nearest hundred are found, and 99.9 % of the nearest ten.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.stores.search import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_OVERSAMPLING = 20
"""Likely vectors measured for each one that is wanted."""
_FEWEST = 500
_ONE = 32_767
_LARGEST_CODE = 127
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
        rows_up_to = np.bincount(differing, minlength=len(vector) + 2).cumsum()
        return np.flatnonzero(differing <= min(int(np.searchsorted(rows_up_to, wanted, "right")), len(vector)))


@dataclass(frozen=True, slots=True)
class Meanings:
    """The vectors of what one segment's memories say: nothing is looked for among them, a few of them are measured."""

    codes: "npt.NDArray[np.int8]"
    """Directions, shape (n, dimension), each in units of its own; that moves a cosine by some 0.0004, at most by 0.003."""
    units: "npt.NDArray[np.float32]"
    """What makes each one's length 1, shape (n,); 0 where there is no vector."""

    @classmethod
    def of(cls, matrix: "npt.NDArray[np.floating]") -> "Meanings":
        """Vectors of any length, shape (n, dimension); a zero vector is none."""
        largest = np.abs(matrix).max(axis=1, initial=0.0, keepdims=True)
        codes = np.rint(matrix * (_LARGEST_CODE / np.where(largest > 0, largest, 1))).astype(np.int8)
        lengths = np.linalg.norm(codes.astype(np.float32), axis=1)
        return cls(codes, np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.codes.nbytes + self.units.nbytes

    @classmethod
    def joined(cls, several: "Sequence[Meanings]") -> "Meanings":
        """All vectors of several."""
        return cls(np.concatenate([each.codes for each in several]), np.concatenate([each.units for each in several]))

    def where(self, mask: "npt.NDArray[np.bool_]") -> "Meanings":
        """Those that the mask of shape (n,) keeps."""
        return Meanings(self.codes[mask], self.units[mask])

    def cosines(self, rows: "npt.NDArray[np.intp]", vector: "npt.NDArray[np.float32]") -> "npt.NDArray[np.float32]":
        """How near some rows are to a unit vector; `UNMEASURED` where there is no vector."""
        units = self.units[rows]
        return np.where(units > 0, (self.codes[rows].astype(np.float32) @ vector) * units, np.float32(UNMEASURED))


def _signs(matrix: "npt.NDArray[np.floating]") -> "npt.NDArray[np.uint64]":
    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
