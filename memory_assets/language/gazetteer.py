"""Names known in advance: the bundled gazetteer, the user's own, and the names of the graph.

The files are TOML: one table per entity type, and `[ignore]` with words that neither a model nor capitals alone make an entity.
`gazetteer.toml` is an example; docs/language.md explains the keys.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any

from memory_assets.errors import InvalidInputError
from memory_assets.language.english import pattern
from memory_assets.language.entity_types import EntityType, Mention
from memory_assets.language.words import CAPITALS

BUNDLED = Path(__file__).with_name("gazetteer.toml")

_WORD = re.compile(r"[^\W_]+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:…]['\"”’)]*\s+|\n\s*)(?:[-*>#]+\s+|\d+[.)]\s+)?['\"“‘(*_`]*$")
_CONTRACTED = re.compile(r"['’](?!s\b)[^\W\d_]")
_PACKAGE_SCOPE = re.compile(r"@[\w.-]+/$")
_VERSION = r"v?\d+(?:\.\d+)*(?![\w%]|\.\d|\s+(?:%|\w+s\b))"
_SURNAMES = re.compile(
    rf"(?:-[{CAPITALS}][^\W\d_]+)?"
    r"(?:[ ](?:(?:van|von|de|der|den|del|di|da|la|le|bin|al|el|dos)[ ])*"
    rf"[{CAPITALS}][^\W\d_]*(?:['’-][{CAPITALS}][^\W\d_]+)*(?![\w.]\w)){{0,2}}"
)


class Certainty(Enum):
    """How reliably a spelling identifies its name; docs/language.md explains the levels."""

    CERTAIN = auto()
    CAPITALISED = auto()
    CUED = auto()
    GIVEN = auto()
    KNOWN = auto()
    """A name of the graph, found in any casing; the caller decides whether it is used as a name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One spelling of a known name."""

    written: str
    canonical: str
    type: EntityType
    certainty: Certainty
    unless: re.Pattern[str] | None = None

    @property
    def is_first_name(self) -> bool:
        """Whether a surname may follow."""
        known_person = self.certainty is Certainty.KNOWN and self.type is EntityType.PERSON and " " not in self.written
        return self.certainty is Certainty.GIVEN or known_person


@dataclass(frozen=True, slots=True)
class Hit:
    """A known name in a text."""

    mention: Mention
    entry: Entry
    opens: bool = False
    """Whether its only evidence is the capital of a sentence's first word; the caller decides."""


@dataclass(frozen=True, slots=True)
class Cues:
    """Words beside an ambiguous name that confirm it, for one entity type."""

    before: re.Pattern[str]
    after: re.Pattern[str]
    lead: re.Pattern[str]


CueWords = dict[tuple[EntityType, str], list[str]]
_CUE_KEYS = ("before", "after", "lead")


