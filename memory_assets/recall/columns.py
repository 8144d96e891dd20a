"""Columns that grow at their end, and codes for names that repeat."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.language.words import fold, pieces, words

if TYPE_CHECKING:
    import numpy.typing as npt

_ROOM = 1.25
"""How much larger columns are made than what they must hold."""


class Columns:
    """Arrays of one length that share their memory with those they were grown from: what is there never changes."""

    def __init__(self, arrays: "Mapping[str, npt.NDArray[Any]]") -> None:
        self._arrays = dict(arrays)
        self._length = len(next(iter(arrays.values())))
        self._used = [self._length]
        """How much of the memory is taken, by these columns or by what has grown from them."""

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> "npt.NDArray[Any]":
        return self._arrays[name][: self._length]

    def grown(self, more: "Mapping[str, npt.NDArray[Any]]") -> "Columns":
        """These with more rows, at a cost that follows `more`; a second growth from the same columns copies them."""
        count = len(next(iter(more.values())))
        if not count:
            return self
        following = Columns.__new__(Columns)
        following._length = self._length + count
        room = len(next(iter(self._arrays.values())))
        if following._length <= room and self._used[0] == self._length:
            following._arrays, following._used = self._arrays, self._used
        else:
            room = int(following._length * _ROOM)
            following._arrays = {name: np.empty(room, array.dtype) for name, array in self._arrays.items()}
            following._used = [0]
            for name, array in following._arrays.items():
                array[: self._length] = self[name]
        for name, array in following._arrays.items():
            array[self._length : following._length] = more[name]
        following._used[0] = following._length
        return following


class Codes:
    """A number for each name, counted up from 0; -1 stands for no name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._of: dict[str, int] = {}
        self._folded: set[str] = set()
        self._called: set[str] = set()
        self._read = 0
        """Names whose words are in `_called`."""

    @property
    def called(self) -> set[str]:
        """The words of all names by which their bearers are called; only new names are read."""
        new = self.names[self._read :]
        self._called.update(*map(name_words, new))
        self._read += len(new)
        return self._called

    def has_any(self, folded: Collection[str]) -> bool:
        """Whether one of some lower-case names has a code, however it was written."""
        return not self._folded.isdisjoint(folded)

    def encoded(self, values: pa.ChunkedArray) -> "npt.NDArray[np.int32]":
        """The codes of some names, new ones given as they come."""
        encoded = values.combine_chunks().dictionary_encode()
        local = np.array([self._code(name) if name else -1 for name in encoded.dictionary.to_pylist()], np.int32)
        return local[encoded.indices.to_numpy()] if len(local) else np.full(len(values), -1, np.int32)

    def _code(self, name: str) -> int:
        code = self._of.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
            self._folded.add(name.lower())
        return code


@lru_cache(maxsize=4_096)
def name_words(name: str) -> frozenset[str]:
    """The words by which the bearer of a name is called; of a name without spaces every two characters."""
    return frozenset({word for word in words(fold(name)) if len(word) > 2} | {piece for piece in pieces(name) if len(piece) > 1})
