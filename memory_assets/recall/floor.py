"""The floor: whether anything that is remembered fits a question at all.

A ranking always has a best entry, even if none fits. If no memory has the words of a question and none is near it in meaning, the
answer is that nothing relevant is remembered. `benchmarks/search_floor.py` counts the answers that this hides, which must be none, and
the questions about nothing in a store that it turns away.
"""

from typing import TYPE_CHECKING

from memory_assets.language.embedders.calibration import scale_of
from memory_assets.language.embedders.context import meanings_of
from memory_assets.language.words import is_unspaced

if TYPE_CHECKING:
    from memory_assets.language.embedders import Embedder
    from memory_assets.recall.question import Question
    from memory_assets.recall.view import View
    from memory_assets.stores.memories import Filters, MemoryStore

_WORDS = 0.25
"""Share of the question's idf mass from which a memory has its words."""
LEAST_SIMILARITY = 0.53
"""Of what a memory says and a question that is searched for, on the common scale of all embedders, from which it may be an answer."""
_OTHER_SCRIPT = 0.05
"""Share of texts in a script without spaces from which a question in letters may be about them: no word and little else shows it."""


def anything_fits(
    question: "Question", said: float, view: "View", store: "MemoryStore", embedder: "Embedder", filters: "Filters", least: float
) -> bool:
    """Whether some memory may answer a question.

    A time or an author that the question names fits by itself, and so does everything where it has no telling words, where
    similarities do not tell the foreign from the known, and where the question is in another script than some of what is remembered.

    `said` is the largest share of its words' idf mass that a candidate has; `least` is the similarity to the question, on the common
    scale, from which what a memory says may be an answer.

    Raises:
        StoreError: the store's vectors are another embedder's, or it cannot be read.
        EmbedderError: the question cannot be embedded.
    """
    if said >= _WORDS or question.interval or not question.terms:
        return True
    if view.terms.unspaced >= _OTHER_SCRIPT and not is_unspaced(question.text):
        return True
    scale = scale_of(embedder.name, store.columns.scale)
    if (
        not scale.tells_the_foreign
        or store.columns.meaning is None
        or not question.spoken.isdisjoint(view.timeline.authors.called)
    ):
        return True
    nearest = store.alike(meanings_of(embedder, [question.text])[0], 1, filters)["similarity"].to_numpy()
    return len(nearest) > 0 and float(scale.similarity(nearest)[0]) >= least