@dataclass(slots=True)
class Gazetteer:
    """Known names, looked up by first word; the longest spelling wins."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)
    """Lower-case first word (letters and digits alone) -> lower-case spelling -> entry."""
    extents: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Lower-case first word -> distinct pairs (its offset in a spelling, length of the spelling), the longest first."""
    cues: dict[EntityType, Cues] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    """Lower-case words that neither a model nor capitals alone make an entity."""
    canonical: dict[str, str] = field(default_factory=dict)
    """Lower-case spelling -> the name it stands for, if different."""

    def find(self, text: str) -> Iterator[Hit]:
        """Yield the known names in `text`, left to right; where several begin, only the longest."""
        after_last = 0
        for word in _WORD.finditer(text):
            spellings = self.entries.get(word.group().lower())
            if spellings is None or word.start() < after_last:
                continue
            for offset, length in self.extents[word.group().lower()]:
                start = word.start() - offset
                end = start + length
                written = text[max(start, 0) : end].lower()
                entry = spellings.get(written)
                if entry is None or start < after_last or len(written) != length or not _stands_alone(text, start, end):
                    continue
                if (entry.unless and entry.unless.search(text)) or pattern("names.season_of_year").match(text, start):
                    continue
                opens = False
                if entry.certainty in {Certainty.CAPITALISED, Certainty.CUED} and not self._has_cue(text, start, end, entry):
                    as_written = text[start:end] == entry.written and entry.certainty is Certainty.CAPITALISED
                    if not as_written:
                        continue
                    opens = bool(_SENTENCE_START.search(text[max(0, start - 40) : start]))
                if entry.is_first_name and (surnames := _SURNAMES.match(text, end)):
                    end = self._without_known(text, end, surnames.end())
                certain = entry.certainty is not Certainty.CAPITALISED
                yield Hit(Mention(start, end, text[start:end], entry.type, certain), entry, opens)
                after_last = end
                break

    def type_of(self, name: str) -> EntityType | None:
        """Return the type of `name` if the gazetteer contains it as a whole."""
        return next((hit.mention.type for hit in self.find(name) if hit.mention.text == name), None)

    def _has_cue(self, text: str, start: int, end: int, entry: Entry) -> bool:
        preceding, cues = text[max(0, start - 40) : start], self.cues[entry.type]
        if cues.before.search(preceding) or cues.after.match(text, end):
            return True
        return text[start:end] == entry.written and bool(cues.lead.search(preceding))

    def _without_known(self, text: str, start: int, end: int) -> int:
        """Return where a surname ends; a word known as something else ("Alice Postgres") is not part of it."""
        for word in _WORD.finditer(text, start, end):
            lower = word.group().lower()
            if word.start() == start + 1 and text[start] == "-":
                continue
            if lower in self.ignored or any(
                entry.certainty is Certainty.CERTAIN for entry in self.entries.get(lower, {}).values()
            ):
                return word.start() - 1
        return end


def load_gazetteer(paths: Sequence[Path], known_names: Mapping[str, str]) -> Gazetteer:
    """Read the bundled gazetteer, then the user's files that exist, which override it, then the graph's names.

    The graph's `known_names` (name -> entity type) override all but certain names: a folder "redis" does not make Redis a project.
    Raise InvalidInputError if a file or type is invalid.
    """
    bundled, bundled_cues = _read_bundled()
    gazetteer = Gazetteer(
        entries={first: dict(spellings) for first, spellings in bundled.entries.items()},
        extents={first: list(extents) for first, extents in bundled.extents.items()},
        canonical=dict(bundled.canonical),
        ignored=set(bundled.ignored),
    )
    cue_words = {key: list(words) for key, words in bundled_cues.items()}
    for path in paths:
        if path.exists():
            _read_file(gazetteer, cue_words, path)
    for kind in {kind for kind, _ in cue_words}:
        gazetteer.cues[kind] = Cues(
            re.compile(rf"{_alternatives(cue_words[kind, 'before'])}\s+['\"“`]?$", re.IGNORECASE),
            re.compile(rf"['\"”`]?\s+(?:{_VERSION}|{_alternatives(cue_words[kind, 'after'])})", re.IGNORECASE),
            re.compile(rf"{_alternatives(cue_words[kind, 'lead'])}\s+['\"“`]?$", re.IGNORECASE),
        )
    for name, kind in known_names.items():
        entry = Entry(name, name, _entity_type(kind, f"known name {name!r}"), Certainty.KNOWN)
        listed = gazetteer.entries.get(_first_word(name.lower())[1], {}).get(name.lower())
        if _WORD.search(name) and (listed is None or listed.certainty is not Certainty.CERTAIN):
            _add(gazetteer, entry)
    return gazetteer


@cache
def _read_bundled() -> tuple[Gazetteer, CueWords]:
    """Read the bundled gazetteer, without compiled cues; callers must copy it."""
    gazetteer, cue_words = Gazetteer(), CueWords()
    _read_file(gazetteer, cue_words, BUNDLED)
    return gazetteer, cue_words


