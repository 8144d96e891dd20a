"""The rules of `language.validation` as regular expressions for JSON schemas, in the syntax that ECMA 262 and Python share.

They are put together from the Unicode tables when a schema is first asked for. Lone surrogates need no mention: no valid JSON
text holds one.
"""

import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from memory_assets.errors import InvalidInputError
from memory_assets.language.validation import is_blank, reject_unstorable

_SURROGATES = range(0xD800, 0xE000)
_NEVER_SEEN = {"Cc", "Cf", "Zs", "Zl", "Zp"}
"""Categories that hold every character that is blank or that only controls."""


@lru_cache(maxsize=1)
def storable_text() -> str:
    """Matches what `reject_unstorable` lets pass."""
    return f"^[^{_ranges(_unstorable())}]*$"


@lru_cache(maxsize=1)
def visible_text() -> str:
    """Matches what `reject_unstorable` lets pass and `is_blank` does not hold for."""
    unstorable = _unstorable()
    blank = {code for code in _suspects() if is_blank(chr(code))}
    return f"^[^{_ranges(unstorable)}]*[^{_ranges(unstorable | blank)}][^{_ranges(unstorable)}]*$"


def _suspects() -> list[int]:
    """Code points that a rule may refuse: controls, formats and spaces, and the last two of each plane and of Arabic's block."""
    return [
        code
        for code in range(sys.maxunicode + 1)
        if code not in _SURROGATES
        and (unicodedata.category(chr(code)) in _NEVER_SEEN or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF)
    ]


def _unstorable() -> set[int]:
    found: set[int] = set()
    for code in _suspects():
        try:
            reject_unstorable(chr(code), "")
        except InvalidInputError:
            found.add(code)
    return found


def _ranges(codes: Iterable[int]) -> str:
    """Code points as the inside of a character class."""
    runs: list[tuple[int, int]] = []
    for code in sorted(codes):
        if runs and runs[-1][1] == code - 1:
            runs[-1] = runs[-1][0], code
        else:
            runs.append((code, code))
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in runs)
