import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memory_assets.language.embedders import EmbedderError
from memory_assets.language.embedders.protocol import checked_texts, unit_rows


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 8)),
        elements=st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
    )
)
def test_every_finite_row_that_is_not_zero_comes_back_with_unit_length(vectors):
    if (vectors == 0).all(axis=1).any():
        with pytest.raises(EmbedderError, match="zero vector"):
            unit_rows(vectors, embedder="e", count=len(vectors))
        return
    rows = unit_rows(vectors, embedder="e", count=len(vectors))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("vectors", "complaint"),
    [
        ([[1.0, float("nan")]], "not a finite number"),
        ([[1.0, float("inf")]], "not a finite number"),
        ([[1.0, None]], "not a finite number"),
        ([[0.0, 0.0]], "zero vector"),
        ([[1.0, 2.0], [3.0, 4.0]], "2 vectors for 1 texts"),
        ([[1.0, 2.0, 3.0]], "3 values where 2 are expected"),
        ([[1.0, 2.0], [3.0]], "not rows of numbers"),
        ([["a", "b"]], "not rows of numbers"),
        ([[10**400, 1]], "not rows of numbers"),
        ([{"embedding": 1}], "not rows of numbers"),
        ([[]], "not rows of numbers"),
        ([], "not rows of numbers"),
        (None, "not rows of numbers"),
        ("AAAA", "not rows of numbers"),
    ],
)
def test_unusable_vectors_are_refused_with_the_embedders_name(vectors, complaint):
    with pytest.raises(EmbedderError, match=complaint) as caught:
        unit_rows(vectors, embedder="ollama:odd", count=1, dimension=2)
    assert "ollama:odd" in str(caught.value)


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_text_is_refused_with_its_position(blank):
    with pytest.raises(EmbedderError, match="text 2 of 3 is blank"):
        checked_texts(["a", blank, "b"], "e")


def test_a_lone_surrogate_is_refused_with_its_position():
    with pytest.raises(EmbedderError, match="text 1 of 1 has a lone surrogate at character 2"):
        checked_texts(["ab\ud800"], "e")
