"""Language detection for sentences, and tags for text that the pipeline cannot read.

Function words vote, with a preference for English: detectors (py3langid, lingua) assign some language to every fragment ("DuckDB lock").
Scripts other than Latin are recognised by their letters.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from memory_assets.language.english import word_set
from memory_assets.language.tags import normalise_tag
from memory_assets.language.words import CAPITALS, function_words, is_unspaced

ENGLISH = "en"

_VOTING = ("en", "de", "fr", "es", "pt", "it", "nl", "sv", "da", "pl", "cs", "tr", "fi", "hu")
"""Languages recognised by their function words."""
_SHORT = 8
"""Maximum words of a sentence whose language a single function word decides."""
_SCRIPTS = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7af\u1100-\u11ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002ebef]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "und": re.compile(r"[\u0530-\u10ff\u1200-\u1cff\u0590-\u08ff]"),
}
"""Language -> letters of its script; "und" covers scripts of which only words are read."""
_LATIN = re.compile(r"[^\W\d_]")
_NAME = re.compile(rf"[{CAPITALS}][^\W\d_]+ (?:(?:van|von|de|der|den|del|di|da|la|le|al|el|dos) )+(?=[{CAPITALS}])")
_AM = re.compile(r"(?<!\bI )(?<!\d )\b[Aa]m (?=[^\W\d_a-z][a-z]|\d)")
"""German "am", read as "zum": before a noun or a day. "I am" and "9 am" are English."""
_WORD = re.compile(r"(?<![^\W_])[^\W\d_]+(?:['-][^\W\d_]+)*+(?![^\W_])")
"""A word of letters alone: "k8s", "e2e" and "2s" say nothing about a language."""


def recognise(text: str) -> str | None:
    """Return the ISO 639 code of the language of `text`, or None if its words do not decide."""
    letters = len(_LATIN.findall(text))
    for code, script in _SCRIPTS.items():
        count = len(script.findall(text))
        if count and (count * 2 > letters or (code == "ja" and count * 5 > letters and not re.search(r"[A-Za-z]{3}", text))):
            return code
        if code == "ja" and count and len(_SCRIPTS["zh"].findall(text)) + count > letters / 2:
            return "ja"
    votes: Counter[str] = Counter()
    words = _WORD.findall(_AM.sub("zum ", _NAME.sub("", text)))
    for word in words:
        votes.update(_languages_of(word))
    if not votes:
        return None
    code, most = max(votes.items(), key=lambda vote: vote[1])
    if most <= votes[ENGLISH]:
        return ENGLISH
    if most > 1 and most >= 2 * votes[ENGLISH]:
        return code
    alone = next((word for word in words if code in _languages_of(word)), "")
    is_clear = most == 1 and not votes[ENGLISH] and alone.islower() and len(alone) > 2
    return code if is_clear and 2 < len(words) <= _SHORT else None


@lru_cache(maxsize=1 << 14)
def _languages_of(word: str) -> tuple[str, ...]:
    return () if word in word_set("languages.shared") else tuple(code for code in _VOTING if word.lower() in function_words(code))


def words_of(text: str, language: str) -> Iterator[str]:
    """Yield tags of a text that the pipeline does not read: its content words, inflected as written, the most frequent first.

    German nouns come before other words. Scripts without spaces yield nothing.
    """
    stop_words = function_words(language) if language in _VOTING else frozenset[str]()
    words = [word for word in _WORD.findall(text) if len(word) > 3 and word.lower() not in stop_words and not is_unspaced(word)]
    if language == "de":
        words = [word for word in words if word[0].isupper()] + [word for word in words if word[0].islower() and len(word) > 5]
    found = Counter(tag for word in words if (tag := normalise_tag(word, inflect=False)))
    for tag, _ in found.most_common():
        yield tag
