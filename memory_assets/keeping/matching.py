"""Search for many texts at once: the time follows the size of the data, not its product with the number of texts."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from mmap import mmap

import numpy as np

_WINDOW = 16
"""Bytes at the beginning of a text that are looked up at every place of the data; shorter texts are searched one by one."""
_FEW = 32
"""Texts up to which searching one by one is faster."""
_CHUNK = 1 << 22
_SLOTS = 1 << 22
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(64 - 22)
"""Leaves a number below `_SLOTS` of a product of 64 bits."""


class Finder:
    """Texts to search for, in UTF-8."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._single: list[bytes] = []
        self._by_beginning: defaultdict[bytes, list[bytes]] = defaultdict(list)
        wanted = dict.fromkeys(each.encode("utf-8", "surrogatepass") for each in texts)
        for text in wanted:
            if len(text) < _WINDOW or len(wanted) <= _FEW:
                self._single.append(text)
            else:
                self._by_beginning[text[:_WINDOW]].append(text)
        self._is_beginning = np.zeros(_SLOTS if self._by_beginning else 0, bool)
        if self._by_beginning:
            self._is_beginning[np.concatenate([_slots(np.frombuffer(each, np.uint8)) for each in self._by_beginning])] = True

    def find_in(self, data: bytes | mmap) -> Iterator[str]:
        """Yield the texts that `data` contains, some of them repeatedly."""
        yield from (text.decode("utf-8", "surrogatepass") for text in self._single if data.find(text) >= 0)
        for first in range(0, len(data) - _WINDOW + 1 if self._by_beginning else 0, _CHUNK):
            part = data[first : first + _CHUNK + _WINDOW - 1]
            for place in (first + np.flatnonzero(self._is_beginning[_slots(np.frombuffer(part, np.uint8))])).tolist():
                for text in self._by_beginning.get(data[place : place + _WINDOW], ()):
                    if data[place : place + len(text)] == text:
                        yield text.decode("utf-8", "surrogatepass")

    def is_any_in(self, data: bytes | mmap) -> bool:
        return next(self.find_in(data), None) is not None


def _slots(data: "np.typing.NDArray[np.uint8]") -> "np.typing.NDArray[np.uint64]":
    """Return a number below `_SLOTS` for each window of the data, equal for equal windows."""
    words = np.ndarray(len(data) - 7, np.dtype("<u8"), data, strides=(1,))
    first, second = words[: len(words) - 8], words[8:]
    return (first * _FACTOR + second) * _FACTOR >> _SHIFT
