"""Who said what was found: authors whom a question names, and the two sides of a talk with an assistant."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.models import ASSISTANTS, USERS

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.recall.question import Question
    from memory_assets.recall.view import View

    Mask = npt.NDArray[np.bool_]


def by_authors(is_meant: Callable[[str], bool], rows: "npt.NDArray[np.intp]", view: "View") -> "Mask":
    """Which of some rows of the timeline have an author whose name passes; -1 stands for a row that is not known."""
    if not view.timeline.authors.names or not len(rows):
        return np.zeros(len(rows), bool)
    authors = np.where(rows >= 0, view.timeline.author[rows], -1)
    meant = [code for code in np.unique(authors[authors >= 0]).tolist() if is_meant(view.timeline.authors.names[code])]
    return np.isin(authors, meant)


def by_the_other_side(question: "Question", rows: "npt.NDArray[np.intp]", view: "View") -> "Mask":
    """Which rows, in a store with talk to an assistant, were said by the side that the question does not ask about.

    What an assistant said is long and says again what the user has said, so it fits most questions about the user. A note has no
    author and is on no side.
    """
    if not view.timeline.authors.has_any(ASSISTANTS):
        return np.zeros(len(rows), bool)
    others = USERS if question.to_listener else ASSISTANTS
    return by_authors(lambda name: name.lower() in others, rows, view)
