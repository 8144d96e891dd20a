"""Turns of a talk. An answer says little by itself ("Not before April"): that the turn before it is near to a question speaks for it."""

from typing import TYPE_CHECKING

import numpy as np

from memory_assets.models import ASSISTANTS
from memory_assets.recall.speakers import by_authors

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.recall.candidates import Candidates
    from memory_assets.recall.view import View

    Values = npt.NDArray[np.float64]

QUESTION_MARKS = ("?", "？", "؟")
AFTER_STATEMENT, AFTER_QUESTION = 0.3, 0.6
"""Share of the nearness of the turn before that somebody else's turn takes on. What an assistant says is long enough by itself."""


def with_turn_before(found: "Candidates", rows: "npt.NDArray[np.intp]", view: "View") -> "Values":
    """Cosines of the candidates, higher where the turn before is near to the question, by how much it is nearer than the last.

    Nothing is read for that: what the vector index did not find has the cosine of the last that it found, and stays NaN where it
    did not find the turn before either.
    """
    known = ~np.isnan(found.cosine)
    if not known.any() or not len(view.timeline):
        return found.cosine
    last = found.cosine[known].min()
    before = view.timeline.neighbour(rows, -1)
    places = np.where(before >= 0, found.places(view.timeline.memory[before]), -1)
    said_by, heard_from = view.timeline.author[rows], view.timeline.author[before]
    replies = (rows >= 0) & (places >= 0) & known[places] & (said_by >= 0) & (heard_from >= 0) & (said_by != heard_from)
    replies &= ~by_authors(lambda name: name.lower() in ASSISTANTS, rows, view)
    asks = np.array([any(mark in text for mark in QUESTION_MARKS) for text in found.texts])
    share = np.where(asks[places], AFTER_QUESTION, AFTER_STATEMENT)
    gained = np.where(replies, share * (found.cosine[places] - last), 0.0)
    return np.where(known, found.cosine, np.where(gained > 0, last, np.nan)) + gained
