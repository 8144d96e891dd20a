"""Tag rules: how a tag is spelt, and how a user's tags and the automatic ones become one list."""

import re
import unicodedata
from collections.abc import Iterable

from memory_assets.language.nouns import singular

_JOINERS = "\u200c\u200d"
"""Zero width non-joiner and joiner: parts of Persian and Indic words and of emoji."""

_SEPARATOR = re.compile(r"[\s_,;\"“”„«»`(){}\[\]<>|\\-]+")
_EDGE = r"!?¿¡&%*:=~^'’‘/…。，、！？：；（）「」『』《》" + _JOINERS
_LEADING = re.compile(rf"^(?:[{_EDGE}+#]|\.(?![^\W_]))+")
_TRAILING = re.compile(rf"[{_EDGE}.@]+$")


def normalise_tag(text: str, *, inflect: bool = True) -> str:
    """Spell a tag in the one way in which it is stored and compared (seed 001, section 3).

    Compatibility forms are unified (NFKC), letters become lower case, words are joined by hyphens in the
    order in which they were written, and English plurals become singular. Verb forms stay ("debugging").
    Punctuation around a word goes, but the symbols that tell technical names apart stay: c, c++ and c#, net
    and .net, node and node.js are different tags. A leading # is the mark of a tag and goes. Where nothing
    would be left, the lower-case trimmed text itself is the tag, because a user's tag is never dropped.
    Applying the rules again changes nothing.

    Without `inflect` plurals stay: names are spelt so.
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    plain = "".join(char for char in plain if char in _JOINERS or unicodedata.category(char) != "Cf")
    words = [word for part in _SEPARATOR.split(plain) if (word := _TRAILING.sub("", _LEADING.sub("", part)))]
    return "-".join(singular(word) if inflect else word for word in words) or plain.strip()


def merge_tags(user: Iterable[str], auto: Iterable[str]) -> tuple[str, ...]:
    """One list without repetition: the user's tags, normalised, then the automatic ones."""
    merged = dict.fromkeys(normalise_tag(tag) for tag in user)
    for tag in auto:
        if normalise_tag(tag) not in merged:
            merged[tag] = None
    return tuple(merged)
