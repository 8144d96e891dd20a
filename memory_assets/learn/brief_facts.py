"""The facts of a memory for the brief, one per line, and how much a session needs each.

A fact that replaces another is needed most: an assistant that does not know it gets things wrong.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice

from memory_assets.graph.outdated import StatementChange, strip_marks
from memory_assets.graph.statements import introduces, list_statements
from memory_assets.language.changes import announces
from memory_assets.language.english import pattern
from memory_assets.language.words import topic_words, unwrapped
from memory_assets.learn.brief import FILES
from memory_assets.models import STANDING_KINDS, Kind, Memory, Source

_OPENING_LENGTH = 140
"""Characters up to which an opening is shown as one fact, and of the leading sentences of a standing memory."""
_ALSO = re.compile(r"^also,?\s+", re.IGNORECASE)
_FIRST_WORDS = re.compile(r"(?:(?<=\s)|^)\b")
_PRONOUN_WORDS = 3
"""A pronoun among so many first words refers to the previous sentence: "Before that it was Ivo"."""


_LEAST_TOPIC_WORDS = 2


class Need(IntEnum):
    """How much a session needs a fact; the lowest value is needed most."""

    REPLACES = 0
    """Replaces a statement of another memory, or is contradicted by one."""
    STANDING = 1
    """Opens a memory about the user or their preferences."""
    CHANGED = 2
    """States that something changed, and the present state."""
    OF_CHANGE = 3
    """Has a word of change, or perhaps replaces a statement of another memory."""
    OPENING = 4
    """Is the first fact of its memory."""
    FURTHER = 5
    EXPLAINING = 6
    """Says how to apply its memory, gives the reason for it, or says little without its context, as the row of a table does."""
    LEAST = 7
    """Is perhaps replaced by another fact."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact of a memory, for one line."""

    text: str
    need: Need
    likelihood: float = 0.0
    """Probability that it replaces another statement."""
    contrary: int = 0
    """Id of a memory that contradicts it while nobody has decided; 0 for none."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """Replacements and contradictions of memories' statements."""

    outdated: Mapping[int, Collection[str]] = field(default_factory=dict)
    """Replaced statements by memory id."""
    newer: Mapping[tuple[int, str], StatementChange] = field(default_factory=dict)
    """The change in which a statement (memory id and text) replaces, or perhaps replaces, another."""
    older: Collection[tuple[int, str]] = frozenset()
    """Statements that are perhaps replaced."""
    contrary: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """Id of the memory that contradicts a statement."""
    undecided: Mapping[int, int] = field(default_factory=dict)
    """Id of the memory that contradicts a whole memory."""

    @classmethod
    def of(cls, changes: Sequence[StatementChange], outdated: Mapping[int, Collection[str]]) -> "Doubts":
        """Sort the changes into newer, older and contradicted statements."""
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
    """Return the facts of a memory that still hold as far as is known. A session memory is one fact, without its files."""
    if memory.kind is Kind.SESSION:
        text = "\n".join(each for each in memory.content.splitlines() if not each.startswith(FILES))
        return [Fact(unwrapped(text).replace("\n", ". "), Need.OPENING)]
    found = {each.text: each for each in _parse_facts(memory, doubts)}
    facts = [each for each in found.values() if not any(text != each.text and text.startswith(each.text) for text in found)]
    opening = _extract_opening(memory)
    holds = not doubts.outdated.get(memory.id) and not any(each.contrary for each in facts)
    if holds and len(opening) <= _OPENING_LENGTH:
        return _lead_with(memory, opening, facts)
    if memory.kind in STANDING_KINDS:
        lead = ""
        for each in facts:
            if each.need is Need.EXPLAINING:
                continue
            if each.need is Need.LEAST or each.contrary or (lead and len(lead) + len(each.text) > _OPENING_LENGTH):
                break
            lead = f"{lead} {each.text}".strip()
        return _lead_with(memory, lead, facts) if lead else facts
    return facts


def is_curated(memory: Memory) -> bool:
    """Whether a memory comes from the canonical homes."""
    return memory.source is Source.PAI_LEARNING


