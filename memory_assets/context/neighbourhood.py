"""Of the links from some nodes the one that tells most to each neighbour, and of very many neighbours the most relevant."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Rows = npt.NDArray[np.intp]
    Column = npt.NDArray[Any]


def choose_links(
    origins: "Column", targets: "Column", telling: "Sequence[Column]", relevant: "Sequence[Column]", most: int
) -> "tuple[Rows, Rows]":
    """Choose among links.

    Args:
        origins: the node that each link leads from.
        targets: the node that it leads to; both are integers.
        telling: what makes a link tell more than another between the same two nodes, the weightiest first; the lowest wins.
        relevant: what makes a neighbour more relevant than another, likewise.
        most: links that are kept of one origin.

    Returns:
        The rows that are kept, and for each how many neighbours its origin has.
    """
    best = _foremost((origins, targets), telling, 1)[0]
    kept, sizes = _foremost((origins[best],), [column[best] for column in relevant], most)
    return best[kept], sizes


def _foremost(groups: "Sequence[Column]", keys: "Sequence[Column]", most: int) -> "tuple[Rows, Rows]":
    """At most `most` rows of each group, those with the lowest keys, group by group; and the sizes of their groups."""
    order = np.lexsort((*reversed(keys), *reversed(groups)))
    changes = np.zeros(len(order), bool)
    changes[:1] = True
    for group in groups:
        changes[1:] |= group[order[1:]] != group[order[:-1]]
    starts = np.flatnonzero(changes)
    sizes = np.diff(starts, append=len(order))
    kept = np.arange(len(order)) - np.repeat(starts, sizes) < most
    return order[kept], np.repeat(sizes, sizes)[kept]
