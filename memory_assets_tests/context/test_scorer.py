"""The seed's numbers."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from memory_assets.context.resolver import Candidate, Status, resolve
from memory_assets.context.scorer import recency, score

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hops", "similarity", "fresh", "wanted"),
    [
        (0, 1.0, 1.0, 1.0),
        (0, 0.0, 0.0, 0.4),
        (1, 0.0, 0.0, 0.2),
        (2, 0.8, 0.5, 0.4 / 3 + 0.35 * 0.8 + 0.125),
        (0, None, 1.0, 1.0),
        (1, None, 0.5, 0.5),
        (3, None, 0.0, 0.15),
    ],
)
def test_scores(hops: int, similarity: float | None, fresh: float, wanted: float):
    assert score(hops, similarity, fresh) == pytest.approx(wanted)
    assert score(hops, similarity, fresh, boosted=True) == pytest.approx(min(1.0, wanted + 0.1))


def test_recency_halves_nothing_and_knows_the_unknown():
    assert recency(NOW - timedelta(days=30), NOW) == pytest.approx(1 / math.e)
    assert recency(NOW + timedelta(days=3), NOW) == 1.0
    assert recency(None, NOW) == 0.5


def test_a_neighbour_is_ahead_of_what_lies_beyond_it():
    assert score(1, 0.5, 0.5) > score(2, 0.5, 0.5) > score(3, 0.5, 0.5)


ADA, ADAM, BOB = Candidate("1", "Ada Lovelace", ("person",), entity=True), Candidate("2", "Adam Lovelace"), Candidate("3", "Bob")


@pytest.mark.parametrize(
    ("name", "candidates", "status", "first", "confidence"),
    [
        ("ada lovelace", [ADA, BOB], Status.MATCHED, "1", 1.0),
        ("Lovelace, Ada", [ADA], Status.MATCHED, "1", 1.0),
        ("Ada Lovelacs", [ADA], Status.MATCHED, "1", 0.95),
        ("Ada Lovelace", [ADA, ADAM], Status.AMBIGUOUS, "1", 1.0),
        ("Grace", [ADA, BOB], Status.NO_MATCH, "", 0.0),
        ("Bo", [BOB], Status.NO_MATCH, "", 0.0),
        ("Bo", [Candidate("4", "Bo")], Status.MATCHED, "4", 1.0),
        ("the engine", [Candidate("5", "machine", cosine=0.99)], Status.MATCHED, "5", 0.49 * 1.9),
        ("the engine", [Candidate("5", "machine", cosine=0.49)], Status.NO_MATCH, "", 0.0),
    ],
)
def test_names_resolve(name: str, candidates: list[Candidate], status: Status, first: str, confidence: float):
    found = resolve(name, candidates)
    assert found.status is status
    if first:
        assert found.matches[0].candidate.id == first
        assert found.matches[0].confidence == pytest.approx(confidence)


def test_at_most_five_and_a_bonus_for_the_tag_that_was_asked_for():
    many = [Candidate(str(n), f"Project Heron {n}") for n in range(9)]
    assert len(resolve("Project Heron", many).matches) == 5
    near = Candidate("1", "Heron 2", ("project",))
    plain, tagged = (resolve("Heron 9", [near], tag=tag, threshold=0.5).matches[0].confidence for tag in ("", "project"))
    assert tagged == pytest.approx(min(0.95, plain + 0.10))
