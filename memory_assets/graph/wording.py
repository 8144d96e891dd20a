"""What a memory's wording says about its relations, where it is unambiguous.

Read are cues beside a `[[name]]` link, preferences between two named things, and openings that refer to what was said before.
Only surface patterns count, sentence by sentence, and each carries the confidence that its wording earns: a sentence that says
"led to [[x]]" more than a link that merely stands in a paragraph headed "Why". What is doubted, denied or asked gives nothing.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_assets.language.entity_types import EntityType
from memory_assets.models import Entity, RelationType

TargetKind = Literal["link", "previous", "entity"]


@dataclass(frozen=True, slots=True)
class Cue:
    """One relation that a memory's text states."""

    relation: RelationType
    target_kind: TargetKind
    target: str
    """The link's name, the entity's text, or nothing for the previous memory of the session."""
    confidence: float
    sentence: str
    """Where it says so: the reason that a path shows."""
    outgoing: bool = True
    """From this memory to the target; else from the target to this memory."""
    other: str = ""
    """For a relation between two entities: the second one."""


_LINK = re.compile(r"\[\[([^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|[^\[\]\n]*)?\]\]")
_CODE = re.compile(r"^[ \t]*(?P<fence>```+|~~~+)(?s:.*?)(?:^[ \t]*(?P=fence)|\Z)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[*A-ZÀ-Þ])|\n\s*\n|\n(?=\s*(?:[-*>#]|\d+\.)\s)|\n(?=\*\*)")
_DOUBT = re.compile(
    r"\b(?:not|never|n't|unless|whether|might|may|could|would|perhaps|maybe|if|hardly|neither|nor|without)\b|\?\s*$",
    re.IGNORECASE,
)
_WHY = re.compile(r"^\s*(?:[-*>]\s*)?\**(?:why|reason|because)\**\s*:\**", re.IGNORECASE)
_HEADING = re.compile(r"\s*(?:[-*>]\s*)?(?:\*\*|#)")
_MARKUP = re.compile(r"\*\*|__|^[\s>#-]+", re.MULTILINE)
_MOST_SENTENCE = 300
_REACH = 200
"""Characters beside a link whose words may speak of it; a text of thousands of links in one line costs no more for each."""

_BEFORE: tuple[tuple[str, RelationType, bool, float], ...] = (
    (r"(?:superseded|replaced|invalidated|overruled|overridden|revoked|taken back|obsoleted) by",
     RelationType.INVALIDATED_BY, True, 0.9),
    (r"(?:takes? back|took back|supersedes?|superseded|replaces?|overrules?|overruled|overrides?|revokes?|revoked|invalidates?"
     r"|obsoletes?|reverses?|reversed|undoes)", RelationType.INVALIDATED_BY, False, 0.9),
    (r"(?:led|leads|leading) (?:directly |straight |in the end )?to|resulted in|gave rise to|triggered",
     RelationType.LEADS_TO, True, 0.85),
    (r"(?:because of|due to|caused by|as a result of|in consequence of|triggered by|the reason (?:is|was)|thanks to)",
     RelationType.LEADS_TO, False, 0.8),
    (r"(?:carried out|carries out|carrying out|implements?|implemented|based on|derived from|extracted from|taken from"
     r"|distilled from|follows from|copied from|as decided in)", RelationType.DERIVED_FROM, True, 0.85),
    (r"(?:an? (?:good |clear )?(?:example|instance|case) of|exemplifies|illustrates)", RelationType.EXEMPLIFIES, True, 0.85),
    (r"(?:contradicts?|contradicted|conflicts? with|is at odds with|clashes with)", RelationType.CONTRADICTS, True, 0.85),
    (r"(?:confirms?|confirmed|supports?|validates?|reinforces?|bears out|agrees with|in line with)",
     RelationType.REINFORCES, True, 0.8),
    (r"(?:(?:a |one )?(?:part|step|piece|phase) of|belongs to)", RelationType.PART_OF, True, 0.85),
)  # fmt: skip
_ARTICLE = r"(?:\s+(?:the|that|this|our|my|an?|what|rule|decision|note|in|of|from|entry))*[\s\"'(`*]*$"
_BEFORE_LINK: list[tuple[re.Pattern[str], RelationType, bool, float]] = [
    (re.compile(rf"\b(?:{words}){_ARTICLE}", re.IGNORECASE), relation, outgoing, confidence)
    for words, relation, outgoing, confidence in _BEFORE
]
_AFTER_LINK: list[tuple[re.Pattern[str], RelationType, bool, float]] = [
    (re.compile(r"^[\s\"')`*]*(?:is|are|was)\s+(?:no longer|not .{0,20}any ?more|now)?\s*(?:true|valid|in force|current)\b",
                re.IGNORECASE),
     RelationType.INVALIDATED_BY, False, 0.9),
    (re.compile(r"^[\s\"')`*]*(?:is|are|was|were)\s+(?:now\s+)?(?:obsolete|outdated|superseded|void|gone|revoked|replaced|history)\b",
                re.IGNORECASE), RelationType.INVALIDATED_BY, False, 0.85),
    (re.compile(r"^[\s\"')`*]*(?:led|leads) to this\b", re.IGNORECASE), RelationType.LEADS_TO, False, 0.85),
]  # fmt: skip
_AFTER_TRUE = re.compile(r"^[\s\"')`*]*(?:is|are|was)\s+(?:still\s+|now\s+)?(?:true|valid|in force|current)\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|n't|hardly|neither|nor)\W+(?:\w+\W+){0,2}$", re.IGNORECASE)
_WHY_CONFIDENCE = 0.6
_LATER_WHY_CONFIDENCE = 0.4
"""A link in the first sentence under "Why", and in one that follows it."""

