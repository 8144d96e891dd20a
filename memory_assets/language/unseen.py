"""Characters of a text that show nothing, in which words can be hidden or parted unseen."""

import re
import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode without a visible shape of their own: controls, formats, tags, private and unassigned."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Fillers and variation selectors: letters and marks that show nothing, in which text can be hidden."""


def has_unseen(text: str) -> bool:
    """Whether a text holds characters that show nothing; white space shows."""
    if not "".join(text.split()).isprintable():
        return True
    return not text.isascii() and _BLANK.search(text) is not None


def is_seen(char: str) -> bool:
    """Whether a character is white space or shows something."""
    return char.isspace() or not (unicodedata.category(char) in _CATEGORIES or _BLANK.match(char))


def without_unseen(text: str) -> str:
    """`text` as a reader sees it; the same object where all of it shows."""
    return "".join(filter(is_seen, text)) if has_unseen(text) else text
