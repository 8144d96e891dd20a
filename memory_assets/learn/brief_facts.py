"""The facts of a memory for the brief, one per line, and how much a session needs each.

A fact that replaces another is needed most: an assistant that does not know it gets things wrong.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from heapq import nsmallest
from itertools import islice, pairwise
from typing import NamedTuple

from memory_assets.graph.outdated import StatementChange, strip_marks
from memory_assets.graph.statements import introduces, is_short, split_statements
from memory_assets.language.changes import announces
from memory_assets.language.english import pattern
from memory_assets.language.secrets import marks
from memory_assets.language.words import CODE_BLOCK, on_one_line, sentences, stems, topic_words, unwrapped
from memory_assets.learn.brief import ENDS, FILES, LIST_GOES_ON
from memory_assets.models import STANDING_KINDS, Kind, Memory, Source

_OPENING_LENGTH = 140
"""Characters up to which an opening is shown as one fact, and of the leading sentences of a standing memory."""
_ALSO = re.compile(r"^also,?\s+", re.IGNORECASE)
_FIRST_WORDS = re.compile(r"(?:(?<=\s)|^)\b")
_PRONOUN_WORDS = 3
"""A pronoun among so many first words refers to the previous sentence: "Before that it was Ivo"."""
_LEAST_TOPIC_WORDS = 2
"""Topic words of a sentence below which it says little alone: "The router does not."."""
_TELLING_TOPIC_WORDS, _SPECIFIC = 6, re.compile(r"[–—:;=+→≥≤]|\d")
"""Topic words of a description, and a sign or number in it, with which it tells something though it is no sentence."""
_LIST_LENGTH = 240
"""Characters up to which items of a list are joined."""
_LABEL_LENGTH = 60
"""Characters up to which an item above deeper ones is their label."""
_CODE_LENGTH, _CODE_LINES = 120, 2
"""Size up to which a block of code is told with the sentence that introduces it."""
_INTRODUCED_CODE = re.compile(rf"(?P<lead>^[^\n]*:[*_ \t]*\n\s*)?{CODE_BLOCK.pattern}", re.MULTILINE)
_NEW_WORDS = 0.3
"""Share of a sentence's topic words up to which it says nothing new."""
_MOST_FACTS = 80
"""Facts of one memory, the most needed, more than a project is told."""
_EXCHANGED = (1, 2)
"""Topic words by which two facts of one form differ."""
_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s")


class Need(IntEnum):
    """How much a session needs a fact; the lowest value is needed most."""

    REPLACES = 0
    """Replaces a statement of another memory, or is contradicted by one."""
    STANDING = 1
    """Opens a memory about the user or their preferences."""
    CHANGED = 2
    """States that something changed, and the present state; or is a sentence of its memory's description."""
    BINDING = 3
    """Forbids or demands something."""
    OF_CHANGE = 4
    """Has a word of change, or perhaps replaces a statement of another memory."""
    OPENING = 5
    """Is the first fact of its memory."""
    FURTHER = 6
    EXPLAINING = 7
    """Gives the reason for its memory, or says little without its context, as the row of a table does."""
    LEAST = 8
    """Is perhaps replaced by another fact."""

    @property
    def is_of_change(self) -> bool:
        """Whether it concerns a change, so that it stays a fact of its own though another one says much of it."""
        return self < Need.OPENING and self is not Need.BINDING


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
    """What introduces it in its memory, if it is the item of a list: the sentence before the list, or its heading, and labels."""
    place: int = 0


class _Sentence(NamedTuple):
    """A sentence in its memory."""

    statement: str
    """The text without markup, as changes name it."""
    line: str
    written: str
    begin: int
    heading: str
    lead: str
    follows: bool
    """Whether nothing but white space of a paragraph separates it from the sentence before."""
    indent: int

    @property
    def is_item(self) -> bool:
        return bool(_ITEM.match(self.written))


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

    def concern(self, memory: int, statement: str) -> bool:
        """Whether a statement replaces another, or may be replaced or contradicted."""
        key = memory, statement
        return key in self.newer or key in self.older or key in self.contrary


def list_facts(memory: Memory, doubts: Doubts) -> list[Fact]:
    """Return the facts of a memory that still hold as far as is known, without those of which a part is masked.

    A session memory is one fact, without its files.
    """
    if memory.kind is Kind.SESSION:
        text = "\n".join(each for each in memory.content.splitlines() if not each.startswith(FILES))
        return [] if marks(text) else [Fact(unwrapped(text).replace("\n", ". "), Need.OPENING)]
    told = _INTRODUCED_CODE.sub(_inline_code, memory.content).strip()
    return _join_items(_choose_facts(replace(memory, content=told or memory.content), doubts))