def _read_file(gazetteer: Gazetteer, cue_words: CueWords, path: Path) -> None:
    if not path.is_file():
        raise InvalidInputError(f"{path} is not a file: put a TOML file there or remove it.")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as TOML ({error}): correct or remove it.") from error
    for name, table in tables.items():
        where = f"{path}: [{name}]"
        if not isinstance(table, dict):
            raise InvalidInputError(f"{where} must be a table.")
        if name == "ignore":
            gazetteer.ignored.update(word.lower() for word in _strings(table.get("words", []), f"{where} words"))
            continue
        _read_table(gazetteer, cue_words, table, _entity_type(name, where), where)


def _read_table(gazetteer: Gazetteer, cue_words: CueWords, table: dict[str, Any], kind: EntityType, where: str) -> None:
    levels = {level.name.lower(): level for level in Certainty if level is not Certainty.KNOWN}
    aliases, unless = table.get("aliases", {}), table.get("unless", {})
    if not isinstance(aliases, dict) or not isinstance(unless, dict):
        raise InvalidInputError(f"{where} aliases and unless must be tables: write [{kind}.aliases] above them.")
    for key, value in table.items():
        if key in levels:
            for name in _strings(value, f"{where} {key}"):
                blockers = _strings(unless.get(name, []), f"{where} unless.{name}")
                blocker = re.compile(_alternatives(blockers), re.IGNORECASE) if blockers else None
                for spelling in (name, *_strings(aliases.get(name, []), f"{where} aliases.{name}")):
                    _add(gazetteer, Entry(spelling, name, kind, levels[key], blocker))
        elif key not in {*_CUE_KEYS, "aliases", "unless"}:
            known = ", ".join([*levels, *_CUE_KEYS, "aliases", "unless"])
            raise InvalidInputError(f"{where} has the unknown key {key!r}: use one of {known}.")
    named = {name for key in levels for name in table.get(key, [])}
    for key, entries in (("aliases", aliases), ("unless", unless)):
        for name in entries:
            if name not in named:
                raise InvalidInputError(f"{where} {key}.{name} belongs to no name: list {name!r} in the table first.")
    for key in _CUE_KEYS:
        cue_words.setdefault((kind, key), []).extend(_strings(table.get(key, []), f"{where} {key}"))


def _add(gazetteer: Gazetteer, entry: Entry) -> None:
    spelling = entry.written.lower()
    start, first = _first_word(spelling)
    gazetteer.entries.setdefault(first, {})[spelling] = entry
    extents = gazetteer.extents.setdefault(first, [])
    if (start, len(spelling)) not in extents:
        extents.append((start, len(spelling)))
        extents.sort(key=lambda extent: (-extent[1], extent[0]))
    gazetteer.canonical.pop(spelling, None)
    if entry.canonical.lower() != spelling:
        gazetteer.canonical[spelling] = entry.canonical


def _first_word(spelling: str) -> tuple[int, str]:
    match = _WORD.search(spelling)
    return (match.start(), match.group()) if match else (0, spelling)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether text[start:end] is a separate word, not part of an identifier or address."""
    before, after = text[start - 1 : start], text[end : end + 2]
    if before and (before.isalnum() or before in "_.@$#\\-°!" or _PACKAGE_SCOPE.search(text[max(0, start - 40) : start])):
        return False
    if not after or _CONTRACTED.match(text, end):
        return not after
    if after[0].isalnum() or after[0] in "_+#@\\(=":
        return False
    return not (after[0] in ".:" and len(after) > 1 and (after[1].isalnum() or after[1] in "_:"))


def _entity_type(name: str, where: str) -> EntityType:
    try:
        return EntityType(name)
    except ValueError:
        known = ", ".join(EntityType)
        raise InvalidInputError(f"{where} names the unknown entity type {name!r}: use one of {known}.") from None


def _strings(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and _WORD.search(item) for item in value):
        raise InvalidInputError(f"{where} must be a list of strings with a letter or digit in each.")
    return value


def _alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of the words as whole words; it never matches if there are none."""
    listed = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)
    return rf"\b(?:{listed})\b" if listed else r"(?!)"
