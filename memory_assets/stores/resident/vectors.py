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
_COUNTED_AT_ONCE = 131_072
"""Vectors whose signs are compared at once: more would not stay in the cache, fewer would let go of the interpreter more often."""


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
        self, vector: "npt.NDArray[np.float32]", allowed: "npt.NDArray[np.bool_]", limit: int
    ) -> "tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]":
        """The allowed rows nearest to a unit vector and their cosine similarities, best first.

        Args:
            vector: shape (dimension,).
            allowed: shape (n,).
            limit: at most so many.
        """
        rows = self.likely(vector, allowed).first(limit)
        similarity = _products(self.fixed, rows, (vector / _ONE).astype(np.float32))
        if len(rows) > limit:
            best = np.sort(np.argpartition(similarity, -limit)[-limit:])
            rows, similarity = rows[best], similarity[best]
        order = np.argsort(-similarity, kind="stable")
        return rows[order], similarity[order]

    def likely(self, vector: "npt.NDArray[np.float32]", allowed: "npt.NDArray[np.bool_]") -> "Likely":
        """The allowed rows in the order in which they may be near to a vector."""
        asked, differing = _signs(vector[None]), np.empty(len(self.fixed), np.uint16)
        for start in range(0, len(differing), _COUNTED_AT_ONCE):
            span = slice(start, start + _COUNTED_AT_ONCE)
            np.bitwise_count(self.signs[:, span] ^ asked).sum(axis=0, dtype=np.uint16, out=differing[span])
        differing[~allowed] = len(vector) + 1
        return Likely(differing, np.bincount(differing, minlength=len(vector) + 2).cumsum())


@dataclass(frozen=True, slots=True)
class Likely:
    """Which vectors of one segment may be near to one that is asked for, by their signs alone."""

    differing: "npt.NDArray[np.uint16]"
    """In how many signs each differs, shape (n,); more than there are where it does not count."""
    rows_up_to: "npt.NDArray[np.int64]"
    """How many differ in so many signs or fewer, shape (dimension + 2,)."""

    def first(self, limit: int) -> "npt.NDArray[np.intp]":
        """So many rows that the `limit` nearest are among them, as far as signs can tell; all that count where there are no more."""
        wanted = max(_FEWEST, limit * _OVERSAMPLING)
        most = min(int(np.searchsorted(self.rows_up_to, wanted, "right")), len(self.rows_up_to) - 2)
        return np.flatnonzero(self.differing <= most)


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
        return np.where(units > 0, _products(self.codes, rows, vector) * units, np.float32(UNMEASURED))


def _products(
    matrix: "npt.NDArray[np.integer]", rows: "npt.NDArray[np.intp]", vector: "npt.NDArray[np.float32]"
) -> "npt.NDArray[np.float32]":
    """Of some rows and a vector; a few rows at once stay in the processor's cache."""
    products = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _AT_ONCE):
        span = slice(start, start + _AT_ONCE)
        np.matmul(matrix.take(rows[span], axis=0).astype(np.float32), vector, out=products[span])
    return products


def _signs(matrix: "npt.NDArray[np.floating]") -> "npt.NDArray[np.uint64]":
    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
