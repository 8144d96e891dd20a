"""Signals that are about the same thing: grouped by what they mean, feedback files first.

Cosines of different embedders are not alike: what is unrelated lies at 0.1 for one and at 0.6 for another. So they are counted from
the mean cosine of a few sentences that have nothing to do with each other.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.learn.signals import Signal

if TYPE_CHECKING:
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Embed = Callable[[Sequence[str]], "Vectors"]
"""Texts to unit vectors, one row each."""

SAME_RULE = 0.78
"""Likeness, 0 for unrelated and 1 for equal, from which two feedback files state one rule. The same rule in other words lies from 0.69
to 0.79, its opposite at 0.57: rather two proposals for one rule than one for two."""
SAME_THEME = 0.4
"""Likeness from which a signal belongs to a theme. Over the sample home's signals 0.35 to 0.5 give the same themes."""
_UNRELATED = (
    "The bakery at the corner opens at six and sells rye bread.",
    "A query is slow because the index on the orders table is missing.",
    "My sister plays the violin in a small orchestra.",
    "Whales sleep with one half of their brain at a time.",
    "Please answer in short sentences without a summary.",
    "The invoice was paid twice, so the bank sent half of it back.",
    "Snow fell on the pass and the road to the valley is closed.",
    "Rotate the keys of the staging cluster before the release.",
)


def group(signals: Sequence[Signal], embed: Embed) -> list[list[Signal]]:
    """Return the signals in groups that are about one thing; each signal in one of them, in the order of the first of each.

    Feedback files of one name, or that are all nearly the same, are one group. Each other signal joins the group that it is most like,
    or begins one; what went well and what went wrong never meet. All signals must have words; `embed` is called once.
    """
    if not signals:
        return []
    vectors = embed([*_UNRELATED, *(signal.text for signal in signals)])
    reference, vectors = vectors[: len(_UNRELATED)], vectors[len(_UNRELATED) :]
    pairs = np.triu_indices(len(reference), 1)
    floor = float((reference @ reference.T)[pairs].mean())
    order = sorted(range(len(signals)), key=lambda place: (signals[place].evidence.at, signals[place].evidence.key))
    files = [place for place in order if signals[place].entry]
    groups = _Groups(vectors, floor, _same_rules([signals[place] for place in files], vectors[files], floor), files)
    for place in order:
        if signals[place].entry:
            continue
        praise = signals[place].praise
        best, likeness = groups.nearest(place, praise=praise)
        groups.join(best if likeness >= SAME_THEME else groups.begin(praise=praise), place)
    return [[signals[place] for place in places] for places in groups.places]


def _same_rules(files: Sequence[Signal], vectors: "Vectors", floor: float) -> list[list[int]]:
    """Return the files that state one rule, by their places: those of one name, and those that are like every other of a group."""
    groups: list[list[int]] = []
    named: dict[str, int] = {}
    of_place = np.full(len(files), -1)
    for place, signal in enumerate(files):
        name = signal.entry.item.title if signal.entry else ""
        likeness = (vectors[:place] @ vectors[place] - floor) / (1 - floor)
        least = np.full(len(groups), np.inf)
        np.minimum.at(least, of_place[:place], likeness)
        best = named.get(name, int(least.argmax()) if len(groups) else -1)
        if name not in named and (best < 0 or least[best] < SAME_RULE):
            best = len(groups)
            groups.append([])
        groups[best].append(place)
        of_place[place] = best
        named.setdefault(name, best)
    return groups


def most_telling(group: Sequence[Signal], embed: Embed) -> Signal:
    """Return the signal that lies nearest to the middle of its group; of equal ones the newest."""
    vectors = embed([signal.text for signal in group])
    weights = np.array([[signal.evidence.weight] for signal in group], np.float32)
    nearness = vectors @ (vectors * weights).sum(axis=0)
    return max(zip(nearness.round(4).tolist(), group, strict=True), key=lambda each: (each[0], each[1].evidence.at))[1]


class _Groups:
    """Groups that grow: the middle of each is the mean of its members."""

    def __init__(self, vectors: "Vectors", floor: float, of_files: Sequence[Sequence[int]], files: Sequence[int]) -> None:
        self.places: list[list[int]] = []
        self._vectors = vectors
        self._floor = floor
        self._praise: list[bool] = []
        self._sums = np.zeros((0, vectors.shape[1]), np.float32)
        for rule in of_files:
            number = self.begin(praise=False)
            for place in rule:
                self.join(number, files[place])

    def nearest(self, place: int, *, praise: bool) -> tuple[int, float]:
        """The group that a signal is most like, and how much; -1 where there is none."""
        if not self.places:
            return -1, -1.0
        count = len(self.places)
        sums = self._sums[:count]
        cosines = sums @ self._vectors[place] / np.linalg.norm(sums, axis=1)
        cosines[np.array(self._praise) != praise] = -1.0
        best = int(cosines.argmax())
        return best, (float(cosines[best]) - self._floor) / (1 - self._floor)

    def begin(self, *, praise: bool) -> int:
        """Begin a group; its number."""
        if len(self.places) == len(self._sums):
            self._sums = np.vstack([self._sums, np.zeros((max(64, len(self._sums)), self._sums.shape[1]), np.float32)])
        self.places.append([])
        self._praise.append(praise)
        return len(self.places) - 1

    def join(self, number: int, place: int) -> None:
        """Put a signal into a group."""
        self.places[number].append(place)
        self._sums[number] += self._vectors[place]
