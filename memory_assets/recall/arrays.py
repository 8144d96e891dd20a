"""Arrays that follow changes at a cost of what changes: columns that grow at their end, codes for names, rows by key.

Which rows belong to which key is a log-structured merge tree of two levels: a large sorted base, and over it the few keys whose rows have
changed since. A look-up is a binary search; when changed keys have gathered, they are merged into the base in one linear pass.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.language.words import fold, pieces, words

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

_ROOM = 1.25
"""How much larger columns are made than what they must hold."""
_MOST_CHANGED = 2_000
"""Changed keys from which they are merged into the base."""


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


@dataclass(frozen=True)
class _Base:
    keys: "Keys"
    """Ascending, one entry for each row."""
    rows: "Rows"

    @cached_property
    def places(self) -> "npt.NDArray[np.int32]":
        places = np.full(int(self.rows.max(initial=-1)) + 1, -1, np.int32)
        places[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        return places


@dataclass(frozen=True)
class Grouping:
    """Rows by key, those of one key in an order that whoever made it gave them. Never changed, only followed by another."""

    _base: _Base
    _changed: Mapping[int, "Rows"] = field(default_factory=dict)
    """All rows of each key that has changed; none of the base's count for it."""

    @classmethod
    def of_sorted(cls, keys: "Keys", rows: "Rows") -> "Grouping":
        return cls(_Base(keys, rows))

    def keys(self) -> "Keys":
        """The keys that have rows, each as often as it has."""
        others = np.setdiff1d(self._base.keys, self._changed_keys) if self._changed else self._base.keys
        if not self._changed:
            return others
        kept = self._base.keys[np.isin(self._base.keys, others)]
        return np.concatenate([kept, np.repeat(self._changed_keys, self._changed_sizes)])

    @property
    def _changed_keys(self) -> "Keys":
        return np.fromiter(self._changed, np.int64, len(self._changed))

    @property
    def _changed_sizes(self) -> "Keys":
        return np.fromiter(map(len, self._changed.values()), np.int64, len(self._changed))

    def rows_of(self, key: int) -> "Rows":
        if key in self._changed:
            return self._changed[key]
        start, end = np.searchsorted(self._base.keys, [key, key + 1])
        return self._base.rows[start:end]

    def of(self, keys: "Keys") -> "tuple[Rows, Rows]":
        """The rows of these keys, as (place in `keys`, row) pairs in the order of the keys."""
        places, at = ranges(self._base.keys, keys)
        rows = self._base.rows[at]
        again = [place for place, key in enumerate(keys.tolist()) if key in self._changed] if self._changed else []
        if not again:
            return places, rows
        kept = ~np.isin(places, again)
        groups = [self._changed[int(keys[place])] for place in again]
        places = np.concatenate([places[kept], np.repeat(np.array(again, np.intp), [len(group) for group in groups])])
        order = np.argsort(places, kind="stable")
        return places[order], np.concatenate([rows[kept], *groups])[order]

    def beside(self, keys: "Keys", rows: "Rows", step: int) -> "Rows":
        """The row `step` places behind each row, or before it if negative, among those of its key; -1 where there is none.

        Each of `rows` has the key at its place in `keys`; `step` is not 0.
        """
        found = np.full(len(rows), -1, np.intp)
        if len(self._base.rows):
            held = rows < len(self._base.places)
            at = np.where(held, self._base.places[np.where(held, rows, 0)], 0) + step
            inside = (at >= 0) & (at < len(self._base.rows))
            at = np.where(inside, at, 0)
            found = np.where(held & inside & (self._base.keys[at] == keys), self._base.rows[at], -1)
        for place, (key, row) in enumerate(zip(keys.tolist(), rows.tolist(), strict=True)) if self._changed else ():
            if key in self._changed:
                group = self._changed[key]
                at = int(np.flatnonzero(group == row)[0]) + step
                found[place] = group[at] if 0 <= at < len(group) else -1
        return found

    def changed(self, changes: Mapping[int, "Rows"]) -> "Grouping":
        """Another grouping, in which some keys have exactly the given rows."""
        following = Grouping(self._base, {**self._changed, **changes})
        return following if len(following._changed) <= _MOST_CHANGED else following._merged()

    def _merged(self) -> "Grouping":
        order = np.argsort(self._changed_keys)
        keys, sizes = self._changed_keys[order], self._changed_sizes[order]
        groups = list(self._changed.values())
        kept = np.ones(len(self._base.keys), bool)
        kept[ranges(self._base.keys, keys)[1]] = False
        base_keys, base_rows = self._base.keys[kept], self._base.rows[kept]
        at = np.repeat(np.searchsorted(base_keys, keys), sizes)
        rows = np.concatenate([groups[place] for place in order])
        return Grouping.of_sorted(np.insert(base_keys, at, np.repeat(keys, sizes)), np.insert(base_rows, at, rows))


def ranges(keys: "Keys", wanted: "Keys") -> "tuple[Rows, Rows]":
    """Where each wanted key occurs in sorted `keys`, as (place in `wanted`, place in `keys`) pairs."""
    starts = np.searchsorted(keys, wanted, "left")
    counts = np.searchsorted(keys, wanted, "right") - starts
    places = np.repeat(np.arange(len(wanted)), counts)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, np.repeat(starts, counts) + offsets
