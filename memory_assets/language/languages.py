"""Which language a sentence is written in, and what can be told of one that the pipeline cannot read.

A vote of function words: a sentence is English until its words say otherwise. Detectors (py3langid, lingua) give every fragment ("DuckDB
lock") some language. Scripts other than Latin are told by their letters.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from memory_assets.language.tags import normalise_tag
from memory_assets.language.words import function_words

ENGLISH = "en"

_VOTING = ("en", "de", "fr", "es", "pt", "it", "nl", "sv", "da", "pl", "cs", "tr", "fi", "hu")
"""Languages that are told apart by their function words."""
_SHORT = 8
"""Words of a sentence that a single function word may decide."""
_SCRIPTS = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "ko": re.compile(r"[\uac00-\ud7af\u1100-\u11ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002ebef]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "el": re.compile(r"[\u0370-\u03ff]"),
    "und": re.compile(r"[\u0530-\u10ff\u1200-\u1cff\u0590-\u08ff]"),
}
"""Letters of a script -> the language that is meant; "und" is any that is only read as words."""
_LATIN = re.compile(r"[^\W\d_]")
_NAME = re.compile(r"[A-Z][^\W\d_]+ (?:(?:van|von|de|der|den|del|di|da|la|le|al|el|dos) )+(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")

_KANJI_OR_KATAKANA = re.compile(r"[\u4e00-\u9fff々]{2,6}|[\u30a1-\u30f6ー]{3,}")
_CHINESE_SMALL_WORDS = re.compile(
    r"我们|你们|他们|她们|它们|这个|那个|这些|那些|因为|所以|但是|如果|没有|不要|需要|应该|可以|可能|已经|还是|或者|以及|并且|"
    r"什么|怎么|为了|之前|之后|时候|现在|总是|从不|使用|决定|通过|进行|[的了在是和我你他她它这那有不也就都而及着或被把对从到为以于之吗呢吧啊与等让给很要能将请]"
)
_HAN = re.compile(r"[\u4e00-\u9fff]{2,6}")
_HANGUL = re.compile(r"[\uac00-\ud7af]{2,}")
_KOREAN_PARTICLE = re.compile(
    r"(?<=..)(?:에서는|에게서|으로는|까지는|부터는|에서|에게|한테|께서|으로|까지|부터|처럼|보다|마다|이나|이라|라는|은|는|이|가|을|를|에|의|로|와|과|도|만)$"
)
_KOREAN_VERB = re.compile(
    r"(?:니다|세요|어요|아요|했다|한다|된다|하다|되다|않다|있다|없다|하고|해서|하지|하게|하는|되는|되어|했음|않음|있음|없음)$"
)


def recognise(text: str) -> str | None:
    """The ISO 639 code of the language of `text`, None where its words do not tell."""
    letters = len(_LATIN.findall(text))
    for code, script in _SCRIPTS.items():
        count = len(script.findall(text))
        if count and (count * 2 > letters or (code == "ja" and count * 5 > letters and not re.search(r"[A-Za-z]{3}", text))):
            return code
        if code == "ja" and count and len(_SCRIPTS["zh"].findall(text)) + count > letters / 2:
            return "ja"
    votes: Counter[str] = Counter()
    words = _WORD.findall(_NAME.sub("", text))
    for word in words:
        votes.update(_languages_of(word.lower()))
    if not votes:
        return None
    code, most = max(votes.items(), key=lambda vote: vote[1])
    if most <= votes[ENGLISH]:
        return ENGLISH
    if most > 1 and most >= 2 * votes[ENGLISH]:
        return code
    alone = next((word for word in words if code in _languages_of(word.lower())), "")
    is_clear = most == 1 and not votes[ENGLISH] and alone.islower() and len(alone) > 2
    return code if is_clear and 2 < len(words) <= _SHORT else None


@lru_cache(maxsize=1 << 14)
def _languages_of(word: str) -> tuple[str, ...]:
    return tuple(code for code in _VOTING if word in function_words(code))


def words_of(text: str, language: str) -> Iterator[str]:
    """Tags of a text in a language that the pipeline does not read: its telling words as they stand, the most frequent first.

    German nouns come before other words. Of Japanese kanji and katakana are taken, of Korean words without their particles.
    """
    found: Counter[str] = Counter()
    for word in _candidates(text, language):
        if tag := normalise_tag(word, inflect=False):
            found[tag] += 1
    for tag, _ in found.most_common():
        yield tag


def _candidates(text: str, language: str) -> Iterator[str]:
    if language == "ja":
        yield from _KANJI_OR_KATAKANA.findall(text)
    elif language == "zh":
        for piece in _CHINESE_SMALL_WORDS.split(text):
            yield from _HAN.findall(piece)
    elif language == "ko":
        for word in _HANGUL.findall(text):
            if not _KOREAN_VERB.search(word):
                yield _KOREAN_PARTICLE.sub("", word)
    else:
        stop_words = function_words(language) if language in _VOTING else frozenset[str]()
        words = [word for word in _WORD.findall(text) if len(word) > 3 and word.lower() not in stop_words]
        if language == "de":
            words = [word for word in words if word[0].isupper()] + [
                word for word in words if word[0].islower() and len(word) > 5
            ]
        yield from words