def _lead_with(memory: Memory, text: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return `text` as the first fact, followed by the facts that it does not contain."""
    inside = [each for each in facts if each.text in text]
    first = min(inside, key=lambda each: each.need, default=Fact(text, Need.OPENING))
    need = min(first.need, Need.STANDING) if memory.kind in STANDING_KINDS else first.need
    return [replace(first, text=text, need=need), *(each for each in facts if each not in inside)]


def _extract_opening(memory: Memory) -> str:
    """Return a memory's text without its title; of a curated one the first paragraph, and the second if the first introduces it."""
    first, _, rest = memory.content.partition("\n\n")
    text = rest if rest and _is_title(first) else memory.content
    if is_curated(memory):
        if rest.casefold().startswith(first.casefold()):
            first, _, rest = rest.partition("\n\n")
        is_heading = first.rstrip().endswith(("?", ":")) or first.lstrip().startswith("#")
        text = f"{first} {rest.partition(chr(10) * 2)[0]}" if is_heading else first
    return _ALSO.sub("", _join_lines(text, unwrapped(memory.content)))


def _join_lines(part: str, whole: str) -> str:
    """Return a part of the unwrapped text `whole` on one line, without markup."""
    line = " ".join(part.split())
    begin = whole.replace("\n", " ").find(line)
    return strip_marks(whole[begin : begin + len(line)].replace("\n", ". "))


def _is_title(paragraph: str) -> bool:
    """Whether a leading paragraph is a title, not a sentence."""
    return not paragraph.rstrip().endswith((".", "!", "…"))


def _parse_facts(memory: Memory, doubts: Doubts) -> Iterator[Fact]:
    outdated, (first, _, rest) = doubts.outdated.get(memory.id, ()), memory.content.partition("\n\n")
    title = strip_marks(first) if rest and _is_title(first) and not is_curated(memory) else ""
    is_first, before, is_dropped, whole = True, "", False, unwrapped(memory.content)
    for _, statement, sentence in list_statements(memory.content):
        is_dropped = statement in outdated or (is_dropped and _depends_on_previous(statement))
        is_row = sentence.startswith("|")
        is_explaining = bool(pattern("replacements.explaining").match(statement))
        if is_dropped or statement == title or (is_explaining and outdated):
            continue
        if not is_explaining and pattern("replacements.advice").match(statement):
            continue
        line = _join_lines(sentence, whole)
        if introduces(statement):
            before = line
            continue
        key = memory.id, statement
        change = doubts.newer.get(key)
        likelihood = change.probability if change else 0.0
        if key in doubts.contrary or (change and change.verdict == "replaced"):
            need = Need.REPLACES
        elif key in doubts.older:
            need = Need.LEAST
        elif is_explaining or is_row:
            need = Need.EXPLAINING
        else:
            need = _rate_need(statement, likelihood, is_first=is_first)
            if need is Need.FURTHER and _says_little(statement):
                need = Need.EXPLAINING
            is_first = False
        text = _ALSO.sub("", line)
        if introduces(before) or (before and need < Need.OPENING and pattern("replacements.pronoun").match(text)):
            text = f"{before} {text}"
        yield Fact(text, need, likelihood, doubts.contrary.get(key, 0))
        before = line


def _says_little(statement: str) -> bool:
    """Whether a sentence needs the previous one to be understood: "The router does not.", "This is what we ship"."""
    return len(topic_words(statement)) < _LEAST_TOPIC_WORDS or bool(pattern("replacements.pronoun").match(statement))


def _depends_on_previous(statement: str) -> bool:
    """Whether a sentence makes no sense without the previous one."""
    starts = islice(_FIRST_WORDS.finditer(statement), _PRONOUN_WORDS)
    return any(pattern("replacements.pronoun").match(statement, found.start()) for found in starts)


def _rate_need(statement: str, likelihood: float, *, is_first: bool) -> Need:
    is_change = announces(statement) and not pattern("replacements.unreal").search(statement)
    is_present = bool(pattern("replacements.present").search(statement))
    if is_change and (likelihood or is_present):
        return Need.CHANGED
    # Some words of change, such as "takes" and "left", rarely indicate one.
    is_clear = is_change and bool(pattern("statements.change").search(statement))
    if likelihood or (is_clear and not pattern("replacements.history").search(statement)):
        return Need.OF_CHANGE
    return Need.OPENING if is_first else Need.FURTHER
