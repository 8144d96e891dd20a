"""When two learnings say the same, though they are two nodes (seed 000, FR-8)."""

import re
import unicodedata

SAME = 0.95
"""Similarity of two texts from which they count as one: a typo, not another fact."""


def equivalent(one: str, other: str) -> bool:
    """Whether two texts differ by case, spaces, punctuation or a slip of the pen; never by a number or a "not"."""
    from rapidfuzz.distance import Levenshtein

    a, b = _plain(one), _plain(other)
    if a == b:
        return bool(a)
    if re.findall(r"\d+", a) != re.findall(r"\d+", b) or len(a.split()) != len(b.split()):
        return False
    return Levenshtein.normalized_similarity(a, b, score_cutoff=SAME) >= SAME


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[^\w\s']", " ", folded).split())
