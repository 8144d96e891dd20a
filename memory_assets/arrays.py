"""Type aliases of the NumPy arrays that packages pass to each other."""

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
