"""Words and sentences: the only module that splits, folds and stems texts. Grammar and models live in `pipeline`.

In scripts without spaces between words (Chinese, Japanese, Thai) or with attached endings (Korean), every pair of adjacent characters
counts as a word, as in Lucene's CJKAnalyzer, which needs neither a dictionary nor the language. Single Chinese characters count, too.
Words of other scripts within such a text are split off.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import chain, groupby
from pathlib import Path
from unicodedata import normalize

from memory_assets.language import english

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = (
    f"\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\uac00-\ud7a3\uff66-\uffdc{_HAN}"
)
"""Thai, Lao, Burmese, single Korean letters, Khmer, Japanese syllables, Korean syllables, narrow forms, Chinese."""
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")
CAPITALS = "".join(filter(str.isupper, map(chr, (*range(0x250), *range(0x1E00, 0x1F00)))))
"""The upper-case Latin letters, with and without accents, to be put into a character class."""
_WORD = re.compile(r"[^\W_]+(?:[.+#'’_-]*[^\W_]+)*[+#]*")
_WORD_OF_ANY_SCRIPT = re.compile(rf"(?:[^\W_]|[{_UNSPACED}])+")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_ONE_HAN = re.compile(f"[{_HAN}]")
_HIRAGANA = re.compile("[\u3041-\u309f]+")
"""The syllables that write Japanese grammar."""
_ACCENT = re.compile("[\u0300-\u036f]")
_WITH_ACCENTS = re.compile("[\u00c0-\u052f\u1e00-\u1fff\ufb00-\ufb06\uff01-\uff5e]")
"""Letters that folding may change: Latin, Greek and Cyrillic beyond ASCII, ligatures, wide forms."""
_CONTRACTION = re.compile(r"(?:n['’]t|['’](?:d|ll|m|re|s|ve))$")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")
_ABBREVIATION = re.compile(
    r"\b(?:[a-z]|e\.g|i\.e|d\.h|i\. ?d\. ?R|u\. ?a|[zZ]\. ?B|Abs|al|approx|Art|bzw|ca|Dr|evtl|ex|ggf|ggü|inkl|max|min|Mr|Mrs|Ms|Nr|No|Prof"
    r"|resp|St|usw|vgl|vs)\.$"
)
_BEFORE_NUMBER = re.compile(
    r"(?:\b(?:Abb|Bd|[Ff]ig|Kap|pp|S|Sec|Tab|Tel|Mo|Di|Mi|Do|Fr|Sa|So|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|O[kc]t|Nov|De[zc])|[Ss]tr)\.$"
)
"""Abbreviations that end no sentence if a number follows: "S. 12", "Jan. 5", "Mo. 12. Mai"."""
_CODE = re.compile(r"`[^`\n]+`")
CODE_BLOCK = re.compile(r"^[ \t]*(?P<fence>```+(?![^\n]*`)|~~~+)(?s:.*?)(?:^[ \t]*(?P=fence)|\Z)", re.MULTILINE)
WIKI_LINK = re.compile(r"\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
"""A `[[name]]`, `[[name#heading]]` or `[[name|shown]]`; the group is the name."""
_INITIAL = re.compile(rf"[{CAPITALS}][\w'’-]+\s[{CAPITALS}]\.$")
_NAME = re.compile(rf"[{CAPITALS}][\w'’-]+")
_ORDINAL = re.compile(r"(?:^|\s)\d{1,2}\.(?:\d{1,2}\.)?$")
_AFTER_ORDINAL = re.compile(
    r"[a-zäöü]|(?:Jan(?:uary?)?|Feb(?:ruary?)?|März?|Mar(?:ch)?|Apr(?:il)?|Ma[iy]|Jun[ei]?|Jul[iy]?|Aug(?:ust)?|Sept?(?:ember)?|O[kc]t(?:ober)?"
    r"|Nov(?:ember)?|De[zc](?:ember)?)\b"
)
"""Months and German lower-case words, before which a number with a full stop is an ordinal: "am 11. Mai", "der 2. mal"."""
_GERMAN_ORDINAL = re.compile(r"\b(?:[Dd](?:as|e[mnrs]|ie)|[Ii]m|[Bb]eim)\s\d{1,2}\.$")
"""A number after an article, before a noun: "im 2. Stock"."""
_ENDS_SENTENCE = re.compile(r"[.!?:;…。！？][\"'”’)*_]*$")
_BEGINS_BLOCK = re.compile(r"(?:[-*+#•|]|\d{1,3}[.)])\s|\*\*[^*]+(?:[:.!?]\*\*|\*\*\s*(?::|$|[–—-]\s|\([^)]*\):))")
"""An item, a heading, or a label in bold print."""
_FIRST_WORD = re.compile(r"(?:\*\*[^*]+\*\*|`[^`]+`)?\S*")
"""What an editor does not break: a word, or several in bold print or as code."""
_BEGINS_ITEM = re.compile(r"(?:[-*+>•|]|\d{1,3}[.)])\s")
_QUOTE = re.compile(r"(?:[ \t]*>)+")
_QUOTED_ON = re.compile(r"\n(?:[ \t]*>)+")
"""The mark of a quotation, and in a sentence that goes on in its next line."""
_SHORT_LINE = 60
_FEWEST_WRAPPED = 2
"""Words of a line from which a small letter in the next one shows that it is wrapped prose, no list."""
_WRAPPED_LINE = 120
"""Maximum characters of a line in a hand-wrapped text."""
LINE_BREAK = " · "
"""Replaces a line break that ends a sentence when a text is shown in one line."""
_LOOK_BACK = 30
"""Characters before a full stop that may show that it ends no sentence."""
_NUMBER_OF_ITEM = re.compile(r"\W*\d{1,2}\.")
"""The number of a list item or heading: "2.", "## 4.", "**1."."""


def fold(text: str) -> str:
    """Return a text in lower case and without accents, as the full-text index stores it: "Straße" equals "STRASSE"."""
    if text.isascii() or not _WITH_ACCENTS.search(text):
        return text.lower()
    return normalize("NFC", _ACCENT.sub("", normalize("NFKD", text.casefold())))


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case, without possessive endings."""
    lower = text.lower()
    found = _WORD.findall(lower)
    return [*map(_without_possessive, found)] if "'s" in lower or "’s" in lower else found


