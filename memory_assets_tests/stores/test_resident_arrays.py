"""Searches in the arrays of the resident copy: vectors, meanings, scores."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.stores.resident import words
from memory_assets.stores.resident.segment import Vectors, quantised
from memory_assets.stores.resident.words import Words, best_rows
from memory_assets.stores.search import UNMEASURED
from memory_assets_tests.stores.unit_vectors import vectors


@pytest.mark.parametrize("dimension", [100, 256, 384])
def test_the_nearest_of_many_vectors_are_found(dimension: int) -> None:
    topics = np.repeat(vectors(60, seed=2, dimension=dimension), 100, axis=0)
    many = topics + 0.8 * vectors(6_000, seed=3, dimension=dimension)
    many /= np.linalg.norm(many, axis=1, keepdims=True)
    kept, allowed = Vectors.of(quantised(many, np.int16)), np.arange(6_000) % 3 > 0
    hits = 0
    for question in many[::600]:
        rows, similarity = kept.nearest(question, allowed, 10)
        assert allowed[rows].all()
        assert similarity == pytest.approx(many[rows] @ question, abs=2e-4)
        best = np.flatnonzero(allowed)[np.argsort(-(many[allowed] @ question))[:10]]
        hits += len(np.intersect1d(best, rows))
    assert hits >= 95


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40), dimension=st.integers(1, 400))
def test_meanings_are_measured_nearly_as_they_were_and_none_where_there_is_none(seed: int, size: int, dimension: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = chance.standard_normal((size, dimension)).astype(np.float32) * 10.0 ** chance.integers(-3, 3)
    missing = chance.random(size) < 0.3
    matrix[missing] = 0
    kept, rows = chance.random(size) < 0.8, np.arange(size)
    meanings = Vectors.of(quantised(matrix, np.int8)[kept])
    question = vectors(1, seed=seed, dimension=dimension)[0]
    cosines = meanings.cosines(rows[: kept.sum()], question)
    assert (cosines[missing[kept]] == UNMEASURED).all()
    there = kept & ~missing
    expected = matrix[there] @ question / np.linalg.norm(matrix[there], axis=1)
    assert cosines[~missing[kept]] == pytest.approx(expected, abs=8e-3)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 5_000), zeros=st.floats(0, 1), count=st.integers(1, 1_500))
def test_the_best_rows_hold_the_largest_scores_and_none_of_zero(seed: int, size: int, zeros: float, count: int) -> None:
    chance = np.random.default_rng(seed)
    scores = np.where(chance.random(size) < zeros, 0, chance.integers(0, 50, size)).astype(np.float32)
    rows = best_rows(scores, count)
    assert (scores[rows] > 0).all()
    assert len(np.unique(rows)) == len(rows)
    wanted = np.sort(scores[scores > 0])[::-1][:count]
    assert np.array_equal(np.sort(scores[rows])[::-1][: len(wanted)], wanted)


@given(seed=st.integers(0, 2**32 - 1), limit=st.integers(1, 120))
def test_the_nearest_vectors_are_measured_exactly_and_come_in_order(seed: int, limit: int) -> None:
    chance = np.random.default_rng(seed)
    matrix = chance.standard_normal((1_500, 20)).astype(np.float32)
    vectors, allowed = Vectors.of(quantised(matrix, np.int16)), chance.random(1_500) < 0.8
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    rows, similarity = vectors.nearest(unit[7], allowed, limit)
    assert np.allclose(similarity, unit[rows] @ unit[7], atol=2e-4)
    assert (np.diff(similarity) <= 0).all()
    assert allowed[rows].all()
    assert len(rows) == limit


def as_they_are(words: Sequence[str]) -> list[str | None]:
    return list(words)


@given(texts=st.lists(st.text("ab ", max_size=12), max_size=30), at_once=st.integers(1, 40))
def test_texts_that_are_counted_a_few_at_once_are_indexed_as_all_together(texts: list[str], at_once: int) -> None:
    together = Words.of(pa.array(texts, pa.string()), as_they_are)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "_BATCH_TEXTS", at_once)
        apart = Words.of(pa.array(texts, pa.string()), as_they_are)
    assert apart.length == together.length == sum(len(text.split()) for text in texts)
    assert set(apart.terms.to_pylist()) == set(together.terms.to_pylist()) == {word for text in texts for word in text.split()}
    for term in together.terms.to_pylist():
        own, joined = apart.postings_of(term), together.postings_of(term)
        assert np.array_equal(apart.scores([(own, 1.0)], len(texts)), together.scores([(joined, 1.0)], len(texts)))
        assert own.stop - own.start == sum(term in text.split() for text in texts)
