"""Turns a memory's Markdown into prose for the pipeline, in parts of bounded size.

Each heading or list item becomes a sentence. Code, links, paths and addresses are replaced by a placeholder noun, and their text is kept
beside the prose. Bounded regular expressions do this in linear time: markdown-it-py is quadratic in unclosed brackets and does not know
wiki links, labels or paths. Runs of punctuation, in which spaCy's tokenizer is quadratic, are cut to three.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from unicodedata import normalize

from memory_assets.language.entity_types import ADDRESSES, Mention
from memory_assets.language.languages import ENGLISH, recognise
from memory_assets.language.secrets import replace_marks
from memory_assets.language.surface import find_surface
from memory_assets.language.words import sentences, split_lines, without_quote

MAX_PART_LENGTH = 1_500
"""Characters of one part, up to the end of a word: some 250 words, analysed in less time than a commit takes."""

PLACEHOLDER = "item"
"""The noun that replaces code, a link, a path or an address."""

_MARK = "\ue000"
"""Marks the place of a placeholder while markup is removed; a private-use character, so no stored word contains it."""
_MASKED = "\ue001"
"""Replaces the mark of a masked secret, whose words must not be analysed."""
_LONGEST_WORD = 100
_LONGEST_NAME = 500
_FEW_PIECES = 60
_SOFT_HYPHEN = "\u00ad"
_BLANKS = re.compile(r"[^\S\n]+")
_REPEATED = re.compile(r"([^\w\s]|_)\1{3,}")
_SYMBOLS = re.compile(r"((?:[^\w\s]|_){12})(?:[^\w\s]|_)+")
_SPACED_SYMBOLS = re.compile(r"((?:[^\w\s][ \t]+){3})(?:[^\w\s][ \t]+){3,}")
_CURLY_APOSTROPHE = re.compile(r"(?<=\w)[\u2019\u02bc](?=\w)")

_FENCE = re.compile(r"\s{0,12}(```|~~~)")
_RULE = re.compile(r"\s*(?:[-*_=]\s*){3,}$|\s*\|?\s*:?-+:?\s*(?:\|\s*:?-*:?\s*)+$")
_BULLET = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)]|#{1,6})\s+)+(?:\[[ xX]\]\s+)?")
_LABEL = re.compile(r"(\*\*|__)([^*_\n:]{1,60}?)(?::\1|\1\s?:)\s*")
_TEMPLATE_LABEL = re.compile(r"(?:\*\*|__)?(?:why|how to apply|when to apply)(?::?(?:\*\*|__)|(?=:)):?\s*", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.{0,2000}?-->", re.DOTALL)

_INLINE = re.compile(
    r"(?P<ticks>`{1,3})(?P<code>[^`](?:.{0,400}?[^`])??)(?P=ticks)(?!`)"
    r"|\(?\[\[(?P<wiki>[^\[\]\n]{1,200})\]\]\)?"
    r"|!?\[(?P<label>[^\[\]\n]{0,300})\]\((?P<target>[^()\s]{0,500})(?:\s+\"[^\"\n]{0,200}\")?\)"
    r"|<(?P<address>(?:https?://|mailto:)[^\s<>]{1,2000})>"
    r"|</?[A-Za-z][\w-]{0,30}(?:\s[^<>\n]{0,200})?/?>"
)
_EMPHASIS = (
    re.compile(r"(?<![\w/*])\*{2,3}(?=[^\s*/.])|(?<=[^\s*/])\*{2,3}(?![\w/*])|(?<=\w)\*\*(?=\w)|~~"),
    re.compile(r"(?<![\w*\\/.])\*(?=[^\s*/.])([^*\n]{1,300}?)(?<=[^\s*])\*(?![\w*])"),
    re.compile(r"(?<!\w)__(?=[^\s_])([^_\n]{1,300}? [^_\n]{0,300}?)(?<=[^\s_])__(?!\w)"),
    re.compile(r"(?<!\w)_(?=[^\s_])([^_\n]{1,300}?)(?<=[^\s_])_(?!\w)"),
)
_ESCAPE = re.compile(r"\\([\\`*_\[\]#|~<>])")
_WORDS = re.compile(r"[^\W\d_]{2,}")
_PIECES = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Inset:
    """A non-prose element at its offsets in a part's text: a spelling, code, or a [[link]], whose name says nothing about this memory."""

    start: int
    end: int
    written: str
    mention: Mention | None = None
    """The entity that its spelling shows (a path, an address, a variable, an @mention, a #tag), at offsets in the part."""
    is_code: bool = False

    @property
    def opaque(self) -> bool:
        """Whether a placeholder replaces it in the text."""
        return self.mention is None or self.mention.type in ADDRESSES


