"""Actions and automatic tags of one analysed text."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memory_assets.language.entity_types import EntityType, Mention
from memory_assets.language.gazetteer import Gazetteer
from memory_assets.language.tags import normalise_tag
from memory_assets.models import Entity

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

MAX_AUTO_TAGS = 5
MAX_ENTITY_TAGS = 3
ENOUGH_TAGS = 3
"""Single nouns become tags only until there are this many."""

_UNTAGGED_TYPES = frozenset({EntityType.URL, EntityType.EMAIL, EntityType.FILE, EntityType.ENV_VAR})
"""They find their memory by full text and as entities; as tags they would be used once each."""

_CHUNK_PARTS = frozenset({"NOUN", "PROPN", "ADJ", "VERB"})
_KIND_NOUNS = frozenset({"project", "repository", "repo", "team", "database", "language", "file"})
"""Beside a name they say only what its type says."""

_VAGUE_NOUNS = frozenset(
    """
    thing way lot bit kind sort type part number case fact time day week month year today yesterday tomorrow
    morning evening afternoon night hour minute second moment end start beginning something anything nothing
    everything someone anyone everyone person people guy one other reason point idea stuff example issue
    problem question answer note result change use need work place side piece rest couple pair while etc
    detail level amount order sense matter line step january february march april may june july august
    september october november december monday tuesday wednesday thursday friday saturday sunday user quarter
    half """.split()  # noqa: SIM905
)
_VAGUE_ADJECTIVES = frozenset(
    """
    new old good bad big small large little great nice same other such many much more most few several some
    any last next first second third own sure whole full current previous recent different certain various
    main able only long short high low early late better best worse worst right wrong real actual entire
    single double possible important """.split()  # noqa: SIM905
)
"""Words that a tag may not be made of: they would put unlike memories together."""


def find_actions(doc: "Doc", mentions: Sequence[Mention]) -> tuple[str, ...]:
    """Lemmas of the full verbs of `doc` in order of first appearance, each once.

    Auxiliaries and modals are no actions, nor are words inside a name ("pytest", "docker compose").
    """
    named = _tokens_within(doc, mentions)
    verbs = (token for token in doc if token.pos_ == "VERB" and token.is_alpha and token.i not in named)
    return tuple(dict.fromkeys(token.lemma_.lower() for token in verbs if len(token.lemma_) > 1))


def find_tags(doc: "Doc", entities: Sequence[Entity], mentions: Sequence[Mention], gazetteer: Gazetteer) -> tuple[str, ...]:
    """At most five normalised tags: up to three entities, then noun chunks, then single nouns.

    Nouns are added only while there are fewer than three tags; a text that gives fewer has fewer.
    """
    tags: dict[str, None] = {}
    tagged = [entity for entity in entities if entity.type not in _UNTAGGED_TYPES]
    for entity in sorted(tagged, key=lambda entity: entity.type != EntityType.TAG)[:MAX_ENTITY_TAGS]:
        tags[normalise_tag(gazetteer.canonical.get(entity.text.lower(), entity.text), inflect=False)] = None
    named = _tokens_within(doc, mentions)
    unnameable = _tokens_within(doc, [mention for mention in mentions if mention.type in _UNTAGGED_TYPES])
    for tag in _chunk_tags(doc, named, unnameable):
        if len(tags) < MAX_AUTO_TAGS:
            tags[tag] = None
    for token in doc:
        if len(tags) >= ENOUGH_TAGS:
            break
        if token.pos_ == "NOUN" and token.i not in named and _is_telling(token):
            tag = normalise_tag(token.text)
            if not any(tag in other.split("-") for other in tags):
                tags[tag] = None
    return tuple(tags)


def _chunk_tags(doc: "Doc", named: set[int], unnameable: set[int]) -> Iterator[str]:
    """Tags of the noun chunks of two or three words that say more than the entities already do."""
    for chunk in doc.noun_chunks:
        words = [token for token in chunk if token.pos_ in _CHUNK_PARTS and _is_telling(token)]
        if not 2 <= len(words) <= 3 or words[-1].i != chunk.root.i or chunk.root.pos_ not in {"NOUN", "PROPN"}:
            continue
        if words[-1].i - words[0].i != len(words) - 1 or any(token.i in unnameable for token in words):
            continue
        if any(token.i not in named and token.lower_ not in _KIND_NOUNS for token in words):
            yield normalise_tag(doc[words[0].i : words[-1].i + 1].text)


def _tokens_within(doc: "Doc", mentions: Sequence[Mention]) -> set[int]:
    """Positions of the tokens that lie in one of the mentions, wholly or in part."""
    spans = (doc.char_span(mention.start, mention.end, alignment_mode="expand") for mention in mentions)
    return {token.i for span in spans if span is not None for token in span}


def _is_telling(token: "Token") -> bool:
    if not token.is_alpha or len(token) < 3 or token.is_stop:
        return False
    return not ({token.lower_, token.lemma_.lower()} & (_VAGUE_NOUNS | _VAGUE_ADJECTIVES))
