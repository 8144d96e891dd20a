"""Force-directed layout of a graph for drawing."""

import numpy as np

from memory_assets.arrays import Values

_PULL = 0.4
_GRAVITY = 0.03


def layout(count: int, edges: list[tuple[int, int, float]]) -> Values:
    """Return positions, shape (count, 2). Edges attract by their confidence; each round every node is repelled by a random sample.

    Sampled repulsion (as in LargeVis and UMAP) costs the same for every node, so thousands of nodes take a second.
    """
    random = np.random.default_rng(0)
    where = random.normal(scale=max(1.0, count**0.5), size=(count, 2))
    if count < 2:
        return where
    ends = np.array([(a, b) for a, b, _ in edges], np.int64).reshape(-1, 2)
    strength = np.array([max(0.05, confidence) for _, _, confidence in edges])
    degree = np.bincount(ends.ravel(), minlength=count).clip(1)
    samples, rounds = min(10, count - 1), 300
    for step in range(rounds):
        heat = 1 - step / rounds
        force = np.zeros_like(where)
        if len(ends):
            gap = where[ends[:, 1]] - where[ends[:, 0]]
            pull = _PULL * gap * (strength / np.sqrt(degree[ends[:, 0]] * degree[ends[:, 1]]).clip(1))[:, None]
            np.add.at(force, ends[:, 0], pull)
            np.add.at(force, ends[:, 1], -pull)
        others = random.integers(0, count, size=(count, samples))
        away = where[:, None, :] - where[others]
        distance = (away**2).sum(axis=2, keepdims=True) + 0.1
        force += (away / distance).sum(axis=1) * (count / samples) ** 0.5 * 2
        force -= _GRAVITY * where
        length = np.linalg.norm(force, axis=1, keepdims=True).clip(1e-9)
        where += force / length * np.minimum(length, 3 * heat + 0.05)
    return where