@dataclass(frozen=True, slots=True)
class Part:
    """Sentences of a text in one language, about `MAX_PART_LENGTH` characters at most; a line break ends a sentence."""

    text: str
    insets: tuple[Inset, ...] = ()
    language: str = ENGLISH


@dataclass(frozen=True, slots=True)
class Reading:
    """A text's prose in parts, and in `asides` the lines of its code blocks, the targets of its links and other non-prose."""

    parts: tuple[Part, ...]
    asides: tuple[str, ...]


def read(text: str) -> Reading:
    """Remove the markup of a text, compose its letters and drop its soft hyphens, in linear time."""
    text = normalize("NFC", text.replace(_SOFT_HYPHEN, "")).replace(_MARK, " ")
    plain = _CURLY_APOSTROPHE.sub("'", _BLANKS.sub(" ", replace_marks(text, _MASKED)))
    plain = _SYMBOLS.sub(r"\1 ", _REPEATED.sub(r"\1\1\1", plain))
    plain = _SPACED_SYMBOLS.sub(r"\1", _COMMENT.sub(" ", plain))
    asides: list[str] = []
    lines = [part for block in _blocks(plain, asides) for part in _strip_inline(block, asides)]
    parts: list[Part] = []
    for part in _join_parts(_with_languages(lines)):
        if part.language != ENGLISH or _is_prose(part.text):
            parts.append(part)
        else:
            asides += [part.text, *(inset.written for inset in part.insets)]
    return Reading(tuple(parts), tuple(asides))


def _blocks(text: str, asides: list[str]) -> Iterator[str]:
    """Yield paragraphs, headings, list items, table cells and labels, each as one line; append code blocks to `asides`."""
    fence, paragraph, lines = "", list[str](), list[str]()

    def end_paragraph() -> Iterator[str]:
        for content, is_wrapped in split_lines(paragraph):
            if is_wrapped:
                lines[-1] += f" {content}"
            else:
                lines.append(content)
        yield from lines
        paragraph.clear()
        lines.clear()

    was_quoted = False
    for written in text.splitlines():
        line = without_quote(written)
        is_quoted = line != written
        if is_quoted != was_quoted:
            yield from end_paragraph()
            was_quoted = is_quoted
        opened = _FENCE.match(line)
        if fence or opened:
            yield from end_paragraph()
            if not fence and opened:
                fence = opened[1]
            elif opened and opened[1] == fence:
                fence = ""
            else:
                asides += (line[start : start + MAX_PART_LENGTH] for start in range(0, len(line), MAX_PART_LENGTH))
            continue
        if not line.strip() or _RULE.match(line):
            yield from end_paragraph()
            continue
        content = line.strip()
        if bullet := _BULLET.match(line):
            yield from end_paragraph()
            content = line[bullet.end() :].strip()
        if label := _TEMPLATE_LABEL.match(content):
            yield from end_paragraph()
            content = content[label.end() :]
        elif label := _LABEL.match(content):
            yield from end_paragraph()
            yield label[2]
            content = content[label.end() :]
        if content.startswith("|") or content.count(" | ") > 1:
            yield from end_paragraph()
            yield from (cell.strip() for cell in content.split("|") if cell.strip())
            continue
        if content:
            paragraph.append(f" {content}" if paragraph and line[0].isspace() else content)
    yield from end_paragraph()


def _strip_inline(block: str, asides: list[str]) -> Iterator[Part]:
    """Remove a block's inline markup and yield it in parts of bounded length."""
    kept: list[Inset] = []

    def keep(written: str, *, is_code: bool) -> str:
        kept.append(Inset(0, 0, written, is_code=is_code))
        return _MARK

    def replacement(match: re.Match[str]) -> str:
        if match["code"]:
            return keep(match["code"].strip(), is_code=True)
        if match["wiki"]:
            if match[0].startswith("(") and match[0].endswith(")"):
                return ""
            return match[0].replace(f"[[{match['wiki']}]]", keep(match["wiki"], is_code=False))
        if match["address"]:
            return match["address"]
        if match["target"] is not None:
            asides.append(match["target"])
            return keep(match["label"].strip("`"), is_code=True) if "`" in match["label"] else match["label"]
        return " "

    text = _INLINE.sub(replacement, block)
    text = _EMPHASIS[0].sub("", text)
    for emphasis in _EMPHASIS[1:]:
        text = emphasis.sub(r"\1", text)
    text = _ESCAPE.sub(r"\1", text)
    yield from _split_long(_insert_placeholders(text, kept))


