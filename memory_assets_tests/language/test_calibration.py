"""Similarities have the same scale with every embedder and depend on the content of texts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.embedders import Embedder, open_embedder
from memory_assets.language.embedders.calibration import MEASURED, PLACES, Scale, measure, scale_of
from memory_assets.language.embedders.context import embed_in_context, meanings_of


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return open_embedder("auto")


def test_the_shipped_scales_are_those_of_the_weights(embedder: Embedder) -> None:
    assert measure(embedder) == pytest.approx(MEASURED[embedder.name], abs=0.01)


def test_a_threshold_means_the_same_with_every_embedder(embedder: Embedder) -> None:
    texts = [
        "The cellar was flooded after the storm.",
        "After the storm there was water in the cellar.",
        "Tax forms are due in May.",
    ]
    said, again, other = meanings_of(embedder, texts)
    scale = scale_of(embedder.name, None)
    assert scale.similarity(said @ again) > 0.75 > 0.6 > scale.similarity(said @ other)


def test_one_day_and_project_make_nothing_alike(embedder: Embedder) -> None:
    heading = "[Priya, 1 November 2026, atlas]"
    scale = scale_of(embedder.name, None)
    ok, tea = embed_in_context(embedder, ["ok", "Tea"], [heading, heading]).meanings
    assert scale.similarity(ok @ tea) < 0.7
    elsewhere = embed_in_context(embedder, ["ok"], ["[Joost, 3 May 2024, harbour]"])
    assert elsewhere.meanings[0] == pytest.approx(ok, abs=1e-6)
    question = embedder.embed(["What did Priya say in November 2026?"], "query")[0]
    here = embed_in_context(embedder, ["ok"], [heading])
    assert here.in_context[0] @ question > elsewhere.in_context[0] @ question


@pytest.mark.parametrize(
    ("embedder", "kept", "tells"),
    [
        ("bge-small-en-v1.5-int8", None, True),
        ("ollama:some-model", (0.1, 0.3, 0.5, 0.8), True),
        ("ollama:some-model", PLACES, False),
        ("ollama:some-model", None, False),
    ],
)
def test_only_measured_similarities_tell_what_is_foreign(embedder: str, kept: tuple[float, ...] | None, tells: bool) -> None:
    assert scale_of(embedder, kept).separates_unrelated is tells


@given(st.lists(st.floats(-0.99, 0.99), min_size=4, max_size=4, unique=True).map(sorted), st.floats(-1, 1))
def test_a_scale_rises_and_can_be_read_both_ways(cosines: list[float], cosine: float) -> None:
    if min(after - before for before, after in pairwise([-1, *cosines, 1])) < 0.001:
        return
    scale = Scale(tuple(cosines))
    assert scale.cosine(float(scale.similarity(np.array(cosine)))) == pytest.approx(cosine, abs=1e-9)
    assert scale.similarity(np.array(cosines)) == pytest.approx(PLACES)
