"""What full text makes of a text besides its words, so that it finds what is written in any script.

Where no spaces stand between words (Chinese, Japanese, Thai), or endings grow onto them (Korean), every two neighbouring characters
stand for a word, as in Lucene's CJKAnalyzer: no dictionary is needed and no language need be known. A Chinese character says
something alone, too. Words of other scripts within such a text are told apart from it.
"""

import re
from unicodedata import normalize

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    f"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7a3\uff66-\uffdc{_HAN}"
)
"""Thai, Lao, Burmese, single Korean letters, Khmer, Japanese syllables, Korean syllables, narrow forms, Chinese."""
UNSPACED = f"[{_UNSPACED}]"
"""Regular expression for a character of a script whose words full text cannot tell apart."""
_ANY = re.compile(UNSPACED)
_WORD = re.compile(rf"(?:[^\W_]|[{_UNSPACED}])+")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ONE_HAN = re.compile(f"[{_HAN}]")
_ACCENT = re.compile("[\u0300-\u036f]")
_WITH_ACCENTS = re.compile("[\u00c0-\u052f\u1e00-\u1fff\ufb00-\ufb06\uff01-\uff5e]")
"""Letters that may have accents, or another form: Latin, Greek and Cyrillic beyond ASCII, ligatures, wide forms."""


def is_unspaced(text: str) -> bool:
    """Whether a text holds a character of such a script."""
    return not text.isascii() and bool(_ANY.search(text))


def pieces(text: str) -> list[str]:
    """What stands for the words of a text in such scripts, repetitions kept; nothing for a text without them."""
    if not is_unspaced(text):
        return []
    found: list[str] = []
    for word in _WORD.findall(normalize("NFKC", text).lower()):
        if is_unspaced(word):
            for run in _RUN.findall(word):
                found += _pairs(run) if is_unspaced(run) else [run]
    return found


def _pairs(run: str) -> list[str]:
    characters = "".join(filter(str.isalnum, run))
    pairs = [characters[start : start + 2] for start in range(len(characters) - 1)]
    return [*_ONE_HAN.findall(characters), *pairs] or [*characters]


def folded(text: str) -> str:
    """A text in lower case and without accents, as the full-text index reads it: "Straße" and "STRASSE" are one."""
    if text.isascii() or not _WITH_ACCENTS.search(text):
        return text.lower()
    return normalize("NFC", _ACCENT.sub("", normalize("NFKD", text.casefold())))