def topic_words(text: str) -> list[str]:
    """Return the topic words of a text, repetitions included, and in scripts without spaces its `pieces`."""
    found = [word for word in words(text) if not is_function_word(word)]
    if not is_unspaced(text):
        return found
    unspaced = pieces(text)
    telling = [piece for piece in unspaced if not _HIRAGANA.fullmatch(piece)]
    return [word for word in found if not is_unspaced(word)] + (telling or unspaced)


def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's topic words."""
    return frozenset(map(stem, topic_words(text)))


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Remove a common English ending. LanceDB's full-text index has its own stemmer (see `stores.resident.words`)."""
    for ending in ("ingly", "edly", "ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=1 << 14)
def is_function_word(word: str) -> bool:
    """Return whether a lower-case English word carries no topic: a stop word, also contracted, or an asking word ("remember")."""
    bare = _CONTRACTION.sub("", word)
    is_stop = not {word, bare}.isdisjoint(function_words("en")) and bare not in english.word_set("question.telling")
    return is_stop or bare in english.word_set("question.asking")


@lru_cache
def function_words(language: str) -> frozenset[str]:
    """Return spaCy's stop words for an ISO 639 code, without importing spaCy, which takes half a second."""
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
    """Replace each word by `other(word, is_possessive)`, called without the possessive ending; None keeps the word."""

    def replacement(found: re.Match[str]) -> str:
        bare = _without_possessive(found[0])
        return other(bare, bare != found[0]) or found[0]

    return _WORD.sub(replacement, text)


def _without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


def without_code(text: str) -> str:
    """Return a Markdown text without its code blocks."""
    return CODE_BLOCK.sub("\n\n", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, with markup. A line break ends a sentence unless it only wraps the text."""
    lines: list[str] = []
    for line, is_wrapped in split_lines(text.splitlines()):
        if is_wrapped:
            lines[-1] += f"\n{line}"
        else:
            lines.append(line)
    return [sentence for line in lines for sentence in _split(line)]


def prose_sentences(text: str) -> list[str]:
    """Return the sentences of a Markdown text without its code blocks, in order, with their markup."""
    return sentences(without_code(text))


def _opens(word: str) -> bool:
    """Whether a lower-case English or German word opens a sentence rather than names something."""
    return is_function_word(word) or word in function_words("de")


def _split(line: str) -> Iterator[str]:
    begin = 0
    for gap in _SENTENCE_END.finditer(_CODE.sub(lambda code: "_" * len(code[0]), line)):
        before = line[max(begin, gap.start() - _LOOK_BACK) : gap.start()]
        is_item = _NUMBER_OF_ITEM.fullmatch(line, begin, gap.start())
        is_ordinal = _ORDINAL.search(before) and _AFTER_ORDINAL.match(line, gap.end())
        is_number = is_item or is_ordinal or (line[gap.end() : gap.end() + 1].isdigit() and _BEFORE_NUMBER.search(before))
        following = _NAME.match(line, gap.end())
        is_name = following and (_INITIAL.search(before) or _GERMAN_ORDINAL.search(before)) and not _opens(following[0].lower())
        if not is_number and not is_name and not _ABBREVIATION.search(before):
            yield line[begin : gap.start()]
            begin = gap.end()
    yield line[begin:]


def split_lines(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line that is not blank, stripped, and whether it goes on with the sentence of the line before.

    A line is wrapped if it is as wide as its paragraph or ends in a comma, or if the next one is indented or, after a line of some words,
    begins with a small letter.
    The first of several paragraphs, often a description and a hook of one line each, has the width of the others. The lines of a quotation
    are those of paragraphs of their own.
    """
    stripped = [(line.strip(), without_quote(line)) for line in lines]
    together = groupby(stripped, lambda each: (bool(each[1].strip()), each[0].startswith(">")))
    paragraphs = [[*paragraph] for (has_text, _), paragraph in together if has_text]
    rest = [*chain.from_iterable(paragraphs[1:])]
    for place, paragraph in enumerate(paragraphs):
        is_description = rest and not place
        width = max(_SHORT_LINE, *(len(line.strip()) for _, line in (rest if is_description else paragraph)))
        before = ""
        for written, bare in paragraph:
            line, is_indented = bare.strip(), bare[:1].isspace()
            first = next(_FIRST_WORD.finditer(line)).end()
            is_full = len(before) <= min(width, _WRAPPED_LINE) and width < len(before) + 1 + first
            is_prose = line.removeprefix("**")[:1].islower() and not is_description and len(before.split()) >= _FEWEST_WRAPPED
            goes_on = is_indented or is_full or before.endswith(",") or is_prose
            begins_block = _BEGINS_BLOCK.match(line) or (line.startswith("**") and before.startswith("**"))
            yield written, bool(before) and goes_on and not (begins_block or _ENDS_SENTENCE.search(before))
            before = line


def without_quote(line: str) -> str:
    """Return a line without the marks of a quotation and the space behind them."""
    quote = _QUOTE.match(line)
    return line[quote.end() :].removeprefix(" ") if quote else line


def on_one_line(text: str) -> str:
    """Return a text with single spaces for its white space, without the marks of a quotation in further lines."""
    return " ".join(_QUOTED_ON.sub("\n", text).split())


def unwrapped(text: str) -> str:
    """Join the lines of a text, but keep the line breaks that alone end a sentence. Other white space becomes single spaces."""
    joined = before = ""
    for line, is_wrapped in split_lines(text.splitlines()):
        needs_no_break = is_wrapped or before.endswith("|") or _ENDS_SENTENCE.search(before) or begins_item(line)
        before = on_one_line(f"\n{line}" if is_wrapped else line)
        joined += (" " if needs_no_break else "\n") + before if joined else before
    return joined


def begins_item(line: str) -> bool:
    """Return whether a line begins as the item of a list, a quotation or the row of a table does."""
    return bool(_BEGINS_ITEM.match(line))


def is_unspaced(text: str) -> bool:
    """Return whether a text contains a character of a script without spaces between words."""
    return not text.isascii() and bool(_ANY_UNSPACED.search(text))


def pieces(text: str) -> list[str]:
    """Return the substitutes for words of a text in a script without spaces, repetitions included; empty for other texts."""
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
