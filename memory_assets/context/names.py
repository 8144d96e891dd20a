"""Names of nodes: those that a topic is, that it holds, or that it is but for a slip of the pen; and which of them it means.

Names are compared without case, accents, titles and possessives; "Last, First" is turned round. The confidence that a topic means a
name is 1 if they are equal, else 1 - Levenshtein distance / length of the longer name, + 0.05 for an entity, at most 0.95.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memory_assets.graph.entities import normalised
from memory_assets.language.words import words

if TYPE_CHECKING:
    import numpy.typing as npt

_LONGEST_NAME = 60
"""Characters of a topic that can be a name."""
_SHORTEST_HELD = 3
_MOST_WORDS = 10
_SLIPS = 3
"""Letters in which a topic and a name may differ to be looked at; `meant` decides."""
_MOST_FOUND = 200
_LEAST_CONFIDENCE, _MOST_UNEQUAL, _ENTITY_BONUS = 0.85, 0.95, 0.05
_CLEARLY_AHEAD = 0.1
"""How far ahead of the second the first must be to be meant alone."""
_MOST_MEANT = 5
_SHORTEST_MISSPELT = 3
"""Letters from which a name may differ; "Al" is not "Ali"."""


class Candidate(NamedTuple):
    """A node that a topic may mean."""

    id: str
    name: str
    is_entity: bool = False
    """Whether it is a person, project or thing, not a text."""


class Names:
    """Some names in lower case, a row each."""

    def __init__(self, folded: pa.Array, loose: "npt.NDArray[np.bool_] | None" = None) -> None:
        """Take names, and which of them are looked for within topics and with slips; all unless given."""
        self._folded = folded
        self._loose = np.ones(len(folded), bool) if loose is None else loose
        self._lengths = pc.utf8_length(folded).to_numpy(zero_copy_only=False)

    def exactly(self, names: Iterable[str]) -> "npt.NDArray[np.intp]":
        """Rows of these names, however they are capitalised."""
        return np.flatnonzero(self._are({name.lower() for name in names}))

    def within(self, texts: Sequence[str]) -> list[list[int]]:
        """Rows of the names that stand in each text as words."""
        runs = [_runs(text) for text in texts]
        rows = np.flatnonzero(self._are(set().union(*runs)))
        names = self._folded.take(pa.array(rows)).to_pylist()
        return [[row for row, name in zip(rows.tolist(), names, strict=True) if name in held] for held in runs]

    def near(self, topic: str) -> "npt.NDArray[np.intp]":
        """Rows of names that are the topic, stand in it as words, or are like it."""
        held = self._are(_runs(topic))
        return np.flatnonzero(self._are({topic.lower()}) | self._loose & (held | self._like(topic)))[:_MOST_FOUND]

    def _are(self, wanted: set[str]) -> "npt.NDArray[np.bool_]":
        return pc.is_in(self._folded, value_set=pa.array(list(wanted), pa.string())).to_numpy(zero_copy_only=False)

    def _like(self, topic: str) -> "npt.NDArray[np.bool_]":
        alike = np.zeros(len(self._folded), bool)
        rows = np.flatnonzero(self._loose & (np.abs(self._lengths - len(topic)) <= _SLIPS))
        if len(topic) <= _LONGEST_NAME and len(rows):
            from rapidfuzz.distance import Levenshtein
            from rapidfuzz.process import cdist

            names = self._folded.take(pa.array(rows)).to_pylist()
            alike[rows] = cdist([topic.lower()], names, scorer=Levenshtein.distance, score_cutoff=_SLIPS)[0] <= _SLIPS
        return alike


def _runs(text: str) -> set[str]:
    """The words of a text, and what stands together in it."""
    spoken = words(text)
    runs = {
        " ".join(spoken[start:end])
        for start in range(len(spoken))
        for end in range(start + 1, min(len(spoken), start + _MOST_WORDS) + 1)
    }
    return {run for run in runs if len(run) >= _SHORTEST_HELD}


def meant(topic: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The nodes that a topic means by their names: none, the one that is clearly ahead, or at most five, the surest first."""
    wanted = normalised(topic, "PERSON")
    sure = [(confidence, each) for each in candidates if (confidence := _confidence(wanted, each)) >= _LEAST_CONFIDENCE]
    sure = sorted(sure, key=lambda match: (-match[0], match[1].name, match[1].id))[:_MOST_MEANT]
    is_clear = len(sure) > 1 and sure[0][0] - sure[1][0] >= _CLEARLY_AHEAD - 1e-9
    return [candidate for _, candidate in (sure[:1] if is_clear else sure)]


def _confidence(wanted: str, candidate: Candidate) -> float:
    from rapidfuzz.distance import Levenshtein

    known = normalised(candidate.name, "PERSON")
    if wanted == known or len(wanted) < _SHORTEST_MISSPELT:
        return float(wanted == known)
    return min(_MOST_UNEQUAL, Levenshtein.normalized_similarity(wanted, known) + _ENTITY_BONUS * candidate.is_entity)
