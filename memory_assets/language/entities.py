"""The entities that a text mentions: known names, spellings such as paths, and guesses of a statistical model or from capitals.

A certain mention wins over every guess that it overlaps, except that a guessed organisation or event may contain a known name
("Redis Labs", "Kafka Summit"). A single unknown name that the model labels a place or an organisation becomes a NAME: a missing type can
be corrected later, a wrong one misleads.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memory_assets.language.english import word_set
from memory_assets.language.entity_types import ADDRESSES, STATISTICAL_TYPES, WRITTEN, EntityType, Mention
from memory_assets.language.gazetteer import Certainty, Entry, Gazetteer
from memory_assets.language.reading import Inset, Part
from memory_assets.language.surface import find_surface
from memory_assets.language.verbs import COMMON, acts_or_owns, infinitive, is_helped, is_used_as_name
from memory_assets.language.words import CAPITALS
from memory_assets.models import Entity

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

_CAPITALISED = rf"[{CAPITALS}][\w'’-]*"
_NAME = rf"[{CAPITALS}][\w-]+"
_CAPITALISED_RUN = re.compile(rf"(?<![\w@#/.$-]){_CAPITALISED}(?: {_CAPITALISED}){{1,3}}(?![\w/(]|\.\w)")
_QUOTED = re.compile(rf"(?<!\w)([\"'“‘])([{CAPITALS}][^\"'“”‘’\n]{{2,50}})[\"'”’](?!\w)")
_PROJECT = re.compile(
    rf"\b[Pp]roject (?P<after>{_NAME}(?: {_NAME}){{0,2}})"
    rf"|(?<![\w@#/.-])(?P<before>{_NAME}(?: {_NAME}){{0,2}})"
    r" (?:project|repo|repository|codebase|monorepo)\b"
)
_PLACE_OF = re.compile(rf"\b(?:in|near|from|to|at) (?P<place>[{CAPITALS}][\w.-]+(?: [{CAPITALS}][\w.-]+)?), (?=[{CAPITALS}])")
_FAMILIES = frozenset({EntityType.TOOL, EntityType.SERVICE, EntityType.DATABASE})
_LABEL_END = re.compile(r"\n|:\s|\s[–—|-]\s|\|")
_LETTERS = re.compile(r"[^\W\d_][\w'’-]*")
_ENDS_PROSE = re.compile(r"[.!?]\s*$")
_LONG_WORD = 4
_CODE_NAME = re.compile(r"_|\(|=|^[a-z]+[A-Z]|\d{3,}|(?:Error|Exception|Warning)$")

_CAMEL_CASE = re.compile(r"^(?!Mc|Mac|De|Di|La|Le|O')[A-Z][a-z]+[A-Z]")

_TYPE_BY_HEAD = {
    word: kind for kind in (EntityType.ORG, EntityType.LOC, EntityType.EVENT) for word in word_set(f"names.head_{kind.lower()}")
}
"""Last word of a capitalised name -> its type, which overrides the model."""


def find_mentions(doc: "Doc", gazetteer: Gazetteer, insets: Sequence[Inset] = ()) -> list[Mention]:
    """Return the mentions in `doc`, left to right, without overlaps in prose; every name in a piece of code spans that whole piece."""
    known = list(_known(doc, gazetteer))
    certain = _drop_overlaps(
        [
            *_places(doc, gazetteer),
            *(mention for mention in known if mention.certain),
            *_spelt(insets, gazetteer),
            *_projects(doc, gazetteer),
            *_from_context(doc, gazetteer),
        ]
    )
    guesses = _drop_overlaps(
        [
            *(mention for mention in known if not mention.certain),
            *_statistical(doc, gazetteer),
            *_quoted(doc, gazetteer),
            *_capitalised(doc, gazetteer),
        ]
    )
    opaque = [inset for inset in insets if inset.opaque]
    kept = [guess for guess in guesses if _is_tenable(guess, certain) and not any(_overlap(guess, inset) for inset in opaque)]
    uncovered = [mention for mention in certain if not any(_overlap(mention, guess) for guess in kept)]
    return sorted([*uncovered, *kept, *_mentions_in_code(insets, gazetteer)], key=lambda mention: mention.start)


def find_listed(part: Part, gazetteer: Gazetteer) -> list[Mention]:
    """Return the certain mentions in a part that is not English: listed names as they are written, and what spelling shows."""
    listed = [
        hit.mention
        for hit in gazetteer.find(part.text)
        if not hit.opens and (hit.entry.certainty is Certainty.CERTAIN or not hit.mention.text.islower())
    ]
    spelt = _spelt(part.insets, gazetteer)
    return sorted(
        [*_drop_overlaps([*spelt, *listed]), *_mentions_in_code(part.insets, gazetteer)], key=lambda mention: mention.start
    )


def _spelt(insets: Iterable[Inset], gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield what spelling shows; a listed name that is spelt like a file is that name ("Node.js")."""
    for inset in insets:
        if inset.mention:
            yield replace(inset.mention, type=gazetteer.type_of(inset.written) or inset.mention.type)


