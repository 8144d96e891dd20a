"""Random unit vectors."""

import numpy as np


def vectors(count: int, seed: int = 0, dimension: int = 70) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)
