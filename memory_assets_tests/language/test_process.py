from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pytest

from memory_assets.errors import SettingsError
from memory_assets.language.embedders.protocol import Embedder, EmbedderError, Role
from memory_assets.language.pipeline import Analyzer, open_analyzer
from memory_assets.language.process import ProcessingError, Step, process_batch
from memory_assets.models import Kind, Memory, Source, TextVectors

NOW = datetime(2026, 6, 1, tzinfo=UTC)


class LetterEmbedder:
    """Counts letters: a real, if poor, embedding with unit rows."""

    name = "letters-1"
    dimension = 27

    def embed(self, texts: Sequence[str], role: Role = "document") -> npt.NDArray[np.float32]:
        counts = np.array([[1.0, *(text.lower().count(chr(97 + i)) for i in range(26))] for text in texts])
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


class BrokenEmbedder(LetterEmbedder):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def embed(self, texts: Sequence[str], role: Role = "document") -> npt.NDArray[np.float32]:
        raise self.error


TEXTS = ["Alice fixed the DuckDB lock.", "We moved to Postgres.", "Rust is fast.", "short", "机器学习 🚀"]


def process(texts: Sequence[str], analyzer: Analyzer, embedder: Embedder) -> tuple[list[Memory], TextVectors]:
    drafts = [Memory(1, text, Kind.NOTE, Source.CLI, "", NOW, NOW, tags=("Bug Fixes",)) for text in texts]
    return process_batch(drafts, [("[note]", text) for text in texts], analyzer, embedder)


def test_one_call_gives_a_whole_memory(analyzer: Analyzer):
    (memory,), vectors = process(TEXTS[:1], analyzer, LetterEmbedder())
    assert memory.content == "Alice fixed the DuckDB lock."
    assert memory.tags[0] == "bug-fix"
    assert {"alice", "duckdb"} < set(memory.tags)
    assert memory.actions == ("fix",)
    assert [entity.text for entity in memory.entities] == ["Alice", "DuckDB"]
    assert memory.pipeline == analyzer.name
    assert vectors.meanings.shape == vectors.in_context.shape == (1, 27)


def test_a_batch_gives_what_one_at_a_time_gives(analyzer: Analyzer):
    batch, vectors = process(TEXTS, analyzer, LetterEmbedder())
    for text, memory, meaning in zip(TEXTS, batch, vectors.meanings, strict=True):
        (single,), (alone, _) = process([text], analyzer, LetterEmbedder())
        assert memory == single
        assert np.allclose(meaning, alone, atol=1e-6)


def test_a_pipeline_that_fails_is_named(tmp_path):
    (tmp_path / "meta.json").write_text('{"lang": "en", "name": "broken", "version": "1"}', encoding="utf-8")
    with pytest.raises(ProcessingError, match=r"^entities: spaCy pipeline") as caught:
        process(["fine"], open_analyzer(str(tmp_path)), LetterEmbedder())
    assert caught.value.step is Step.ENTITIES
    assert isinstance(caught.value.__cause__, SettingsError)


@pytest.mark.parametrize("error", [EmbedderError("the service is away: start it."), RuntimeError("out of memory")])
def test_an_embedder_that_fails_is_named(analyzer: Analyzer, error: Exception):
    with pytest.raises(ProcessingError, match=r"^embedding: ") as caught:
        process(["fine"], analyzer, BrokenEmbedder(error))
    assert caught.value.step is Step.EMBEDDING
