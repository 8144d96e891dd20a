"""What the brief tells of a memory: its facts, one a line, and how much a session needs each.

What replaced something is needed most: an assistant that does not know it gets it wrong.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice

from memory_assets.graph.outdated import StatementChange, strip_marks
from memory_assets.graph.statements import list_statements
from memory_assets.language.changes import announces
from memory_assets.language.english import pattern
from memory_assets.language.words import unwrapped
from memory_assets.learn.brief import FILES
from memory_assets.models import Kind, Memory, Source

_WHOLE = 140
"""Letters of a text that is told whole, and of the first sentences about a user or a wish."""
_ALSO = re.compile(r"^also,?\s+", re.IGNORECASE)
_FIRST_WORDS = re.compile(r"(?:(?<=\s)|^)\b")
_LEANS = 3
"""Among so many first words a pronoun stands for something in the sentence before: "Before that it was Ivo"."""
STANDING = frozenset({Kind.USER, Kind.SELF_KNOWLEDGE, Kind.FEEDBACK})
"""Kinds that hold in every session."""


class Need(IntEnum):
    """How much a session needs a fact, the most needed first."""

    REPLACES = 0
    """It replaces what another memory says, or another one contradicts it."""
    STANDING = 1
    """It begins what a memory says of the user or of a wish."""
    CHANGED = 2
    """It says that something changed and what holds now."""
    OF_CHANGE = 3
    """It has a word of change, or perhaps replaces what another memory says."""
    OPENING = 4
    """It is the first fact of its memory."""
    FURTHER = 5
    EXPLAINING = 6
    """It says how to apply what its memory says, or why that is so."""
    LEAST = 7
    """Another fact perhaps replaces it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one line tells of a memory."""

    text: str
    need: Need
    likelihood: float = 0.0
    """That it replaces something."""
    contrary: int = 0
    """The memory that says otherwise while nobody decided."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is known of memories' statements: which are replaced, which replace others, and which are contradicted."""

    outdated: Mapping[int, Collection[str]] = field(default_factory=dict)
    """By memory: its statements that are replaced."""
    newer: Mapping[tuple[int, str], StatementChange] = field(default_factory=dict)
    """By memory and statement: the change by which it replaces another one, or perhaps does."""
    older: Collection[tuple[int, str]] = frozenset()
    """Memories and their statements that are perhaps replaced."""
    contrary: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """By memory and statement: the memory that contradicts it."""

    @classmethod
    def of(cls, changes: Sequence[StatementChange], outdated: Mapping[int, Collection[str]]) -> "Doubts":
        """Those of the statements that changed, or perhaps did."""
        contrary, newer, older = {}, {}, set()
        for each in sorted(changes, key=lambda each: each.verdict == "replaced"):
            if each.verdict == "contradicted":
                contrary |= {(each.old_id, each.old_text): each.new_id, (each.new_id, each.new_text): each.old_id}
                continue
            newer[each.new_id, each.new_text] = each
            if each.verdict == "perhaps replaced":
                older.add((each.old_id, each.old_text))
        return cls(outdated, newer, older, contrary)


def list_facts(memory: Memory, doubts: Doubts) -> list[Fact]:
    """The facts of a memory that hold as far as is known. Of a session it is one: all but the files."""
    if memory.kind is Kind.SESSION:
        told = "\n".join(each for each in memory.content.splitlines() if not each.startswith(FILES))
        return [Fact(unwrapped(told).replace("\n", ". "), Need.OPENING)]
    found = {each.text: each for each in _facts(memory, doubts)}
    facts = [each for each in found.values() if not any(text != each.text and text.startswith(each.text) for text in found)]
    opening = _opening(memory)
    holds = not doubts.outdated.get(memory.id) and not any(each.contrary for each in facts)
    if holds and len(opening) <= _WHOLE:
        return _led(memory, opening, facts)
    if memory.kind in STANDING:
        said = ""
        for each in facts:
            if each.need is Need.EXPLAINING:
                continue
            if each.need is Need.LEAST or each.contrary or (said and len(said) + len(each.text) > _WHOLE):
                break
            said = f"{said} {each.text}".strip()
        return _led(memory, said, facts) if said else facts
    return facts


