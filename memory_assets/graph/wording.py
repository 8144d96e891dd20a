"""Relations that a memory's wording states unambiguously.

The module reads cues beside a `[[name]]` link, preferences between two named things, and openings that refer to the previous memory.
Only surface patterns count, sentence by sentence, each with the confidence that its wording earns: "led to [[x]]" counts for more
than a link in a paragraph headed "Why". Doubts, negations and questions yield nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from memory_assets.language.english import pattern, table
from memory_assets.language.entity_types import WRITTEN, EntityType
from memory_assets.language.words import WIKI_LINK, prose_sentences
from memory_assets.models import Entity, RelationType

TargetKind = Literal["link", "previous", "entity"]


@dataclass(frozen=True, slots=True)
class Cue:
    """One relation that a memory's text states."""

    relation: RelationType
    target_kind: TargetKind
    target: str
    """The link's name, the entity's text, or "" for the previous memory of the session."""
    confidence: float
    sentence: str
    """The sentence that states the relation, shown as the reason in a path."""
    outgoing: bool = True
    """Whether the relation leads from this memory to the target, not back."""
    other: str = ""
    """For a relation between two entities: the second one."""


_HEADING = re.compile(r"\s*(?:[-*>]\s*)?(?:\*\*|#)")
_MARKUP = re.compile(r"\*\*|__|^[\s>#-]+", re.MULTILINE)
_MAX_SHOWN_CHARS = 300
_REACH = 200
"""Characters beside a link that may speak of it, a bound for lines with thousands of links."""

_WHY_CONFIDENCE = 0.6
_LATER_WHY_CONFIDENCE = 0.4
"""A link in the first sentence under "Why", and in one that follows it."""

_NOT_CHOSEN = WRITTEN | {EntityType.PERSON, EntityType.LOC, EntityType.ORG, EntityType.EVENT}
"""Types that a phrase of choice says nothing of: one chooses tools and products; a person, place or team is not preferred by a move."""


@cache
def _phrases(place: str) -> list[tuple[re.Pattern[str], RelationType, bool, float]]:
    """Return the phrases before or after a link: pattern, relation, whether it is outgoing, and confidence."""
    form = rf"\b(?:%s){table('relations.between')}" if place == "before_link" else "%s"
    return [
        (re.compile(form % each["words"], re.IGNORECASE), RelationType(each["relation"]), each["outgoing"], each["confidence"])
        for each in table(f"relations.{place}")
    ]


@cache
def _preferences() -> list[tuple[re.Pattern[str], frozenset[EntityType], float]]:
    """Return the phrases of preference: pattern, excluded entity types, and confidence."""
    return [
        (re.compile(each["words"], re.IGNORECASE), _NOT_CHOSEN if each["chosen_only"] else WRITTEN, each["confidence"])
        for each in table("relations.preferences")
    ]


def retracts(text: str) -> bool:
    """Whether a new version says that the previous content no longer holds."""
    return bool(pattern("relations.retraction").search(text))


def find_cues(text: str, entities: Sequence[Entity] = ()) -> list[Cue]:
    """Return each relation that a text states by its wording once, with its highest confidence.

    A preference counts only between two of the entities that the text names.
    """
    found: dict[tuple[RelationType, str, str, str, bool], Cue] = {}
    parts = prose_sentences(text)
    as_reason = 0.0
    for number, sentence in enumerate(parts):
        if pattern("relations.why").match(sentence):
            as_reason = _WHY_CONFIDENCE
        elif _HEADING.match(sentence):
            as_reason = 0.0
        cues = [*_link_cues(sentence, as_reason), *_preference_cues(sentence, entities)]
        as_reason = min(as_reason, _LATER_WHY_CONFIDENCE)
        if number == 0 and pattern("relations.previous_cause").match(sentence):
            cues.append(Cue(RelationType.LEADS_TO, "previous", "", 0.5, _shorten(sentence), outgoing=False))
        for cue in cues:
            key = (cue.relation, cue.target_kind, cue.target.lower(), cue.other.lower(), cue.outgoing)
            if key not in found or found[key].confidence < cue.confidence:
                found[key] = cue
    return list(found.values())


def _link_cues(sentence: str, as_reason: float) -> Iterator[Cue]:
    plain = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), sentence)
    shown = _shorten(sentence)
    for link in WIKI_LINK.finditer(plain):
        before = plain[max(0, link.start() - _REACH) : link.start()]
        name = link[1].strip()
        stated = _relation_beside(before, plain[link.end() : link.end() + _REACH])
        if stated:
            relation, outgoing, confidence = stated
            yield Cue(relation, "link", name, confidence, shown, outgoing)
        elif as_reason and not pattern("relations.doubt").search(before):
            yield Cue(RelationType.LEADS_TO, "link", name, as_reason, shown, outgoing=False)


def _relation_beside(before: str, after: str) -> tuple[RelationType, bool, float] | None:
    clause = re.split(r"[;:(]\s|,\s(?:but|and|which)\s", before)[-1]
    for phrase, relation, outgoing, confidence in _phrases("after_link"):
        if phrase.match(after) and not (relation is RelationType.INVALIDATED_BY and pattern("relations.still_true").match(after)):
            return relation, outgoing, confidence
    for phrase, relation, outgoing, confidence in _phrases("before_link"):
        cue = phrase.search(clause)
        if cue:
            preceding = clause[: cue.start()]
            doubted = pattern("relations.negation").search(preceding) or pattern("relations.doubt").search(preceding[-25:])
            return None if doubted else (relation, outgoing, confidence)
    return None


def _preference_cues(sentence: str, entities: Sequence[Entity]) -> Iterator[Cue]:
    if len(entities) < 2:
        return
    plain = _MARKUP.sub("", sentence)
    for phrase, excluded, confidence in _preferences():
        choices = [entity for entity in entities if entity.type not in excluded]
        for match in phrase.finditer(plain):
            if pattern("relations.doubt").search(plain[max(0, match.start() - 40) : match.start()]):
                continue
            one, two = _entity_beside(match["one"], choices, closes=True), _entity_beside(match["two"], choices, closes=False)
            if one and two and one.text.lower() != two.text.lower():
                yield Cue(
                    RelationType.PREFERS_OVER, "entity", one.text, confidence, _shorten(sentence), outgoing=True, other=two.text
                )


def _entity_beside(text: str, entities: Sequence[Entity], *, closes: bool) -> Entity | None:
    """Return the longest entity at the start of the text, or at its end if `closes`: the words of preference stand beside it."""
    lowered = text.lower().strip(" \"'`*_.,;:!()[]")
    fitting = []
    for entity in entities:
        name = re.escape(entity.text.lower())
        if re.search(rf"(?:^|\W){name}$" if closes else rf"^(?:the |an? )?{name}(?:\W|$)", lowered):
            fitting.append(entity)
    return max(fitting, key=lambda entity: len(entity.text), default=None)


def _shorten(sentence: str) -> str:
    words = " ".join(_MARKUP.sub("", sentence).split())
    return words if len(words) <= _MAX_SHOWN_CHARS else words[: _MAX_SHOWN_CHARS - 1] + "…"
