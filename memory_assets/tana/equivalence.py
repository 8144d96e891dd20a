"""When two learnings say the same, though they are two nodes (seed 000, FR-8)."""

import re
import unicodedata
from collections.abc import Iterator, Mapping

SAME = 0.95
"""Similarity of two texts from which they count as one: a typo, not another fact."""

_Shape = tuple[int, tuple[str, ...]]
"""How many words a text has, and its numbers: texts of two shapes are never equivalent."""


def equivalent(one: str, other: str) -> bool:
    """Whether two texts differ by case, spaces, punctuation or a slip of the pen; never by a number or a "not"."""
    return any(Equivalents({"other": other}).of(one))


class Equivalents:
    """Texts by key, among which equivalents of others are looked for; each text is made plain once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take `texts` in, key -> text."""
        self._plain: dict[_Shape, dict[str, str]] = {}
        for key, text in texts.items():
            plain = _plain(text)
            if plain:
                self._plain.setdefault(_shape(plain), {})[key] = plain

    def of(self, text: str) -> Iterator[str]:
        """The keys of the texts that are equivalent to `text`, in the order in which they were given."""
        from rapidfuzz.distance import Levenshtein
        from rapidfuzz.process import extract_iter

        plain = _plain(text)
        like = self._plain.get(_shape(plain), {})
        for _, _, key in extract_iter(plain, like, scorer=Levenshtein.normalized_similarity, score_cutoff=SAME):
            yield key


def _shape(plain: str) -> _Shape:
    return len(plain.split()), tuple(re.findall(r"\d+", plain))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[^\w\s']", " ", folded).split())
