import numpy as np

from memory_assets.graph.layout import layout


def test_the_layout_is_repeatable_and_pulls_the_connected_together():
    edges = [(a, b, 1.0) for group in (range(10), range(10, 20)) for a in group for b in group if a < b]
    where = layout(20, edges)
    assert np.array_equal(where, layout(20, edges))
    assert np.isfinite(where).all()
    middles = where[:10].mean(axis=0), where[10:].mean(axis=0)
    assert np.linalg.norm(where[:10] - middles[0], axis=1).mean() < np.linalg.norm(middles[0] - middles[1])
    assert layout(0, []).shape == (0, 2)
    assert layout(1, []).shape == (1, 2)
