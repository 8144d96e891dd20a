import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_assets.language.embedders import EmbedderError, open_embedder

TEXTS = [
    "why did we leave MongoDB",
    "a",
    "Übergrößen, 中文 und 😀",
    "  leading blanks\nand a second line ",
    "x" * 7_500,
    "the lock on the analytics file " * 200,
]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return open_embedder("wordllama", cache_dir=tmp_path_factory.mktemp("cache"))


def test_vectors_equal_those_of_the_wordllama_package(embedder, tmp_path):
    # In a process of its own, as importing wordllama configures the root logger.
    script = """
import json, pathlib, sys
import numpy, wordllama
model = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
numpy.save(sys.argv[1], model.embed(json.loads(sys.stdin.read()), norm=True))
"""
    saved = tmp_path / "expected.npy"
    subprocess.run([sys.executable, "-c", script, str(saved)], input=json.dumps(TEXTS), text=True, check=True, timeout=120)
    np.testing.assert_allclose(embedder.embed(TEXTS), np.load(saved), atol=1e-6)


def test_the_wordllama_package_is_never_imported():
    script = """
import sys
from pathlib import Path
from memory_assets.language.embedders import open_embedder
open_embedder("wordllama", cache_dir=Path("unused")).embed(["a text"])
sys.exit("wordllama" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_name_and_dimension_are_those_that_rows_record(embedder):
    assert embedder.name == "wordllama-l2-supercat-256"
    assert embedder.dimension == 256
    assert embedder.embed([]).shape == (0, 256)


@given(st.lists(st.text(min_size=1).filter(lambda text: text.strip()), min_size=1, max_size=6))
def test_any_valid_texts_give_unit_rows_in_their_order(embedder, texts):
    together = embedder.embed(texts)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(EmbedderError, match="pip install wordllama"):
        open_embedder("wordllama", cache_dir=tmp_path)


def test_damaged_weights_are_named_with_their_file(monkeypatch, tmp_path):
    package = tmp_path / "wordllama"
    for file in ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json", "__init__.py"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text("damaged", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EmbedderError, match=r"l2_supercat_256.safetensors cannot be read .* --force-reinstall wordllama"):
        open_embedder("wordllama", cache_dir=tmp_path)
