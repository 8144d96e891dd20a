"""Tag rules: how a tag is spelt, and how a user's tags and the automatic ones become one list.

Nouns come to their singular form by rules of spelling and lists of exceptions. No language model is asked: tags are compared by
equality, so they must not depend on a sentence, a pipeline or its version.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from memory_assets.language.english import table, word_set

_JOINERS = "\u200c\u200d"
"""Zero width non-joiner and joiner: parts of Persian and Indic words and of emoji."""

_SEPARATOR = re.compile(r"[\s_,;\"“”„«»`(){}\[\]<>|\\-]+")
_EDGE = r"!?¿¡&%*:=~^'’‘/…。，、！？：；（）「」『』《》" + _JOINERS
_LEADING = re.compile(rf"^(?:[{_EDGE}+#]|\.(?![^\W_]))+")
_TRAILING = re.compile(rf"[{_EDGE}.@]+$")


def normalise_tag(text: str, *, inflect: bool = True) -> str:
    """Spell a tag in the one way in which it is stored and compared (seed 001, section 3; docs/language.md has the rules).

    Where nothing would be left, the text itself is the tag, because a user's tag is never dropped. Applying the rules again changes
    nothing. Without `inflect` plurals stay: names are spelt so.
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


@lru_cache(maxsize=1 << 14)
def singular(word: str) -> str:
    """The singular of a lower-case English noun. A word stays if it is none, not certain, short, or not spelt with a to z alone."""
    if listed := _irregular().get(word):
        return listed
    if len(word) < 4 or word in word_set("nouns.invariant") or not (word.isascii() and word.isalpha()):
        return word
    if word.endswith("children"):
        return word.removesuffix("ren")
    if word.endswith("men") and word not in word_set("nouns.singular_men"):
        return word.removesuffix("en") + "an"
    if word.endswith("ics"):
        return word[:-1] if word in word_set("nouns.countable_ics") else word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache
def _irregular() -> dict[str, str]:
    return dict(entry.split("=") for entry in table("nouns.irregular").split())
