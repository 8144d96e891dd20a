"""Who said what was found: authors whom a question names, and the two sides of a talk with an assistant."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memory_assets.models import ASSISTANTS, USERS
from memory_assets.recall.question import replace_words, topic_words, words
from memory_assets.stores.writing import folded, pieces

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.recall.columns import Codes
    from memory_assets.recall.question import Question
    from memory_assets.recall.view import View

    Mask = npt.NDArray[np.bool_]


def named_in(question: "Question") -> Callable[[str], bool]:
    """Tells whether an author is named in a question."""
    spoken = _spoken(question)
    return lambda author: bool(spoken & _names(author))


def names_somebody(question: "Question", authors: "Codes") -> bool:
    """Whether some author is named in a question."""
    called = _called(authors)
    return any(word in called for word in _spoken(question))


def _spoken(question: "Question") -> set[str]:
    return {*words(folded(question.text)), *pieces(question.text)}


@lru_cache(maxsize=4_096)
def _names(author: str) -> frozenset[str]:
    """The words by which an author is called; of a name without spaces every two characters."""
    return frozenset(
        {word for word in words(folded(author)) if len(word) > 2} | {piece for piece in pieces(author) if len(piece) > 1}
    )


_known: "WeakKeyDictionary[Codes, tuple[int, set[str]]]" = WeakKeyDictionary()
"""Of the authors of a store, how many were looked at, and by which words they are called."""


def _called(authors: "Codes") -> set[str]:
    """The words by which authors are called, at a cost that follows those who are new."""
    seen, called = _known.get(authors, (0, set()))
    new = authors.names[seen:]
    called.update(*map(_names, new))
    _known[authors] = seen + len(new), called
    return called


def in_first_person(text: str, authors: "Codes") -> str:
    """A question as those whom it names would ask it: "Where does Jun's cat sleep" as "Where does my cat sleep".

    People speak of themselves without their name, so what they said is nearer to that. Where the question has capitals, a name has
    one: "Who pays the bill" does not speak of Bill.
    """
    called = _called(authors)
    telling = {word for topic in topic_words(text) if (word := folded(topic)) in called and word not in USERS | ASSISTANTS}
    typed_small = text == text.lower()

    def own(word: str, owns: bool) -> str | None:
        is_name = folded(word) in telling and (typed_small or not word.islower())
        return ("my" if owns else "I") if is_name else None

    return replace_words(text, own) if telling else text


def by_authors(is_meant: Callable[[str], bool], rows: "npt.NDArray[np.intp]", view: "View") -> "Mask":
    """Which of some rows of the timeline have an author whose name passes; -1 stands for a row that is not known."""
    if not view.timeline.authors.names or not len(rows):
        return np.zeros(len(rows), bool)
    authors = np.where(rows >= 0, view.timeline.author[rows], -1)
    meant = [code for code in np.unique(authors[authors >= 0]).tolist() if is_meant(view.timeline.authors.names[code])]
    return np.isin(authors, meant)


def by_the_other_side(question: "Question", rows: "npt.NDArray[np.intp]", view: "View") -> "Mask":
    """Which rows, in a store with talk to an assistant, were said by the side that the question does not ask about.

    What an assistant said is long and says again what the user has said, so it fits most questions about the user. What has no
    author, a note, is on no side.
    """
    if not view.timeline.authors.has_any(ASSISTANTS):
        return np.zeros(len(rows), bool)
    others = USERS if question.to_listener else ASSISTANTS
    return by_authors(lambda name: name.lower() in others, rows, view)