def is_curated(memory: Memory) -> bool:
    """Whether it comes from the canonical homes."""
    return memory.source is Source.PAI_LEARNING


def _led(memory: Memory, text: str, facts: Sequence[Fact]) -> list[Fact]:
    """A text as the first fact of its memory, and those of the facts that it does not say."""
    inside = [each for each in facts if each.text in text]
    first = min(inside, key=lambda each: each.need, default=Fact(text, Need.OPENING))
    need = min(first.need, Need.STANDING) if memory.kind in STANDING else first.need
    return [replace(first, text=text, need=need), *(each for each in facts if each not in inside)]


def _opening(memory: Memory) -> str:
    """A memory's text without its title; of a curated one the first paragraph, and the second if the first only announces it."""
    first, _, rest = memory.content.partition("\n\n")
    text = rest if rest and _is_title(first) else memory.content
    if is_curated(memory):
        if rest.casefold().startswith(first.casefold()):
            first, _, rest = rest.partition("\n\n")
        is_heading = first.rstrip().endswith(("?", ":")) or first.lstrip().startswith("#")
        text = f"{first} {rest.partition(chr(10) * 2)[0]}" if is_heading else first
    return _ALSO.sub("", _in_line(text, unwrapped(memory.content)))


def _in_line(part: str, whole: str) -> str:
    """A part of a text, told in one line without marks. `whole` is the unwrapped text."""
    line = " ".join(part.split())
    begin = whole.replace("\n", " ").find(line)
    return strip_marks(whole[begin : begin + len(line)].replace("\n", ". "))


def _is_title(paragraph: str) -> bool:
    """Whether a paragraph that others follow is no sentence."""
    return not paragraph.rstrip().endswith((".", "!", "…"))


def _facts(memory: Memory, doubts: Doubts) -> Iterator[Fact]:
    outdated, (first, _, rest) = doubts.outdated.get(memory.id, ()), memory.content.partition("\n\n")
    title = strip_marks(first) if rest and _is_title(first) and not is_curated(memory) else ""
    is_first, before, is_torn, whole = True, "", False, unwrapped(memory.content)
    for _, statement, sentence in list_statements(memory.content):
        is_torn = statement in outdated or (is_torn and _leans(statement))
        is_explaining = bool(pattern("replacements.explaining").match(statement))
        if is_torn or statement == title or (is_explaining and outdated):
            continue
        if not is_explaining and pattern("replacements.advice").match(statement):
            continue
        key = memory.id, statement
        change = doubts.newer.get(key)
        likelihood = change.probability if change else 0.0
        if key in doubts.contrary or (change and change.verdict == "replaced"):
            need = Need.REPLACES
        elif key in doubts.older:
            need = Need.LEAST
        elif is_explaining:
            need = Need.EXPLAINING
        else:
            need = _need(statement, likelihood, is_first=is_first)
            is_first = False
        line = _in_line(sentence, whole)
        text = _ALSO.sub("", line)
        if before and need < Need.OPENING and pattern("replacements.pronoun").match(text):
            text = f"{before} {text}"
        yield Fact(text, need, likelihood, doubts.contrary.get(key, 0))
        before = line


def _leans(statement: str) -> bool:
    """Whether a sentence cannot be told without the one before."""
    begins = islice(_FIRST_WORDS.finditer(statement), _LEANS)
    return any(pattern("replacements.pronoun").match(statement, found.start()) for found in begins)


def _need(statement: str, likelihood: float, *, is_first: bool) -> Need:
    is_change = announces(statement) and not pattern("replacements.unreal").search(statement)
    is_present = bool(pattern("replacements.present").search(statement))
    if is_change and (likelihood or is_present):
        return Need.CHANGED
    # Some words of change, such as "takes" and "left", mostly tell of none.
    is_clear = is_change and bool(pattern("statements.change").search(statement))
    if likelihood or (is_clear and not pattern("replacements.history").search(statement)):
        return Need.OF_CHANGE
    return Need.OPENING if is_first else Need.FURTHER