def _inline_code(block: re.Match[str]) -> str:
    """Return a short block of code behind the sentence that introduces it; of a long one only what stands before that sentence."""
    lead = block["lead"] or ""
    lines = [line.strip() for line in block[0].removeprefix(lead).strip().splitlines()[1:] if line.strip()]
    if lines and lines[-1].startswith(block["fence"]):
        lines.pop()
    code = "; ".join(lines)
    if lead and 0 < len(lines) <= _CODE_LINES and len(code) <= _CODE_LENGTH and "`" not in code:
        return f"{lead.rstrip()} `{code}`\n\n"
    return f"{' '.join(sentences(lead)[:-1])}\n\n"


def _choose_facts(memory: Memory, doubts: Doubts) -> list[Fact]:
    found = {each.text: each for each in _parse_facts(memory, doubts)}
    begun = {text for text, following in pairwise(sorted(found)) if following.startswith(text)}
    most = nsmallest(_MOST_FACTS, (each for text, each in found.items() if text not in begun), key=lambda each: each.need)
    facts = list(_drop_repeated(sorted(most, key=lambda each: each.place)))
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
            lead = f"{lead}{'.' if lead and not lead.endswith(ENDS) else ''} {each.text}".strip()
        return _lead_with(memory, lead, facts) if lead else facts
    return facts


