"""A memory's text as the pipeline reads it: prose without Markdown, in parts of bounded size.

A heading or list item becomes a sentence of its own; code, links, paths and addresses are each put into the prose as one plain noun, with
what they name kept beside it. One linear pass of bounded regular expressions does it: markdown-it-py is quadratic in unclosed brackets,
and knows nothing of wiki links, labels and paths. Runs of punctuation, in which spaCy's tokenizer is quadratic, are cut to three.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import groupby

from memory_assets.language.entity_types import ADDRESSES, Mention
from memory_assets.language.languages import ENGLISH, recognise
from memory_assets.language.secrets import replace_marks
from memory_assets.language.surface import find_surface
from memory_assets.language.words import ends_sentence, sentences

MAX_PART_LENGTH = 1_500
"""Characters of one part, save for the rest of a word: some 250 words, whose analysis takes less than a commit's time."""

PLACEHOLDER = "item"
"""The noun that stands for code, a link, a path or an address."""

_MARK = "\ue000"
"""Holds the place of a stand-in while the marks around it are removed; a private character, and so in no stored word."""
_MASKED = "\ue001"
"""Stands for the mark of a secret, whose words name nothing."""
_LONGEST_WORD = 100
_LONGEST_NAME = 500
_FEW_PIECES = 60
_BLANKS = re.compile(r"[^\S\n]+")
_REPEATED = re.compile(r"([^\w\s]|_)\1{3,}")
_SYMBOLS = re.compile(r"((?:[^\w\s]|_){12})(?:[^\w\s]|_)+")
_SPACED_SYMBOLS = re.compile(r"((?:[^\w\s][ \t]+){3})(?:[^\w\s][ \t]+){3,}")
_CURLY_APOSTROPHE = re.compile(r"(?<=\w)[\u2019\u02bc](?=\w)")

_FENCE = re.compile(r"\s{0,12}(?:>\s?)*(```|~~~)")
_RULE = re.compile(r"\s*(?:[-*_=]\s*){3,}$|\s*\|?\s*:?-+:?\s*(?:\|\s*:?-*:?\s*)+$")
_BULLET = re.compile(r"\s*(?:>\s?)*(?:(?:[-*+•]|\d{1,3}[.)]|#{1,6})\s+)+(?:\[[ xX]\]\s+)?|\s*(?:>\s?)+")
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


class Form(Enum):
    """How something that is no prose was written."""

    SPELT = auto()
    """Known by its spelling: a path, an address, a variable, an @mention, a #tag."""
    CODE = auto()
    LINK = auto()
    """A [[link]] to another memory: its name says nothing of this one."""


@dataclass(frozen=True, slots=True)
class Inset:
    """Something that is no prose, at its place in a part's text."""

    start: int
    end: int
    form: Form
    written: str
    mention: Mention | None = None
    """What its spelling says that it is, for `Form.SPELT`; its offsets are those of the part."""

    @property
    def opaque(self) -> bool:
        """Whether the text has a stand-in at this place."""
        return self.mention is None or self.mention.type in ADDRESSES


@dataclass(frozen=True, slots=True)
class Part:
    """Some sentences of a text, at most `MAX_PART_LENGTH` characters and one word; a line break ends a sentence."""

    text: str
    insets: tuple[Inset, ...] = ()
    language: str = ENGLISH


@dataclass(frozen=True, slots=True)
class Reading:
    """A text's prose in parts; and the lines of its code blocks, the targets of its links, and what else is no prose."""

    parts: tuple[Part, ...]
    asides: tuple[str, ...]


def read(text: str) -> Reading:
    """Take the markup off a text, in time linear in its length."""
    plain = _CURLY_APOSTROPHE.sub("'", _BLANKS.sub(" ", replace_marks(text.replace(_MARK, " "), _MASKED)))
    plain = _SYMBOLS.sub(r"\1 ", _REPEATED.sub(r"\1\1\1", plain))
    plain = _SPACED_SYMBOLS.sub(r"\1", _COMMENT.sub(" ", plain))
    asides: list[str] = []
    lines = [part for block in _blocks(plain, asides) for part in _inline(block, asides)]
    parts: list[Part] = []
    for part in _joined(_with_languages(lines)):
        if part.language != ENGLISH or _is_prose(part.text):
            parts.append(part)
        else:
            asides += [part.text, *(inset.written for inset in part.insets)]
    return Reading(tuple(parts), tuple(asides))


