"""Names are found as written, within a topic, and with typos; each neighbour keeps its most informative link."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.context.names import Names
from memory_assets.context.neighbours import choose_links

KNOWN = ["priya", "project heron", "heron", "al", "the quay of the old harbour authority"]


def near(topic: str, loose: list[bool] | None = None) -> set[str]:
    return {KNOWN[row] for row in Names(pa.array(KNOWN), None if loose is None else np.array(loose)).near(topic)}


def test_a_topic_finds_the_names_that_it_is_holds_or_misspells():
    assert near("Project Heron") == {"project heron", "heron"}
    assert near("what does Priya want of project Heron?") == {"priya", "project heron", "heron"}
    assert near("Prija") == {"priya"}
    assert near("who is al") == set()
    assert near("AL") == {"al"}
    assert near("Project Heron", [True, True, False, True, True]) == {"project heron"}
    assert near("The quay of the old harbour authority") == {"the quay of the old harbour authority"}
    assert set(Names(pa.array(KNOWN)).exactly(["HERON", "nobody"])) == {2}


links = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3), st.integers(0, 9)), max_size=40)


@given(links, st.integers(1, 4))
def test_of_each_neighbour_the_most_telling_link_is_kept_and_of_each_node_the_most_relevant(
    rows: list[tuple[int, ...]], most: int
):
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(4)]
    chosen, sizes = choose_links(columns[0], columns[1], [columns[2]], [columns[3], columns[1]], most)
    expected = []
    for origin in sorted({row[0] for row in rows}):
        best: dict[int, tuple[int, int]] = {}
        for place, (start, target, telling, _) in enumerate(rows):
            if start == origin:
                best[target] = min(best.get(target, (telling, place)), (telling, place))
        order = sorted(best, key=lambda target: (rows[best[target][1]][3], target))
        expected += [(best[target][1], len(best)) for target in order[:most]]
    assert list(zip(chosen.tolist(), sizes.tolist(), strict=True)) == expected