def _mentions_in_code(insets: Iterable[Inset], gazetteer: Gazetteer) -> Iterator[Mention]:
    for inset in insets:
        if inset.is_code:
            for mention in find_in_code(inset.written, gazetteer):
                yield replace(mention, start=inset.start, end=inset.end)


def find_in_code(code: str, gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield the certain mentions in code: software and the graph's names, files, variables and addresses."""
    for hit in gazetteer.find(code):
        if hit.entry.certainty in {Certainty.CERTAIN, Certainty.KNOWN}:
            yield hit.mention
    for mention in find_surface(code):
        if mention.type in ADDRESSES:
            yield mention


def as_entities(mentions: Sequence[Mention]) -> tuple[Entity, ...]:
    """Return each mentioned name once, in order, under one type: that of a certain mention, else the first other than NAME."""
    ranked = sorted(mentions, key=lambda mention: (not mention.certain, mention.type == EntityType.NAME))
    types: dict[str, EntityType] = {}
    for mention in ranked:
        types.setdefault(mention.text.casefold(), mention.type)
    names: dict[str, str] = {}
    for mention in mentions:
        names.setdefault(mention.text.casefold(), mention.text)
    return tuple(Entity(text, types[key]) for key, text in names.items())


def _known(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    for hit in gazetteer.find(doc.text):
        span = doc.char_span(hit.mention.start, hit.mention.end, alignment_mode="expand")
        lower = hit.mention.text.islower() and hit.entry.certainty in {Certainty.KNOWN, Certainty.GIVEN}
        if span is None or (lower and not _is_name_in_lower_case(span, hit.entry)):
            continue
        if not hit.opens or _is_name_at_start(span):
            yield _with_surname(hit.mention, span, gazetteer)


def _with_surname(mention: Mention, span: "Span", gazetteer: Gazetteer) -> Mention:
    """Extend a software name by the capitalised word that names a part of it: "Docker Desktop", "Redis Streams"."""
    doc, end = span.doc, span.end
    if not mention.certain or mention.type not in _FAMILIES or not mention.text[0].isupper():
        return mention
    if mention.end != span.end_char or end == len(doc):
        return mention
    word = doc[end]
    if not (word.is_title and word.pos_ == "PROPN" and doc[end - 1].whitespace_) or word.lower_ in gazetteer.ignored:
        return mention
    if any(hit.entry.certainty in {Certainty.CERTAIN, Certainty.GIVEN, Certainty.KNOWN} for hit in gazetteer.find(word.text)):
        return mention
    whole = doc[span.start : end + 1]
    return Mention(mention.start, whole.end_char, doc.text[mention.start : whole.end_char], mention.type)


def _is_name_at_start(span: "Span") -> bool:
    """Return whether a sentence's first word, which has a capital in any case, is used as a name."""
    follower = span.doc[span.end] if span.end < len(span.doc) else None
    if follower is not None and follower.pos_ in {"DET", "PRON"}:
        return False
    return span[0].pos_ == "PROPN" or span[0].ent_type_ != ""


def _is_name_in_lower_case(span: "Span", entry: Entry) -> bool:
    """Return whether a name typed without capitals is used as a name ("asked grace", not "with a certain grace")."""
    if len(span) > 1:
        return True
    if span.start > 0 and span.doc[span.start - 1].pos_ in {"DET", "ADJ", "NUM"}:
        return False
    return span[0].pos_ in ({"PROPN", "NOUN"} if entry.certainty is Certainty.KNOWN else {"PROPN"})


def _projects(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield the project in "Project Atlas" and "the Atlas repository"."""
    for match in _PROJECT.finditer(doc.text):
        group = match.lastgroup or "after"
        span = _trim(doc, doc.char_span(match.start(group), match.end(group)), gazetteer)
        if span is not None and not gazetteer.type_of(span.text):
            yield Mention(span.start_char, span.end_char, span.text, EntityType.PROJECT)


def _places(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield the town in "in Sofia, Bulgaria"."""
    for match in _PLACE_OF.finditer(doc.text):
        after = next(gazetteer.find(doc.text[match.end() :]), None)
        if after and after.mention.start == 0 and after.mention.type == EntityType.LOC:
            yield Mention(*match.span("place"), match["place"], EntityType.LOC)


def _statistical(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    for entity in doc.ents:
        kind = STATISTICAL_TYPES.get(entity.label_)
        span = _trim(doc, entity, gazetteer) if kind else None
        if kind is None or span is None:
            continue
        if span.text.isupper():  # abbreviations that no list knows are mostly jargon
            continue
        if kind == EntityType.PERSON and _is_option(span):
            continue
        if len(span) > 1:
            kind = _TYPE_BY_HEAD.get(span[-1].text, kind)
        elif _CAMEL_CASE.search(span.text):  # "OneDrive": a made-up name, of unknown type
            kind = EntityType.NAME
        elif _opens_sentence(doc, span.start):
            if not is_used_as_name(span) or kind == EntityType.LOC:
                continue
        elif kind == EntityType.PERSON and not acts_or_owns(span):
            if any(token.text == span.text.lower() for token in doc):  # "the Rapier (a rapier build)"
                continue
            if span.end < len(doc) and doc[span.end].pos_ == "NOUN":  # "the Lego bricks"
                kind = EntityType.NAME
        elif kind in {EntityType.LOC, EntityType.ORG}:
            kind = EntityType.NAME
        yield Mention(span.start_char, span.end_char, span.text, kind, certain=False)


def _is_option(span: "Span") -> bool:
    """Return whether a guessed person is one of several words between slashes: "Lift / Sail"."""
    return "/" in {token.text for token in span.doc[max(0, span.start - 1) : span.end + 1]}


def _from_context(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield names of animals ("our rabbit Flopsy", "Sparkle the cat") and of people who are helped ("helped Jeffery debug")."""
    for token in doc[:-1]:
        after = token.nbor()
        follower = after.nbor() if after.i + 1 < len(doc) else None
        if token.lower_ in word_set("names.animals") or is_helped(after):
            name = after
        elif after.lower_ == "the" and follower is not None and follower.lower_ in word_set("names.animals"):
            name = token
        else:
            continue
        if name.is_title and name.is_alpha and name.lower_ not in gazetteer.ignored | COMMON and not gazetteer.type_of(name.text):
            yield Mention(name.idx, name.idx + len(name), name.text, EntityType.PERSON, certain=True)


def _capitalised(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield runs of two to four capitalised words, without a sentence's first word unless it may begin a name.

    In a heading, label or cell with capitals throughout they show nothing.
    """
    for match in _CAPITALISED_RUN.finditer(doc.text):
        if _is_in_title_case(doc.text, *match.span()):
            continue
        span = _trim(doc, doc.char_span(*match.span(), alignment_mode="contract"), gazetteer)
        if span is not None and " " in span.text and not span.text.isupper():
            kind = _TYPE_BY_HEAD.get(span[-1].text, EntityType.NAME)
            yield Mention(span.start_char, span.end_char, span.text, kind, certain=False)


def _is_in_title_case(text: str, start: int, end: int) -> bool:
    """Return whether all long words are capitalised between the line breaks, colons, dashes or bars around a span."""
    begin = max((found.end() for found in _LABEL_END.finditer(text, 0, start)), default=0)
    after = _LABEL_END.search(text, end)
    around = text[begin : after.start() if after else len(text)]
    is_prose = _ENDS_PROSE.search(around)
    return not is_prose and all(word[0].isupper() or len(word) < _LONG_WORD for word in _LETTERS.findall(around))


def _quoted(doc: "Doc", gazetteer: Gazetteer) -> Iterator[Mention]:
    """Yield quoted titles: at most five words, the longer ones capitalised. Other quotations are speech."""
    for match in _QUOTED.finditer(doc.text):
        words = match[2].split()
        is_title = all(word[0].isupper() or len(word) < 4 for word in words) and match[2][-1] not in ".!?,"
        if is_title and len(words) <= 5 and match[2].lower() not in gazetteer.ignored:
            yield Mention(*match.span(2), match[2], EntityType.NAME, certain=False)


def _trim(doc: "Doc", span: "Span | None", gazetteer: Gazetteer) -> "Span | None":
    """Strip words that cannot begin or end a name; return None if the rest is an ignored word, a number or an identifier."""
    if span is None:
        return None
    start, end = span.start, span.end
    while start < end and not _may_begin(doc, start, gazetteer):
        start += 1
    while end > start and (not (doc[end - 1].text[0].isupper() or doc[end - 1].text[0].isdigit()) or _is_shouted(doc[end - 1])):
        end -= 1
    name = doc[start:end]
    if start == end or _CODE_NAME.search(name.text) or name.text.lower() in gazetteer.ignored:
        return None
    return None if all(token.lower_ in gazetteer.ignored or token.is_digit for token in name) else name


def _is_shouted(token: "Token") -> bool:
    """Return whether capitals only stress a word: "MUST"."""
    return token.is_upper and len(token) > 2 and (token.is_stop or infinitive(token.lower_) in COMMON)


def _may_begin(doc: "Doc", index: int, gazetteer: Gazetteer) -> bool:
    token = doc[index]
    if not token.text[0].isupper():
        return False
    if not _opens_sentence(doc, index):
        return True
    follower = doc[index + 1] if index + 1 < len(doc) else None
    if token.lower_ in gazetteer.ignored or (follower is not None and follower.pos_ == "DET"):
        return False
    is_first_of_two = follower is not None and follower.is_title and follower.pos_ == "PROPN"
    return token.pos_ == "PROPN" or (is_first_of_two and token.pos_ == "NOUN")


def _opens_sentence(doc: "Doc", index: int) -> bool:
    return index == 0 or bool(doc[index].is_sent_start) or doc[index - 1].text[-1] in ".!?:\n-*>\"'“("


def _drop_overlaps(mentions: Iterable[Mention]) -> list[Mention]:
    """Drop overlaps: the longest mention wins, and among equals the first in the list."""
    kept: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: mention.start - mention.end):
        if not any(_overlap(mention, other) for other in kept):
            kept.append(mention)
    return kept


def _overlap(one: Mention, other: Mention | Inset) -> bool:
    return one.start < other.end and other.start < one.end


def _is_tenable(guess: Mention, certain: list[Mention]) -> bool:
    """Return whether a guess overlaps nothing certain, or is an organisation or event with words beside the certain mentions in it."""
    touched = [mention for mention in certain if _overlap(guess, mention)]
    rest = [letter for at, letter in enumerate(guess.text, guess.start) if not any(one.start <= at < one.end for one in touched)]
    return not touched or (
        guess.type in {EntityType.ORG, EntityType.EVENT}
        and all(mention.type not in WRITTEN for mention in touched)
        and all(guess.start <= mention.start and mention.end <= guess.end for mention in touched)
        and any(map(str.isalpha, rest))
    )