_ANY_NAMES = frozenset({EntityType.FILE, EntityType.URL, EntityType.EMAIL, EntityType.TAG, EntityType.ENV_VAR})
_NOT_CHOSEN = _ANY_NAMES | {EntityType.PERSON, EntityType.LOC, EntityType.ORG, EntityType.EVENT}
"""One chooses tools and products; a person, place or team that something moves to is not preferred by that."""

_PREFERENCES: tuple[tuple[str, frozenset[EntityType], float], ...] = (
    (r"\b(?:prefer(?:s|red)?|favou?r(?:s|ed)?)\s+(?P<one>.{1,60}?)\s+(?:over|to|rather than|instead of|more than)"
     r"\s+(?P<two>.{1,60})", _ANY_NAMES, 0.9),
    (r"\b(?:chose|chosen|choose|picked?|went with|decided (?:on|for)|use[sd]?|using)\s+(?P<one>.{1,60}?)"
     r"\s+(?:over|instead of|rather than)\s+(?P<two>.{1,60})", _NOT_CHOSEN, 0.85),
    (r"\b(?:left|leaves|leave|dropped|drops|abandoned|ditched)\s+(?P<two>.{1,40}?)\s+for\s+(?P<one>.{1,40})", _NOT_CHOSEN, 0.8),
    (r"^(?P<one>\S.{0,40}?),?\s+(?:instead of|not|rather than)\s+(?P<two>\S.{0,40}?)[.!]?$", _NOT_CHOSEN, 0.75),
    (r"\b(?:switch(?:ed)?|move[sd]?|migrated?|changed?)\s+(?:\w+\s+){0,3}from\s+(?P<two>.{1,40}?)\s+to\s+(?P<one>.{1,40})",
     _NOT_CHOSEN, 0.7),
)  # fmt: skip
_PREFERENCE = [(re.compile(words, re.IGNORECASE), excluded, confidence) for words, excluded, confidence in _PREFERENCES]

