"""Invisible characters, which can hide or split words."""

import re
import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories without a visible glyph: controls, formats, tags, private use and unassigned."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Fillers and variation selectors: invisible characters in the categories of letters, marks and symbols."""


def has_unseen(text: str) -> bool:
    """Return whether a text holds invisible characters; white space counts as visible."""
    if not "".join(text.split()).isprintable():
        return True
    return not text.isascii() and _BLANK.search(text) is not None


def is_seen(char: str) -> bool:
    """Return whether a character is white space or visible."""
    return char.isspace() or not (unicodedata.category(char) in _CATEGORIES or _BLANK.match(char))


def without_unseen(text: str) -> str:
    """Remove the invisible characters; returns the same object if there are none."""
    return "".join(filter(is_seen, text)) if has_unseen(text) else text