def _drop_repeated(facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the facts, except those of which an earlier one has most topic words and all numbers and names.

    A fact with another word in the place of an earlier one's says something else, and so does an item of a list with any new word.
    """
    said: list[frozenset[str]] = []
    for each in facts:
        stems_of = {word: stems(word) or frozenset((word,)) for word in topic_words(each.text)}
        own = frozenset().union(*stems_of.values())

        def repeats(other: frozenset[str]) -> bool:
            new = [word for word, stemmed in stems_of.items() if other.isdisjoint(stemmed)]  # noqa: B023 - called in this turn
            is_other = new and (each.lead or len(own - other) == len(other - own) in _EXCHANGED)  # noqa: B023
            is_like = len(new) <= _NEW_WORDS * len(stems_of) and all(word in each.text and word.isalpha() for word in new)  # noqa: B023
            return is_like and not is_other

        if each.need.is_of_change or not any(map(repeats, said)):
            yield each
        if not each.lead:
            said.append(own)


def _join_items(facts: Sequence[Fact]) -> list[Fact]:
    """Join items of one list to facts with what introduces them, unless one of them is needed more than the others."""
    joined: list[Fact] = []
    for each in facts:
        last = joined[-1] if joined else each
        if joined and each.lead and each.lead == last.lead and not (each.need.is_of_change or last.need.is_of_change):
            if len(last.text) + len(each.text) <= _LIST_LENGTH:
                text = f"{last.text.rstrip('.;,')}; {each.text}"
                joined[-1] = replace(last, text=text, need=min(last.need, each.need))
                continue
            joined[-1] = replace(last, text=f"{last.text.rstrip('.;,')}{LIST_GOES_ON}")
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
    return [replace(first, text=text, need=need, lead=""), *(each for each in facts if each not in inside)]


def _extract_opening(memory: Memory) -> str:
    """Return a memory's text without its title; of a curated one the first paragraph, and the second if the first introduces it."""
    first, _, rest = memory.content.partition("\n\n")
    text = rest if rest and _is_title(first) else memory.content
    if is_curated(memory):
        if rest.casefold().startswith(first.casefold()):
            first, _, rest = rest.partition("\n\n")
        is_heading = first.rstrip().endswith(("?", ":")) or first.lstrip().startswith("#")
        text = f"{first} {rest.partition(chr(10) * 2)[0]}" if is_heading else first
    whole = unwrapped(memory.content)
    return _ALSO.sub("", _join_lines(text, whole, whole.replace("\n", " "))[0])


def _join_lines(part: str, whole: str, flat: str, begin: int = 0) -> tuple[str, int]:
    """Return a part of the unwrapped text `whole` on one line without markup, and where it ends.

    `flat` is the text with spaces for line breaks; the part stands behind `begin`.
    """
    line = on_one_line(part)
    found = flat.find(line, begin)
    end = found + len(line) if found >= 0 else begin
    return strip_marks(whole[found:end].replace("\n", ". ") if found >= 0 else line), end


def _is_title(paragraph: str) -> bool:
    """Whether a leading paragraph is a title, not a sentence."""
    return not (paragraph.rstrip().endswith((".", "!", "…")) or pattern("replacements.asserting").match(strip_marks(paragraph)))


def _parse_facts(memory: Memory, doubts: Doubts) -> Iterator[Fact]:
    outdated, (first, _, rest) = doubts.outdated.get(memory.id, ()), memory.content.partition("\n\n")
    described = len(first) if rest and not is_curated(memory) else -1
    hooks = first.find("\n") if described > 0 else -1
    is_first, before, is_dropped = True, "", False
    for place, each in enumerate(_read_sentences(memory, first if described > 0 else "", doubts)):
        statement = each.statement
        is_dropped = statement in outdated or bool(marks(statement)) or (is_dropped and _depends_on_previous(statement))
        is_row = each.written.startswith("|")
        is_explaining = bool(pattern("replacements.explaining").match(statement))
        is_applying = bool(pattern("replacements.applying").match(statement))
        is_description, is_hook = each.begin < described, 0 <= hooks < each.begin < described  # a hook says the same again
        is_label = is_description and _is_title(statement)
        if is_label and not (_SPECIFIC.search(statement) and len(topic_words(statement)) >= _TELLING_TOPIC_WORDS):
            continue
        if is_dropped or (outdated and (is_explaining or is_applying)):
            continue
        if not (is_explaining or is_applying) and pattern("replacements.advice").match(statement):
            continue
        previous, before = before, each.line
        if introduces(statement):
            continue
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
            if need is Need.FURTHER and not each.lead and len(topic_words(statement)) < _LEAST_TOPIC_WORDS:
                need = Need.EXPLAINING
            is_first = False
        text = pattern("replacements.applying").sub("", _ALSO.sub("", each.line), 1)
        refers = each.follows and _depends_on_previous(statement)
        if not each.is_item and (refers or introduces(previous)):
            if refers and need > Need.OPENING:
                continue
            text = f"{previous} {text}".strip()
        yield Fact(text, need, likelihood, doubts.contrary.get(key, 0), each.lead, place)


def _read_sentences(memory: Memory, description: str, doubts: Doubts) -> Iterator[_Sentence]:
    """Yield the sentences of a memory; items of lists with what introduces them, and without their labels.

    What is replaced or masked introduces nothing, and an item that replaces something or is in doubt is no label.
    """
    content, whole, end, told = memory.content, unwrapped(memory.content), 0, 0
    flat = whole.replace("\n", " ")
    found: list[_Sentence] = []
    for heading, statement, written in split_statements(content):
        begin = max(content.find(written, end), end)  # it is not found if its lines are indented
        follows = content[end:begin] in {" ", "\n"}
        end = begin + len(written)
        line, told = _join_lines(written, whole, flat, told)
        indent = begin - content.rfind("\n", 0, begin)
        found.append(_Sentence(statement, line, written, begin, heading, "", follows, indent))
    introduction, section, labels = "", "", dict[int, str]()
    for each, following in pairwise([*found, None]):
        assert each
        if each.heading != section or not (each.is_item or each.follows):
            introduction, section, labels = "", each.heading, {}
        is_unfit = each.statement in doubts.outdated.get(memory.id, ()) or marks(each.statement)
        if not each.is_item:
            if introduces(each.statement):
                introduction = "" if is_unfit else each.line
            if not is_short(each.statement):
                yield each
            continue
        labels = {depth: label for depth, label in labels.items() if depth < each.indent}
        is_above = following is not None and following.is_item and following.indent > each.indent
        is_label = len(each.statement) <= _LABEL_LENGTH and not each.statement.endswith((".", "!"))
        if is_above and is_label and not doubts.concern(memory.id, each.statement):
            labels[each.indent] = "" if is_unfit else f"{each.statement.rstrip(':')}:"
            continue
        lead = introduction or _as_lead(each.heading, f"{description} {memory.title}")
        yield each._replace(lead=" ".join(filter(None, (lead, *labels.values()))))


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
    if not likelihood and pattern("replacements.binding").search(statement):
        return Need.BINDING
    # Some words of change, such as "takes" and "left", rarely indicate one.
    is_clear = is_change and bool(pattern("statements.change").search(statement))
    if likelihood or (is_clear and not pattern("replacements.history").search(statement)):
        return Need.OF_CHANGE
    return Need.OPENING if is_first else Need.FURTHER
