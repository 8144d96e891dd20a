"""Matching of topics to names of nodes: names that equal a topic, occur in it or differ by a typo, and the choice among them.

Names are compared without case, accents, titles and possessives; "Last, First" is turned round. The confidence of a match is 1 if
topic and name are equal, else 1 - Levenshtein distance / length of the longer name, + 0.05 for an entity, at most 0.95.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Mask, Rows
from memory_assets.compute import pc
from memory_assets.graph.entities import normalised
from memory_assets.language.words import words

_MAX_NAME_LENGTH = 60
"""A longer topic is not compared for typos."""
_MIN_RUN_LENGTH = 3
_MAX_RUN_WORDS = 10
_MAX_TYPOS = 3
"""Edit distance up to which a name is a candidate; `choose_meant` decides."""
_MAX_CANDIDATES = 200
_MIN_CONFIDENCE, _MAX_UNEQUAL_CONFIDENCE, _ENTITY_BONUS = 0.85, 0.95, 0.05
_CLEAR_MARGIN = 0.1
"""Lead in confidence with which the first candidate is the only one."""
_MAX_MEANT = 5
_MIN_TYPO_LENGTH = 3
"""A shorter topic must equal the name: "Al" is not "Ali"."""


class Candidate(NamedTuple):
    """A node that a topic may mean."""

    id: str
    name: str
    is_entity: bool = False
    """Whether it is a person, project or thing, not a text."""


class Names:
    """A column of lower-case names."""

    def __init__(self, folded: pa.Array, loose: Mask | None = None) -> None:
        """Index the names. Only `loose` ones (default: all) are found within topics and with typos."""
        self._folded = folded
        self._loose = np.ones(len(folded), bool) if loose is None else loose
        self._lengths = pc.utf8_length(folded).to_numpy(zero_copy_only=False)

    def exactly(self, names: Iterable[str]) -> Rows:
        return np.flatnonzero(self._match_any({name.lower() for name in names}))

    def within(self, texts: Sequence[str]) -> list[list[int]]:
        """Return for each text the rows of the names that occur in it as words."""
        runs = [_word_runs(text) for text in texts]
        rows = np.flatnonzero(self._match_any(set().union(*runs)))
        names = self._folded.take(pa.array(rows)).to_pylist()
        return [[row for row, name in zip(rows.tolist(), names, strict=True) if name in contained] for contained in runs]

    def near(self, topic: str) -> Rows:
        """Return the rows of names that equal the topic, occur in it as words, or differ by typos."""
        contained = self._match_any(_word_runs(topic))
        return np.flatnonzero(self._match_any({topic.lower()}) | self._loose & (contained | self._match_typos(topic)))[
            :_MAX_CANDIDATES
        ]

    def _match_any(self, wanted: set[str]) -> Mask:
        return pc.is_in(self._folded, value_set=pa.array(list(wanted), pa.string())).to_numpy(zero_copy_only=False)

    def _match_typos(self, topic: str) -> Mask:
        matches = np.zeros(len(self._folded), bool)
        rows = np.flatnonzero(self._loose & (np.abs(self._lengths - len(topic)) <= _MAX_TYPOS))
        if len(topic) <= _MAX_NAME_LENGTH and len(rows):
            from rapidfuzz.distance import Levenshtein
            from rapidfuzz.process import cdist

            names = self._folded.take(pa.array(rows)).to_pylist()
            matches[rows] = cdist([topic.lower()], names, scorer=Levenshtein.distance, score_cutoff=_MAX_TYPOS)[0] <= _MAX_TYPOS
        return matches


def _word_runs(text: str) -> set[str]:
    """Return all runs of up to ten neighbouring words of a text."""
    found = words(text)
    runs = {
        " ".join(found[start:end])
        for start in range(len(found))
        for end in range(start + 1, min(len(found), start + _MAX_RUN_WORDS) + 1)
    }
    return {run for run in runs if len(run) >= _MIN_RUN_LENGTH}


def choose_meant(topic: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Choose the nodes that a topic means by their names: none, a clear winner, or at most five, surest first."""
    wanted = normalised(topic, "PERSON")
    sure = [(confidence, each) for each in candidates if (confidence := _confidence(wanted, each)) >= _MIN_CONFIDENCE]
    sure = sorted(sure, key=lambda match: (-match[0], match[1].name, match[1].id))[:_MAX_MEANT]
    is_clear = len(sure) > 1 and sure[0][0] - sure[1][0] >= _CLEAR_MARGIN - 1e-9
    return [candidate for _, candidate in (sure[:1] if is_clear else sure)]


def _confidence(wanted: str, candidate: Candidate) -> float:
    from rapidfuzz.distance import Levenshtein

    known = normalised(candidate.name, "PERSON")
    if wanted == known or len(wanted) < _MIN_TYPO_LENGTH:
        return float(wanted == known)
    return min(_MAX_UNEQUAL_CONFIDENCE, Levenshtein.normalized_similarity(wanted, known) + _ENTITY_BONUS * candidate.is_entity)
