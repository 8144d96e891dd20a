"""A parsed query: its terms, the time it names, and whose words it asks for. Every step of a search uses it."""

import re
from collections.abc import Container
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING

from memory_assets.language.english import pattern, table, word_set
from memory_assets.language.entity_types import EntityType
from memory_assets.language.words import fold, is_unspaced, pieces, replace_words, stem, topic_words, words
from memory_assets.models import ASSISTANTS, USERS

if TYPE_CHECKING:
    from memory_assets.language.intervals import Interval

QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True)
class Question:
    """A parsed query."""

    text: str
    topic: tuple[str, ...]
    """Topic words, each once; empty if the query has only function words."""
    interval: "Interval | None"
    is_request: bool
    """Whether it asks for an action or advice ("draft a letter", "how do I ..."), so that preferences apply."""
    to_listener: bool
    """Whether it asks what the assistant said ("what did you recommend to me"), not about the user ("where did I park")."""
    zone: tzinfo = UTC
    """The zone in which the interval is shown."""

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(fold, self.topic)))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.topic))

    @property
    def is_asked(self) -> bool:
        return self.text.rstrip().endswith(QUESTION_MARKS) or bool(pattern("question.asked").search(self.text))

    @property
    def is_task(self) -> bool:
        """Whether it names something, or something to be done, instead of asking for an answer."""
        return not self.is_asked and not pattern("question.telling_wanted").search(self.text)

    @cached_property
    def asks_for_time(self) -> bool:
        """Whether it asks for nothing but what was in a time ("what happened last week")."""
        if not self.interval:
            return False
        start, end = self.interval.span
        return word_set("question.events").issuperset(map(fold, topic_words(f"{self.text[:start]} {self.text[end:]}")))

    @property
    def is_bare(self) -> bool:
        """Whether it is words without a sentence: a name, a title, letters. Always False for questions and scripts without spaces."""
        return len(words(self.text)) <= len(self.topic) and not self.is_asked and not is_unspaced(self.text)

    @cached_property
    def spoken(self) -> frozenset[str]:
        """All words, folded, and the `pieces` of scripts without spaces."""
        return frozenset({*words(fold(self.text)), *pieces(self.text)})

    @cached_property
    def keywords(self) -> str:
        """The query for the full-text index: the topic words, or the whole text if there are none.

        Words of scripts without spaces, or with attached endings (Korean), are included whole, too, because an exact match says more.
        """
        return " ".join(dict.fromkeys([*filter(is_unspaced, words(self.text)), *self.topic])) or self.text

    @cached_property
    def kind(self) -> tuple[str, EntityType] | None:
        """The term for the kind of entity that is asked for ("which database"), and the entity type it means."""
        for found in pattern("question.kinds.asked").finditer(self.text):
            term = fold(found[1])
            kinds = (
                kind for kind in EntityType if kind in table("question.kinds") and term in word_set(f"question.kinds.{kind}")
            )
            if term in self.terms and (kind := next(kinds, None)):
                return term, kind
        return None

    def in_first_person(self, names: Container[str]) -> str:
        """Rewrite the query as a person it names would ask it: "Where does Jun's cat sleep" as "Where does my cat sleep".

        People do not name themselves, so their statements are more similar to that. If the query has capitals, a name must have one, too:
        "Who pays the bill" does not name Bill.
        """
        named = {term for term in self.terms if term in names and term not in USERS | ASSISTANTS}
        typed_small = self.text == self.text.lower()

        def pronoun(word: str, is_possessive: bool) -> str | None:
            is_name = fold(word) in named and (typed_small or not word.islower())
            return ("my" if is_possessive else "I") if is_name else None

        return replace_words(self.text, pronoun) if named else self.text

    def terms_in(self, text: str) -> set[str]:
        """Return the terms that occur in a text as whole words; "C" does not occur in "C++" if both are terms."""
        text = fold(text)
        found: set[str] = set()
        for term, is_longer in self._longest_first:
            if term in text and _occurs(term, text):
                found.add(term)
                if is_longer:
                    text = re.sub(rf"(?<![^\W_]){re.escape(term)}(?![^\W_])", "\0", text)
        return found

    @cached_property
    def _longest_first(self) -> list[tuple[str, bool]]:
        """The terms, longest first, each with whether it contains another."""
        ordered = sorted(self.terms, key=len, reverse=True)
        return [(term, any(other in term and other != term for other in ordered)) for term in ordered]


def _occurs(term: str, text: str) -> bool:
    """Return whether a term occurs in a text without a letter or digit beside it; faster than a regular expression."""
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        if not text[max(0, start - 1) : start].isalnum() and not text[end : end + 1].isalnum():
            return True
        start = text.find(term, start + 1)
    return False


def understand(text: str, now: datetime, zone: tzinfo) -> Question:
    """Parse a query; times such as "yesterday" are relative to `now`, which is aware, in the calendar of `zone`.

    "What do we know about X" is X: the words around it are in no answer.
    """
    if about := pattern("question.about").search(text):
        text = about[1]
    interval = None
    if pattern("question.maybe_time").search(text) and not pattern("question.at_present").search(text):
        from memory_assets.language.intervals import find_interval

        interval = find_interval(text, now, zone)
    impolite = pattern("question.polite").sub(" ", text)
    persons = [not word_set(f"question.{person}").isdisjoint(words(impolite)) for person in ("first_person", "second_person")]
    return Question(
        text=text,
        topic=tuple(dict.fromkeys(topic_words(text))),
        interval=interval,
        is_request=bool(pattern("question.request").search(text)) and not pattern("question.of_the_past").search(text),
        to_listener=bool(pattern("question.to_listener").search(impolite)) or persons == [False, True],
        zone=zone,
    )