def _blocks(text: str, asides: list[str]) -> Iterator[str]:
    """Paragraphs, headings, list items, table cells and labels, each on one line; code blocks go to `asides`."""
    fence, paragraph = "", list[str]()

    def ended() -> Iterator[str]:
        if paragraph:
            yield " ".join(paragraph)
            paragraph.clear()

    for line in text.splitlines():
        opened = _FENCE.match(line)
        if fence or opened:
            yield from ended()
            if not fence and opened:
                fence = opened[1]
            elif opened and opened[1] == fence:
                fence = ""
            else:
                asides += (line[start : start + MAX_PART_LENGTH] for start in range(0, len(line), MAX_PART_LENGTH))
            continue
        if not line.strip() or _RULE.match(line):
            yield from ended()
            continue
        content = line.strip()
        if bullet := _BULLET.match(line):
            yield from ended()
            content = line[bullet.end() :].strip()
        if label := _TEMPLATE_LABEL.match(content):
            yield from ended()
            content = content[label.end() :]
        elif label := _LABEL.match(content):
            yield from ended()
            yield label[2]
            content = content[label.end() :]
        if content.startswith("|") or content.count(" | ") > 1:
            yield from ended()
            yield from (cell.strip() for cell in content.split("|") if cell.strip())
            continue
        if paragraph and ends_sentence(paragraph[-1], content):
            yield from ended()
        if content:
            paragraph.append(content)
    yield from ended()


def _inline(block: str, asides: list[str]) -> Iterator[Part]:
    """One block without its inline marks, in as many parts as its length needs."""
    kept: list[Inset] = []

    def keep(form: Form, written: str) -> str:
        kept.append(Inset(0, 0, form, written))
        return _MARK

    def marked(match: re.Match[str]) -> str:
        if match["code"]:
            return keep(Form.CODE, match["code"].strip())
        if match["wiki"]:
            if match[0].startswith("(") and match[0].endswith(")"):
                return ""
            return match[0].replace(f"[[{match['wiki']}]]", keep(Form.LINK, match["wiki"]))
        if match["address"]:
            return match["address"]
        if match["target"] is not None:
            asides.append(match["target"])
            return keep(Form.CODE, match["label"].strip("`")) if "`" in match["label"] else match["label"]
        return " "

    text = _INLINE.sub(marked, block)
    text = _EMPHASIS[0].sub("", text)
    for emphasis in _EMPHASIS[1:]:
        text = emphasis.sub(r"\1", text)
    text = _ESCAPE.sub(r"\1", text)
    yield from _cut(_with_insets(text, kept))


def _with_insets(text: str, kept: list[Inset]) -> Part:
    """The text with a stand-in for whatever is no prose."""
    pieces: list[str] = []
    insets: list[Inset] = []
    length = done = 0
    places: list[tuple[int, int, Mention | None]] = [(mention.start, mention.end, mention) for mention in find_surface(text)]
    places += [
        (match.start(), match.end(), None) for match in re.finditer(rf"{_MARK}|{_MASKED}|[!-\u024f]{{{_LONGEST_WORD},}}", text)
    ]
    held = iter(kept)
    for start, end, mention in sorted(places, key=lambda place: place[:2]):
        if start < done:
            continue
        written = text[start:end]
        shown = PLACEHOLDER if mention is None or mention.type in ADDRESSES else written.lstrip("@#")
        pieces += [text[done:start], shown]
        begin = length + start - done
        length = begin + len(shown)
        if mention is None or len(written) > _LONGEST_NAME:
            inset = next(held) if written == _MARK else Inset(0, 0, Form.CODE, written[:_LONGEST_NAME])
            insets.append(Inset(begin, length, inset.form, inset.written))
        else:
            found = Mention(begin, length, mention.text, mention.type)
            insets.append(Inset(begin, length, Form.SPELT, written, found))
        done = end
    return Part("".join([*pieces, text[done:]]), tuple(insets))


def _cut(part: Part) -> Iterator[Part]:
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
    """The lines with their languages; one whose words do not tell is taken to be in the language of most of the text."""
    told = [(recognise(part.text), part) for line in lines for part in _by_language(line)]
    lengths: Counter[str] = Counter()
    for language, part in told:
        if language:
            lengths[language] += len(part.text)
    main = lengths.most_common(1)[0][0] if lengths else ENGLISH
    return [replace(part, language=language or main) for language, part in told]


def _by_language(line: Part) -> Iterator[Part]:
    """The sentences of a line in several languages; any other line whole."""
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
    """Whether a part is made of words; columns of numbers, drawings and dumps are not, and cost the most."""
    pieces = len(_PIECES.findall(text))
    return pieces < _FEW_PIECES or 3 * len(_WORDS.findall(text)) > pieces


def _joined(sentences: list[Part]) -> Iterator[Part]:
    """Sentences of one language that follow each other, put together up to the length of a part."""
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
