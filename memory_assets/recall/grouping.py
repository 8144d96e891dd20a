"""Which rows belong to which key: a large sorted base, and over it the few keys whose rows have changed since.

A log-structured merge tree of two levels. A change costs what it changes, a look-up a binary search; when changed keys have gathered,
they are merged into the base in one linear pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Keys = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

_MOST_CHANGED = 2_000
"""Changed keys from which they are merged into the base."""


@dataclass(frozen=True)
class _Base:
    keys: "Keys"
    """Ascending, one entry for each row."""
    rows: "Rows"

    @cached_property
    def places(self) -> "npt.NDArray[np.int32]":
        """Where each row stands; -1 for those that do not."""
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
        """Of rows that are sorted by their keys."""
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
        """The rows of one key."""
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
