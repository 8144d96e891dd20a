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
from memory_assets.language.secrets import marks
from memory_assets.language.words import topic_words, unwrapped, without_code
from memory_assets.learn.brief import FILES
from memory_assets.models import STANDING_KINDS, Kind, Memory, Source

_OPENING_LENGTH = 140
"""Characters up to which an opening is shown as one fact, and of the leading sentences of a standing memory."""
_ALSO = re.compile(r"^also,?\s+", re.IGNORECASE)
_FIRST_WORDS = re.compile(r"(?:(?<=\s)|^)\b")
_PRONOUN_WORDS = 3
"""A pronoun among so many first words refers to the previous sentence: "Before that it was Ivo"."""
_LEAST_TOPIC_WORDS = 2
"""Topic words of a sentence below which it says little alone: "The router does not."."""
_TELLING_TOPIC_WORDS = 6
"""Topic words of a description from which it tells something, though it is no sentence."""
_LIST_LENGTH = 240
"""Characters up to which items of a list are joined."""
_NEW_WORDS = 0.3
"""Share of a sentence's topic words up to which it says nothing new."""
_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s")


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
    """Gives the reason for its memory, or says little without its context, as the row of a table does."""
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
    lead: str = ""
    """What introduces it in its memory, if it is the item of a list: the sentence before the list, or its heading."""


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
    """Return the facts of a memory that still hold as far as is known, without those of which a part is masked.

    A session memory is one fact, without its files.
    """
    if memory.kind is Kind.SESSION:
        text = "\n".join(each for each in memory.content.splitlines() if not each.startswith(FILES))
        return [] if marks(text) else [Fact(unwrapped(text).replace("\n", ". "), Need.OPENING)]
    return _join_items(_choose_facts(replace(memory, content=without_code(memory.content).strip() or memory.content), doubts))


def _choose_facts(memory: Memory, doubts: Doubts) -> list[Fact]:
    found = {each.text: each for each in _parse_facts(memory, doubts)}
    facts = [each for each in found.values() if not any(text != each.text and text.startswith(each.text) for text in found)]
    facts = list(_drop_repeated(facts))
    opening = _extract_opening(memory)
    holds = not (doubts.outdated.get(memory.id) or any(each.contrary for each in facts) or marks(opening))
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


def _drop_repeated(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the facts, except those of which an earlier one has most topic words and all numbers and names."""
    said: list[set[str]] = []
    for each in facts:
        topics = set(topic_words(each.text))
        unsaid = (topics - other for other in said)
        if each.need < Need.OPENING or not any(
            len(new) <= _NEW_WORDS * len(topics) and all(word in each.text and word.isalpha() for word in new) for new in unsaid
        ):
            yield each
        said.append(topics)


def _join_items(facts: Sequence[Fact]) -> list[Fact]:
    """Join items of one list to a fact with what introduces them, unless one of them is needed more than the others."""
    joined: list[Fact] = []
    for each in facts:
        last = joined[-1] if joined else each
        may_join = joined and each.lead and each.lead == last.lead and min(each.need, last.need) >= Need.OPENING
        if may_join and len(last.text) + len(each.text) <= _LIST_LENGTH:
            joined[-1] = replace(last, text=f"{last.text.rstrip('.;,')}; {each.text}", need=min(last.need, each.need))
        else:
            joined.append(replace(each, text=f"{each.lead} {each.text}") if each.lead else each)
    return joined


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
    return not (paragraph.rstrip().endswith((".", "!", "…")) or pattern("replacements.asserting").match(strip_marks(paragraph)))


def _parse_facts(memory: Memory, doubts: Doubts) -> Iterator[Fact]:
    outdated, (first, _, rest) = doubts.outdated.get(memory.id, ()), memory.content.partition("\n\n")
    described = len(first) if rest and not is_curated(memory) else -1
    hooks = first.find("\n") if described > 0 else -1
    is_first, before, is_dropped, whole = True, "", False, unwrapped(memory.content)
    introduction, section, end = "", "", 0
    for heading, statement, sentence in list_statements(memory.content):
        begin = max(memory.content.find(sentence, end), end)  # it is not found if its lines are indented
        follows = memory.content[end:begin] in {" ", "\n"}
        end = begin + len(sentence)
        if heading != section:
            introduction, section = "", heading
        is_dropped = statement in outdated or bool(marks(statement)) or (is_dropped and _depends_on_previous(statement))
        is_row = sentence.startswith("|")
        is_explaining = bool(pattern("replacements.explaining").match(statement))
        is_applying = bool(pattern("replacements.applying").match(statement))
        is_description, is_hook = begin < described, 0 <= hooks < begin < described  # a hook says the same again
        is_label = is_description and _is_title(statement)
        if is_label and len(topic_words(statement)) < _TELLING_TOPIC_WORDS:
            continue
        if is_dropped or (outdated and (is_explaining or is_applying)):
            continue
        if not (is_explaining or is_applying) and pattern("replacements.advice").match(statement):
            continue
        line = _join_lines(sentence, whole)
        if introduces(statement):
            introduction = before = line
            continue
        is_item = bool(_ITEM.match(sentence))
        key = memory.id, statement
        change = doubts.newer.get(key)
        likelihood = change.probability if change else 0.0
        if key in doubts.contrary or (change and change.verdict == "replaced"):
            need = Need.REPLACES
        elif key in doubts.older:
            need = Need.LEAST
        elif is_explaining or is_row or (is_hook and not is_first):
            need = Need.EXPLAINING
        else:
            need = _rate_need(statement, likelihood, is_first=is_first or is_description)
            need = need if is_label or not is_description else min(need, Need.CHANGED)
            if need is Need.FURTHER and len(topic_words(statement)) < _LEAST_TOPIC_WORDS:
                need = Need.EXPLAINING
            is_first = False
        text = pattern("replacements.applying").sub("", _ALSO.sub("", line), 1)
        lead = (introduction or _as_lead(heading, f"{first if described > 0 else ''} {memory.title}")) if is_item else ""
        refers = follows and _depends_on_previous(statement)
        previous, before = before, line
        if not is_item and (refers or introduces(previous)):
            if refers and need > Need.OPENING:
                continue
            text = f"{previous} {text}"
        yield Fact(text, need, likelihood, doubts.contrary.get(key, 0), lead)


def _as_lead(heading: str, title: str) -> str:
    """Return a heading as an introduction; empty without one, and for one that repeats the title."""
    named = strip_marks(heading).rstrip(":")
    return f"{named}:" if named and named.casefold() not in title.casefold() else ""


def _depends_on_previous(statement: str) -> bool:
    """Whether a sentence makes no sense without the previous one."""
    if pattern("replacements.concluding").match(statement):
        return True
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
