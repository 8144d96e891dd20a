"""Words and sentences: the one place that splits, folds and stems texts. What a grammar or a model makes of them lives in `pipeline`.

Where no spaces stand between words (Chinese, Japanese, Thai), or endings grow onto them (Korean), every two neighbouring characters
stand for a word, as in Lucene's CJKAnalyzer: no dictionary is needed and no language need be known. A Chinese character says
something alone, too. Words of other scripts within such a text are told apart from it.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from unicodedata import normalize

from memory_assets.language import english

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    f"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7a3\uff66-\uffdc{_HAN}"
)
"""Thai, Lao, Burmese, single Korean letters, Khmer, Japanese syllables, Korean syllables, narrow forms, Chinese."""
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORD = re.compile(r"[^\W_]+(?:[.+#'’_-]*[^\W_]+)*[+#]*")
_WORD_OF_ANY_SCRIPT = re.compile(rf"(?:[^\W_]|[{_UNSPACED}])+")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ONE_HAN = re.compile(f"[{_HAN}]")
_HIRAGANA = re.compile("[\u3041-\u309f]+")
"""The syllables in which Japanese writes its grammar."""
_ACCENT = re.compile("[\u0300-\u036f]")
_WITH_ACCENTS = re.compile("[\u00c0-\u052f\u1e00-\u1fff\ufb00-\ufb06\uff01-\uff5e]")
"""Letters that may have accents, or another form: Latin, Greek and Cyrillic beyond ASCII, ligatures, wide forms."""
_CONTRACTION = re.compile(r"(?:n['’]t|['’](?:d|ll|m|re|s|ve))$")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")
_ABBREVIATION = re.compile(
    r"\b(?:[a-z]|e\.g|i\.e|d\.h|z\. ?B|approx|bzw|ca|Dr|evtl|ggf|inkl|max|min|Mr|Mrs|Ms|Nr|No|Prof|St|usw|vs)\.$"
)
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.$")
_AFTER_ORDINAL = re.compile(r"[a-zäöü]|(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)")
"""A number with a full stop is an ordinal before a German month or a lower-case word: "am 11. Mai", "der 2. mal"."""
_ENDS_SENTENCE = re.compile(r"[.!?:;…。！？][\"'”’)*_]*$")
_BEGINS_BLOCK = re.compile(r"(?:[-*+>#•|]|\d{1,3}[.)])\s|\*\*")
_BEGINS_ITEM = re.compile(r"(?:[-*+>•|]|\d{1,3}[.)])\s")
_SHORT_LINE = 60
_WRAPPED_LINE = 100
"""Letters of a line up to which a text is wrapped by hand."""
LINE_BREAK = " · "
"""Stands for a line break that ends a sentence where a text is shown in one line."""
_LIST_MARK = 3
"""Letters of a number with a full stop that begins a line of a list."""


def fold(text: str) -> str:
    """A text in lower case and without accents, as the full-text index reads it: "Straße" and "STRASSE" are one."""
    if text.isascii() or not _WITH_ACCENTS.search(text):
        return text.lower()
    return normalize("NFC", _ACCENT.sub("", normalize("NFKD", text.casefold())))


def words(text: str) -> list[str]:
    """The words of a text, lower-case, without a possessive ending."""
    lower = text.lower()
    found = _WORD.findall(lower)
    return [*map(_without_possessive, found)] if "'s" in lower or "’s" in lower else found


def topic_words(text: str) -> list[str]:
    """The words of a text that carry its topic, repetitions kept, and what stands for words in scripts without spaces."""
    found = [word for word in words(text) if not is_function_word(word)]
    if not is_unspaced(text):
        return found
    unspaced = pieces(text)
    telling = [piece for piece in unspaced if not _HIRAGANA.fullmatch(piece)]
    return [word for word in found if not is_unspaced(word)] + (telling or unspaced)


def stems(text: str) -> frozenset[str]:
    """The words of a text that carry its topic, without the commonest English endings."""
    return frozenset(map(stem, topic_words(text)))


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """A word without its ending. LanceDB's full-text index has a stemmer of its own (`stores.resident.words` asks it)."""
    for ending in ("ingly", "edly", "ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=1 << 14)
def is_function_word(word: str) -> bool:
    """Whether a lower-case English word carries no topic: a stop word, also in a contraction, or one that asks ("remember")."""
    bare = _CONTRACTION.sub("", word)
    is_stop = not {word, bare}.isdisjoint(function_words("en")) and bare not in english.word_set("question.telling")
    return is_stop or bare in english.word_set("question.asking")


@lru_cache
def function_words(language: str) -> frozenset[str]:
    """SpaCy's stop words of a language, by its ISO 639 code. Their file is read without importing spaCy, which takes half a second."""
    spacy = find_spec("spacy")
    assert spacy
    assert spacy.origin
    spec = spec_from_file_location("stop_words", Path(spacy.origin).with_name("lang") / language / "stop_words.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return frozenset(map(str.lower, module.STOP_WORDS))


def replace_words(text: str, other: Callable[[str, bool], str | None]) -> str:
    """The text with other words where `other` gives one, told the word as it is written, and whether it has a possessive ending."""

    def replaced(found: re.Match[str]) -> str:
        bare = _without_possessive(found[0])
        return other(bare, bare != found[0]) or found[0]

    return _WORD.sub(replaced, text)


def _without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, markup kept. A line break ends a sentence unless the text is wrapped there."""
    lines: list[str] = []
    wrapped = False
    for line in map(str.strip, text.splitlines()):
        if wrapped and line and not _BEGINS_BLOCK.match(line) and not ends_sentence(lines[-1].rpartition("\n")[2], line):
            lines[-1] += f"\n{line}"
        elif line:
            lines.append(line)
        wrapped = bool(line)
    return [sentence for line in lines for sentence in _split(line)]


def _split(line: str) -> Iterator[str]:
    begin = 0
    for gap in _SENTENCE_END.finditer(line):
        before = line[max(begin, gap.start() - 8) : gap.start()]
        is_number = _ORDINAL.search(before) and (gap.start() - begin <= _LIST_MARK or _AFTER_ORDINAL.match(line, gap.end()))
        if not is_number and not _ABBREVIATION.search(before):
            yield line[begin : gap.start()]
            begin = gap.end()
    yield line[begin:]


def ends_sentence(line: str, following: str) -> bool:
    """Whether a line break stands for a full stop, rather than for the width of somebody's window."""
    return bool(_ENDS_SENTENCE.search(line)) or (len(line) < _SHORT_LINE and following[:1].isupper())


def unwrapped(text: str) -> str:
    """A text in one line, but for the line breaks at which nothing else ends a sentence. Spaces stand for all other white space."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    width = max(_SHORT_LINE, *map(len, lines)) if lines else 0
    told, before, is_wrapped = "", "", False
    for line in lines:
        if line and told:
            is_wrapped = is_wrapped and width < len(before) + 1 + len(line.split()[0]) and len(before) <= _WRAPPED_LINE
            is_ended = is_wrapped or _ENDS_SENTENCE.search(before) or before.endswith((",", "|")) or _BEGINS_ITEM.match(line)
            told += " " if is_ended else "\n"
        told += line
        is_wrapped = bool(line)
        before = line or before
    return told


def is_unspaced(text: str) -> bool:
    """Whether a text holds a character of a script without spaces between words."""
    return not text.isascii() and bool(_ANY_UNSPACED.search(text))


def pieces(text: str) -> list[str]:
    """What stands for the words of a text in such scripts, repetitions kept; nothing for a text without them."""
    if not is_unspaced(text):
        return []
    found: list[str] = []
    for word in _WORD_OF_ANY_SCRIPT.findall(normalize("NFKC", text).lower()):
        if is_unspaced(word):
            for run in _RUN.findall(word):
                found += _pairs(run) if is_unspaced(run) else [run]
    return found


def _pairs(run: str) -> list[str]:
    characters = "".join(filter(str.isalnum, run))
    pairs = [characters[start : start + 2] for start in range(len(characters) - 1)]
    return [*_ONE_HAN.findall(characters), *pairs] or [*characters]
