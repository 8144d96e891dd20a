"""The scorer returns the seed's numbers."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.context.assembly import recency, score
from memory_assets.context.names import Candidate, choose_meant

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hops", "similarity", "fresh", "wanted"),
    [
        (1, 1.0, 1.0, 1.0),
        (1, 0.0, 0.0, 0.4),
        (2, 0.0, 0.0, 0.2),
        (3, 0.8, 0.5, 0.4 / 3 + 0.35 * 0.8 + 0.125),
        (1, None, 1.0, 1.0),
        (2, None, 0.5, 0.5),
        (4, None, 0.0, 0.15),
    ],
)
def test_scores(hops: int, similarity: float | None, fresh: float, wanted: float):
    assert score(hops, similarity, fresh) == pytest.approx(wanted)


def test_recency_halves_nothing_and_knows_the_unknown():
    assert recency(NOW - timedelta(days=30), NOW) == pytest.approx(1 / math.e)
    assert recency(NOW + timedelta(days=3), NOW) == 1.0
    assert recency(None, NOW) == 0.5


def test_a_neighbour_is_ahead_of_what_lies_beyond_it():
    assert score(1, 0.5, 0.5) > score(2, 0.5, 0.5) > score(3, 0.5, 0.5)


ADA, ADAM, BOB = Candidate("1", "Ada Lovelace", is_entity=True), Candidate("2", "Adam Lovelace"), Candidate("3", "Bob")


@pytest.mark.parametrize(
    ("topic", "candidates", "ids"),
    [
        ("ada lovelace", [ADA, BOB], ["1"]),
        ("Lovelace, Ada", [ADA], ["1"]),
        ("Ada Lovelacs", [ADA], ["1"]),
        ("Ada Lovelace", [ADA, ADAM], ["1", "2"]),
        ("Grace", [ADA, BOB], []),
        ("Bo", [BOB], []),
        ("Bo", [Candidate("4", "Bo")], ["4"]),
    ],
)
def test_a_topic_means_the_names_that_it_is_but_for_a_slip(topic: str, candidates: list[Candidate], ids: list[str]):
    assert [each.id for each in choose_meant(topic, candidates)] == ids


def test_a_topic_means_at_most_five():
    assert len(choose_meant("Project Heron", [Candidate(str(n), f"Project Heron {n}") for n in range(9)])) == 5
