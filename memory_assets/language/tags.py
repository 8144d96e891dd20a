"""Tag rules: normalising a tag, and merging a user's tags with automatic ones.

Spelling rules and lists of exceptions reduce nouns to their singular. No language model is used: tags are compared by equality, so they
must not depend on a sentence, a pipeline or its version.
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
    """Normalise a tag to the form in which it is stored and compared (seed 001, section 3; docs/language.md has the rules).

    Idempotent. If nothing would be left, the text itself is the tag, because a user's tag is never dropped. Without `inflect` plurals are
    kept, as names need.
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    plain = "".join(char for char in plain if char in _JOINERS or unicodedata.category(char) != "Cf")
    words = [word for part in _SEPARATOR.split(plain) if (word := _TRAILING.sub("", _LEADING.sub("", part)))]
    return "-".join(singular(word) if inflect else word for word in words) or plain.strip()


def merge_tags(user: Iterable[str], auto: Iterable[str]) -> tuple[str, ...]:
    """Return the user's tags, normalised, then the automatic ones, without repetition."""
    merged = dict.fromkeys(normalise_tag(tag) for tag in user)
    for tag in auto:
        if normalise_tag(tag) not in merged:
            merged[tag] = None
    return tuple(merged)


@lru_cache(maxsize=1 << 14)
def singular(word: str) -> str:
    """Return the singular of a lower-case English noun; a word that is short, uncertain or not purely a to z is unchanged."""
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
