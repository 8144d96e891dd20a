"""Actions and automatic tags: the findings in each part of a text, and how they combine into the text's features."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from memory_assets.language.english import word_set
from memory_assets.language.entities import as_entities, find_listed, find_mentions
from memory_assets.language.entity_types import ADDRESSES, EntityType, Mention
from memory_assets.language.gazetteer import Gazetteer
from memory_assets.language.languages import words_of
from memory_assets.language.reading import PLACEHOLDER, Part
from memory_assets.language.tags import normalise_tag
from memory_assets.language.verbs import FINITE_TAGS, mend_verbs
from memory_assets.models import Features

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

MAX_AUTO_TAGS = 5
MAX_ENTITY_TAGS = 3
ENOUGH_TAGS = 3
"""Number of tags from which no single noun is added."""

_CHUNK_PARTS = frozenset({"NOUN", "PROPN", "ADJ", "VERB"})
_BEFORE_HEAD = frozenset({"det", "amod", "compound", "nummod", "nmod", "poss", "flat", "goeswith"})
_INSIDE_PHRASE = frozenset({"compound", "flat", "fixed", "goeswith", "det", "amod", "nummod", "case", "discourse", "dep"})
"""Dependency labels of words that do not head a phrase."""
_KIND_NOUNS = frozenset({"project", "repository", "repo", "team", "database", "language", "file"})
"""Nouns that, beside a name, only repeat its entity type."""

_VAGUE = word_set("tags.vague_nouns") | word_set("tags.vague_adjectives")
_NO_ACTIONS = frozenset({"be", "stdin", "stdout", "stderr", "localhost"})
_NO_ACTION_DEPS = frozenset({"nsubj", "nsubj:pass", "obj"})
"""Dependency labels of nouns: a "verb" with one is a tagger's mistake ("the power cut led to ...")."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings in one part of a text, as plain data that outlives spaCy's document."""

    mentions: tuple[Mention, ...] = ()
    actions: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    """Tags made of noun chunks."""
    nouns: tuple[str, ...] = ()
    """Tags made of single nouns."""


def find(doc: "Doc", part: Part, gazetteer: Gazetteer) -> Findings:
    """Return the findings in a part's analysed document; corrects the document's verbs in place."""
    opaque = _tokens_within(doc, ((inset.start, inset.end) for inset in part.insets if inset.opaque))
    mend_verbs(doc, opaque)
    mentions = find_mentions(doc, gazetteer, part.insets)
    named = _tokens_within(doc, ((mention.start, mention.end) for mention in mentions))
    taken = named | opaque
    return Findings(
        tuple(mentions),
        tuple(_actions(doc, taken)),
        tuple(_phrases(doc, named, opaque)),
        tuple(normalise_tag(token.text) for token in doc if token.pos_ == "NOUN" and token.i not in taken and _is_telling(token)),
    )


def find_foreign(part: Part, gazetteer: Gazetteer) -> Findings:
    """Return the findings in a part that is not English: certain names and whole words as tags, no actions."""
    mentions = find_listed(part, gazetteer)
    insets = {word.lower() for word in (PLACEHOLDER, *(mention.text for mention in mentions))}
    return Findings(tuple(mentions), nouns=tuple(tag for tag in words_of(part.text, part.language) if tag not in insets))


def combine(findings: Sequence[Findings], aside: Iterable[Mention], gazetteer: Gazetteer) -> Features:
    """Combine the findings of a text's parts and the mentions outside its prose into its features, each once, in order.

    At most five tags: up to three entities, then phrases, then single nouns while there are fewer than three tags.
    """
    entities = as_entities([*chain.from_iterable(found.mentions for found in findings), *aside])
    tags: dict[str, None] = {}
    # Addresses are found by full text and as entities; as tags each would occur only once.
    tagged = [entity for entity in entities if entity.type not in ADDRESSES]
    for entity in sorted(tagged, key=lambda entity: entity.type != EntityType.TAG)[:MAX_ENTITY_TAGS]:
        tags[normalise_tag(gazetteer.canonical.get(entity.text.lower(), entity.text), inflect=False)] = None
    for tag in chain.from_iterable(found.phrases for found in findings):
        if len(tags) < MAX_AUTO_TAGS:
            tags[tag] = None
    for tag in chain.from_iterable(found.nouns for found in findings):
        if len(tags) >= ENOUGH_TAGS:
            break
        if not any(tag in other.split("-") for other in tags):
            tags[tag] = None
    actions = dict.fromkeys(chain.from_iterable(found.actions for found in findings))
    return Features(entities, tuple(actions), tuple(tags))


def _actions(doc: "Doc", taken: set[int]) -> Iterator[str]:
    """Yield lemmas of full verbs, skipping those in "a failing test", "release notes", "read-only", "GET /health", "docker compose"."""
    for token in doc:
        if (
            token.pos_ != "VERB"
            or not token.tag_.startswith("V")
            or not (token.is_alpha and token.is_ascii)
            or len(token.lemma_) < 2
        ):
            continue
        if (
            token.i in taken
            or token.is_upper
            or token.lemma_ in _NO_ACTIONS
            or token.dep_ in _NO_ACTION_DEPS
            or _is_hyphenated(token)
        ):
            continue
        if token.tag_ in FINITE_TAGS or token.is_sent_start or token.dep_ not in {"amod", "compound"}:
            yield token.lemma_.lower()


def _is_hyphenated(token: "Token") -> bool:
    before, after = token.doc[max(0, token.i - 1)], token.doc[min(token.i + 1, len(token.doc) - 1)]
    return (before.text == "-" and not before.whitespace_) or (after.text == "-" and not token.whitespace_)


def _phrases(doc: "Doc", named: set[int], opaque: set[int]) -> Iterator[str]:
    """Yield as tags the nouns with one or two words before them that add to the entities: "stale lock"."""
    end = 0
    for head in doc:
        if head.pos_ not in {"NOUN", "PROPN", "PRON"} or _label(head) in _INSIDE_PHRASE:
            continue
        start = _phrase_start(head)
        if start < end:
            continue
        end = head.i + 1
        verbs = [token.i for token in doc[start:end] if token.pos_ == "VERB" and token.tag_ not in {"VBG", "VBN"}]
        begin = verbs[-1] + 1 if verbs else start  # "Nina prefers | spaces only"
        words = [token for token in doc[begin:end] if token.pos_ in _CHUNK_PARTS and _is_telling(token)]
        if not 2 <= len(words) <= 3 or words[-1].i != head.i or words[0].i != head.i + 1 - len(words):
            continue
        if not any(token.i in opaque for token in words) and any(
            token.i not in named and token.lower_ not in _KIND_NOUNS for token in words
        ):
            yield normalise_tag(doc[words[0].i : end].text)


def _phrase_start(head: "Token") -> int:
    """Return the index where a noun's contiguous determiner, possessor and modifiers begin."""
    start = reach = head.i
    for child in reversed(list(head.lefts)):
        if child.right_edge.i + 1 != reach:
            break
        if _label(child) in _BEFORE_HEAD:
            start = reach = child.left_edge.i
        elif child.is_punct:
            reach = child.i
        else:
            break
    return start


def _label(token: "Token") -> str:
    """Return a dependency label without its subtype: "nmod" for "nmod:poss"."""
    return token.dep_.partition(":")[0]


def _tokens_within(doc: "Doc", places: Iterable[tuple[int, int]]) -> set[int]:
    spans = (doc.char_span(start, end, alignment_mode="expand") for start, end in places)
    return {token.i for span in spans if span is not None for token in span}


def _is_telling(token: "Token") -> bool:
    if not token.is_alpha or len(token) < 3 or token.is_stop:
        return False
    return _VAGUE.isdisjoint({token.lower_, token.lemma_.lower()})
