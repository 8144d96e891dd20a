import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_assets.recall import arrays
from memory_assets.recall.arrays import Columns, Grouping, ranges

KEYS = st.integers(0, 6)


@given(st.lists(st.integers(0, 9), max_size=40), st.lists(st.integers(0, 9), max_size=10))
def test_ranges_gives_every_place_of_every_wanted_key(keys: list[int], wanted: list[int]):
    keys.sort()
    places, found = ranges(np.array(keys, np.int64), np.array(wanted, np.int64))
    expected = [(place, at) for place, key in enumerate(wanted) for at, each in enumerate(keys) if each == key]
    assert list(zip(places.tolist(), found.tolist(), strict=True)) == expected


@pytest.mark.parametrize("most", [0, 2, 1_000])
@given(
    first=st.dictionaries(KEYS, st.integers(0, 4)),
    changes=st.lists(st.dictionaries(KEYS, st.integers(0, 4), max_size=3), max_size=5),
    wanted=st.lists(KEYS, max_size=8),
)
@example(first={0: 1}, changes=[{0: 0}], wanted=[])
def test_a_grouping_has_exactly_the_rows_that_the_changes_left(most, first, changes, wanted):
    rows = iter(range(1_000))
    model = {key: [next(rows) for _ in range(count)] for key, count in sorted(first.items())}
    base = [(key, row) for key, members in model.items() for row in members]
    grown = Grouping.of_sorted(np.array([key for key, _ in base], np.int64), np.array([row for _, row in base], np.intp))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "_MOST_CHANGED", most)
        for change in changes:
            after = {key: [*model.get(key, [])[1:], *(next(rows) for _ in range(count))] for key, count in change.items()}
            model |= after
            grown = grown.changed({key: np.array(members, np.intp) for key, members in after.items()})
    keys = np.array(wanted, np.int64)
    pairs = [(place, row) for place, key in enumerate(wanted) for row in model.get(key, [])]
    assert list(zip(*map(np.ndarray.tolist, grown.of(keys)), strict=True)) == pairs
    assert sorted(grown.keys().tolist()) == sorted(key for key, members in model.items() for _ in members)
    for key, members in model.items():
        assert grown.rows_of(key).tolist() == members
        for step in (-1, 1):
            beside = grown.beside(np.full(len(members), key), np.array(members, np.intp), step)
            shifted = [*members[1:], -1] if step == 1 else [-1, *members[:-1]]
            assert beside.tolist() == (shifted if members else [])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=12))
def test_columns_that_grew_from_the_same_ones_do_not_touch_each_other(growths: list[tuple[int, int]]):
    made = [(Columns({"a": np.arange(3)}), [0, 1, 2])]
    for origin, value in growths:
        columns, expected = made[origin % len(made)]
        made.append((columns.grown({"a": np.full(value % 4, value)}), expected + [value] * (value % 4)))
    for columns, expected in made:
        assert columns["a"].tolist() == expected
        assert len(columns) == len(expected)
