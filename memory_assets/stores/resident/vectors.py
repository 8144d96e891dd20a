"""Unit vectors in memory: the signs of the components tell which may be near, the components tell how near those are.

Vectors that point the same way agree in the signs of most components, and counting in which 384 bits of 100,000 vectors differ
takes less than a millisecond (binary quantisation with re-ranking). Measured on 22,000 sentences under MiniLM with
`_OVERSAMPLING`: 98.8 % of the nearest hundred are found, and 99.9 % of the nearest ten.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.stores.search import UNMEASURED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_OVERSAMPLING = 20
"""Likely vectors measured for each one that is wanted."""
_FEWEST = 500
_ONE = 32_767
_LARGEST_CODE = 127
_AT_ONCE = 512
_WORKED_AT_ONCE = 65_536
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
    def of(cls, fixed: "npt.NDArray[np.int16]") -> "Vectors":
        """What `fixed_point` made."""
        signs = np.empty((-(-fixed.shape[1] // 64), len(fixed)), np.uint64)
        for span in spans(len(fixed)):
            signs[:, span] = _signs(fixed[span])
        return cls(fixed, signs)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.fixed.nbytes + self.signs.nbytes

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
    def of(cls, codes: "npt.NDArray[np.int8]") -> "Meanings":
        """What `directions` made."""
        units = np.zeros(len(codes), np.float32)
        for span in spans(len(codes)):
            lengths = np.linalg.norm(codes[span].astype(np.float32), axis=1)
            np.divide(1, lengths, out=units[span], where=lengths > 0)
        return cls(codes, units)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.codes.nbytes + self.units.nbytes

    def cosines(self, rows: "npt.NDArray[np.intp]", vector: "npt.NDArray[np.float32]") -> "npt.NDArray[np.float32]":
        """How near some rows are to a unit vector; `UNMEASURED` where there is no vector."""
        units = self.units[rows]
        return np.where(units > 0, _products(self.codes, rows, vector) * units, np.float32(UNMEASURED))


def fixed_point(matrix: "npt.NDArray[np.floating]") -> "npt.NDArray[np.int16]":
    """Vectors of any length, shape (n, dimension), as `Vectors` keeps them; a zero vector stays one."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.rint(matrix * (_ONE / np.where(lengths > 0, lengths, 1))).astype(np.int16)


def directions(matrix: "npt.NDArray[np.floating]") -> "npt.NDArray[np.int8]":
    """Vectors of any length, shape (n, dimension), as `Meanings` keeps them; a zero vector is none."""
    largest = np.abs(matrix).max(axis=1, initial=0.0, keepdims=True)
    return np.rint(matrix * (_LARGEST_CODE / np.where(largest > 0, largest, 1))).astype(np.int8)


def spans(rows: int) -> "Iterator[slice]":
    """So many rows, some at once: what their work takes does not grow with them."""
    return (slice(start, start + _WORKED_AT_ONCE) for start in range(0, rows, _WORKED_AT_ONCE))


class Pile:
    """Arrays that are piled up in room that was made for them before: none is in memory twice."""

    def __init__(self, rows: int) -> None:
        """Expect so many rows; more are taken too. Memory that nothing is written to takes none."""
        self._rows = rows
        self._piled: npt.NDArray[Any] | None = None
        self._height = 0

    def add(self, piece: "npt.NDArray[Any]") -> None:
        """Put rows on top."""
        height = self._height + len(piece)
        if self._piled is None or height > len(self._piled):
            room = np.empty((max(self._rows, height), *piece.shape[1:]), piece.dtype)
            if self._piled is not None:
                room[: self._height] = self._piled[: self._height]
            self._piled, self._rows = room, 2 * len(room)
        self._piled[self._height : height] = piece
        self._height = height

    @property
    def whole(self) -> "npt.NDArray[Any]":
        """All rows, of which there was at least a piece."""
        assert self._piled is not None
        return self._piled[: self._height]


def _products(
    matrix: "npt.NDArray[np.integer]", rows: "npt.NDArray[np.intp]", vector: "npt.NDArray[np.float32]"
) -> "npt.NDArray[np.float32]":
    """Of some rows and a vector; a few rows at once stay in the processor's cache."""
    products = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _AT_ONCE):
        span = slice(start, start + _AT_ONCE)
        np.matmul(matrix.take(rows[span], axis=0).astype(np.float32), vector, out=products[span])
    return products


def _signs(matrix: "npt.NDArray[np.floating] | npt.NDArray[np.int16]") -> "npt.NDArray[np.uint64]":
    bits = np.packbits(matrix > 0, axis=1)
    padded = np.zeros((len(bits), bits.shape[1] + -bits.shape[1] % 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
