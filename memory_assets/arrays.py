"""Type aliases of the NumPy arrays that packages pass to each other, and the look-up of ids in them."""

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
"""Ids of memories, nodes of the graph or word pieces."""
Times = npt.NDArray[np.int64]
"""Microseconds since 1970."""
Rows = npt.NDArray[np.intp]
"""Positions in other arrays; -1 usually means none."""
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
"""Vectors and their cosines."""
Values = npt.NDArray[np.float64]
"""Measures and scores."""


def places_of(ids: Ids, known: Ids, by_id: Rows | None = None) -> Rows:
    """Return the place of each id in `known`, which `by_id` sorts unless it is sorted; -1 for an unknown id."""
    if not len(known):
        return np.full(len(ids), -1, np.intp)
    places = np.minimum(np.searchsorted(known, ids, sorter=by_id), len(known) - 1)
    places = places if by_id is None else by_id[places]
    return np.where(known[places] == ids, places, -1)
