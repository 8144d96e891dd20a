"""Similarity of words to texts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.nearness import nearness


def test_a_word_is_nearest_to_itself_and_nearer_to_its_kin_than_to_others():
    itself, kin, other = nearness(["dog"], ["the dog is out", "a puppy sleeps", "invoice number nine"])[0]
    assert itself > 0.99
    assert itself > kin > other


@given(st.lists(st.text(max_size=20), max_size=4), st.lists(st.text(max_size=40), max_size=4))
def test_any_words_and_texts_have_a_nearness(asked: list[str], texts: list[str]):
    found = nearness(asked, texts)
    assert found.shape == (len(asked), len(texts))
    assert np.abs(found).max(initial=0.0) < 1.01