_PREVIOUS_CAUSE = re.compile(
    r"^\s*(?:because of (?:this|that)|as a (?:result|consequence)|consequently|therefore|that(?:'s| is) why|this is why"
    r"|that led (?:us |me )?to|this led (?:us |me )?to|due to (?:this|that)|for (?:this|that) reason)\b",
    re.IGNORECASE,
)
_RETRACTION = re.compile(
    r"\b(?:no longer|not .{1,30} any ?more|any more|is gone|was removed|obsolete|outdated|superseded|replaces?|instead of"
    r"|moved (?:on \S+ )?to|takes? back|switched (?:off|from)|used to be|until then|before that)\b",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences of a Markdown text without its code blocks, in order, markup kept."""
    return [part.strip() for part in _SENTENCE_END.split(_CODE.sub("\n\n", text)) if part.strip()]


def retracts(text: str) -> bool:
    """Whether a new version's wording says that what was said before no longer holds."""
    return bool(_RETRACTION.search(text))


def find_cues(text: str, entities: Sequence[Entity] = ()) -> list[Cue]:
    """The relations that a text states by its wording, each once, the surest where a sentence says several of one target.

    Args:
        text: a memory's content.
        entities: what the text names; a preference counts only between two of them.
    """
    found: dict[tuple[RelationType, str, str, str, bool], Cue] = {}
    parts = sentences(text)
    as_reason = 0.0
    for number, sentence in enumerate(parts):
        if _WHY.match(sentence):
            as_reason = _WHY_CONFIDENCE
        elif _HEADING.match(sentence):
            as_reason = 0.0
        cues = [*_link_cues(sentence, as_reason), *_preference_cues(sentence, entities)]
        as_reason = min(as_reason, _LATER_WHY_CONFIDENCE)
        if number == 0 and _PREVIOUS_CAUSE.match(sentence):
            cues.append(Cue(RelationType.LEADS_TO, "previous", "", 0.5, _shown(sentence), outgoing=False))
        for cue in cues:
            key = (cue.relation, cue.target_kind, cue.target.lower(), cue.other.lower(), cue.outgoing)
            if key not in found or found[key].confidence < cue.confidence:
                found[key] = cue
    return list(found.values())


def _link_cues(sentence: str, as_reason: float) -> Iterator[Cue]:
    plain = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), sentence)
    shown = _shown(sentence)
    for link in _LINK.finditer(plain):
        before = plain[max(0, link.start() - _REACH) : link.start()]
        name = link[1].strip()
        stated = _beside(before, plain[link.end() : link.end() + _REACH])
        if stated:
            relation, outgoing, confidence = stated
            yield Cue(relation, "link", name, confidence, shown, outgoing)
        elif as_reason and not _DOUBT.search(before):
            yield Cue(RelationType.LEADS_TO, "link", name, as_reason, shown, outgoing=False)


def _beside(before: str, after: str) -> tuple[RelationType, bool, float] | None:
    clause = re.split(r"[;:(]\s|,\s(?:but|and|which)\s", before)[-1]
    for pattern, relation, outgoing, confidence in _AFTER_LINK:
        if pattern.match(after) and not (relation is RelationType.INVALIDATED_BY and _AFTER_TRUE.match(after)):
            return relation, outgoing, confidence
    for pattern, relation, outgoing, confidence in _BEFORE_LINK:
        cue = pattern.search(clause)
        if cue:
            doubted = _NEGATION.search(clause[: cue.start()]) or _DOUBT.search(clause[max(0, cue.start() - 25) : cue.start()])
            return None if doubted else (relation, outgoing, confidence)
    return None


def _preference_cues(sentence: str, entities: Sequence[Entity]) -> Iterator[Cue]:
    if len(entities) < 2:
        return
    plain = _MARKUP.sub("", sentence)
    for pattern, excluded, confidence in _PREFERENCE:
        choices = [entity for entity in entities if entity.type not in excluded]
        for match in pattern.finditer(plain):
            if _DOUBT.search(plain[max(0, match.start() - 40) : match.start()]):
                continue
            one, two = _named(match["one"], choices, closes=True), _named(match["two"], choices, closes=False)
            if one and two and one.text.lower() != two.text.lower():
                yield Cue(
                    RelationType.PREFERS_OVER, "entity", one.text, confidence, _shown(sentence), outgoing=True, other=two.text
                )


def _named(text: str, entities: Sequence[Entity], *, closes: bool) -> Entity | None:
    """The entity that opens the text (or, where it `closes`, ends it): what the words of preference stand beside."""
    lowered = text.lower().strip(" \"'`*_.,;:!()[]")
    fitting = []
    for entity in entities:
        name = re.escape(entity.text.lower())
        if re.search(rf"(?:^|\W){name}$" if closes else rf"^(?:the |an? )?{name}(?:\W|$)", lowered):
            fitting.append(entity)
    return max(fitting, key=lambda entity: len(entity.text), default=None)


def _shown(sentence: str) -> str:
    words = " ".join(_MARKUP.sub("", sentence).split())
    return words if len(words) <= _MOST_SENTENCE else words[: _MOST_SENTENCE - 1] + "…"