def _insert_placeholders(text: str, kept: list[Inset]) -> Part:
    pieces: list[str] = []
    insets: list[Inset] = []
    length = done = 0
    places: list[tuple[int, int, Mention | None]] = [(mention.start, mention.end, mention) for mention in find_surface(text)]
    places += [
        (match.start(), match.end(), None) for match in re.finditer(rf"{_MARK}|{_MASKED}|[!-\u024f]{{{_LONGEST_WORD},}}", text)
    ]
    remaining = iter(kept)
    for start, end, mention in sorted(places, key=lambda place: place[:2]):
        if start < done:
            continue
        written = text[start:end]
        shown = PLACEHOLDER if mention is None or mention.type in ADDRESSES else written.lstrip("@#")
        pieces += [text[done:start], shown]
        begin = length + start - done
        length = begin + len(shown)
        if mention is None or len(written) > _LONGEST_NAME:
            inset = next(remaining) if written == _MARK else Inset(0, 0, written[:_LONGEST_NAME], is_code=True)
            insets.append(replace(inset, start=begin, end=length))
        else:
            found = Mention(begin, length, mention.text, mention.type)
            insets.append(Inset(begin, length, written, found))
        done = end
    return Part("".join([*pieces, text[done:]]), tuple(insets))


def _split_long(part: Part) -> Iterator[Part]:
    start = 0
    while len(part.text) - start > MAX_PART_LENGTH:
        end = part.text.rfind(" ", start, start + MAX_PART_LENGTH)
        end = end if end > start else start + MAX_PART_LENGTH
        yield _slice(part, start, end)
        start = end
    yield _slice(part, start, len(part.text)) if start else part


def _slice(part: Part, start: int, end: int) -> Part:
    inside = (inset for inset in part.insets if start <= inset.start and inset.end <= end)
    return Part(part.text[start:end], tuple(_moved(inset, -start) for inset in inside))


def _moved(inset: Inset, by: int) -> Inset:
    mention = inset.mention and replace(inset.mention, start=inset.mention.start + by, end=inset.mention.end + by)
    return replace(inset, start=inset.start + by, end=inset.end + by, mention=mention)


def _with_languages(lines: Iterable[Part]) -> list[Part]:
    """Set the languages of lines; an undecided line gets the language of most of the text."""
    recognised = [(recognise(part.text), part) for line in lines for part in _split_by_language(line)]
    lengths: Counter[str] = Counter()
    for language, part in recognised:
        if language:
            lengths[language] += len(part.text)
    main = lengths.most_common(1)[0][0] if lengths else ENGLISH
    return [replace(part, language=language or main) for language, part in recognised]


def _split_by_language(line: Part) -> Iterator[Part]:
    found = sentences(line.text)
    if len(found) < 2 or len({recognise(sentence) for sentence in found} - {None}) < 2:
        yield line
        return
    end = 0
    for sentence in found:
        start = line.text.index(sentence, end)
        end = start + len(sentence)
        yield _slice(line, start, end)


def _is_prose(text: str) -> bool:
    """Return whether a part consists of words, not of numbers, drawings or dumps, which take the most time."""
    pieces = len(_PIECES.findall(text))
    return pieces < _FEW_PIECES or 3 * len(_WORDS.findall(text)) > pieces


def _join_parts(sentences: list[Part]) -> Iterator[Part]:
    for language, together in groupby(sentences, key=lambda sentence: sentence.language):
        text, insets = "", list[Inset]()
        for sentence in together:
            if text and len(text) + len(sentence.text) >= MAX_PART_LENGTH:
                yield Part(text, tuple(insets), language)
                text, insets = "", []
            begin = len(text) + 1 if text else 0
            text = f"{text}\n{sentence.text}" if text else sentence.text
            insets += [_moved(inset, begin) for inset in sentence.insets]
        if text.strip():
            yield Part(text, tuple(insets), language)
