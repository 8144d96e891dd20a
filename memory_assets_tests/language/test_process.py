from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from memory_assets.errors import SettingsError
from memory_assets.language.embedders.protocol import EmbedderError, Role
from memory_assets.language.pipeline import Analyzer, open_analyzer
from memory_assets.language.process import ProcessingError, Step, process_batch


class LetterEmbedder:
    """Counts letters: a real, if poor, embedding with unit rows."""

    name = "letters-1"
    dimension = 27

    def embed(self, texts: Sequence[str], role: Role = "document") -> npt.NDArray[np.float32]:
        counts = np.array([[1.0, *(text.lower().count(chr(97 + i)) for i in range(26))] for text in texts])
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


class BrokenEmbedder(LetterEmbedder):
    def __init__(self, result: object) -> None:
        self.result = result

    def embed(self, texts: Sequence[str], role: Role = "document") -> npt.NDArray[np.float32]:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # pyright: ignore[reportReturnType]


TEXTS = ["Alice fixed the DuckDB lock.", "We moved to Postgres.", "Rust is fast.", "short", "机器学习 🚀"]


def test_one_call_gives_a_whole_memory(analyzer: Analyzer):
    (memory,) = process_batch([("Alice fixed the DuckDB lock.", ["Bug Fixes"])], analyzer, LetterEmbedder())
    assert memory.content == "Alice fixed the DuckDB lock."
    assert memory.tags[0] == "bug-fix"
    assert {"alice", "duckdb"} < set(memory.tags)
    assert memory.actions == ("fix",)
    assert [entity.text for entity in memory.entities] == ["Alice", "DuckDB"]
    assert memory.embedding.shape == (27,)
    assert memory.embedding.dtype == np.float32
    assert (memory.embedder, memory.pipeline) == ("letters-1", analyzer.name)


def test_a_batch_gives_what_one_at_a_time_gives(analyzer: Analyzer):
    batch = process_batch([(text, ["t"]) for text in TEXTS], analyzer, LetterEmbedder())
    for text, memory in zip(TEXTS, batch, strict=True):
        (single,) = process_batch([(text, ["t"])], analyzer, LetterEmbedder())
        assert (memory.content, memory.tags, memory.entities, memory.actions) == (
            single.content,
            single.tags,
            single.entities,
            single.actions,
        )
        assert np.allclose(memory.embedding, single.embedding, atol=1e-6)


def test_an_empty_batch_is_fine(analyzer: Analyzer):
    assert process_batch([], analyzer, LetterEmbedder()) == []


@pytest.mark.parametrize(("text", "tags"), [("", []), ("ok", "tag"), (None, []), ("ok", [""]), ("x" * 7_501, [])])
def test_invalid_input_fails_in_validation(analyzer: Analyzer, text: object, tags: object):
    with pytest.raises(ProcessingError, match=r"^validation: ") as caught:
        process_batch([(text, tags)], analyzer, LetterEmbedder())
    assert caught.value.step is Step.VALIDATION


def test_one_bad_text_fails_its_batch_and_is_named(analyzer: Analyzer):
    with pytest.raises(ProcessingError, match=r"^validation: content is empty") as caught:
        process_batch([("fine", []), (" ", [])], analyzer, LetterEmbedder())
    assert caught.value.index == 1


def test_a_pipeline_that_fails_is_named(tmp_path):
    (tmp_path / "meta.json").write_text('{"lang": "en", "name": "broken", "version": "1"}', encoding="utf-8")
    with pytest.raises(ProcessingError, match=r"^entities: spaCy pipeline") as caught:
        process_batch([("fine", [])], open_analyzer(str(tmp_path)), LetterEmbedder())
    assert caught.value.step is Step.ENTITIES
    assert isinstance(caught.value.__cause__, SettingsError)


@pytest.mark.parametrize(
    "result",
    [
        EmbedderError("the service is away: start it."),
        RuntimeError("out of memory"),
        np.zeros((1, 27), dtype=np.float32),
        np.full((1, 27), np.nan, dtype=np.float32),
        np.ones((1, 27), dtype=np.float32),
        np.eye(27, dtype=np.float32)[:2],
        np.eye(26, dtype=np.float32)[:1],
        np.eye(27, dtype=np.float64)[:1],
    ],
)
def test_an_embedder_that_fails_or_gives_no_unit_vector_is_named(analyzer: Analyzer, result: object):
    with pytest.raises(ProcessingError, match=r"^embedding: ") as caught:
        process_batch([("fine", [])], analyzer, BrokenEmbedder(result))
    assert caught.value.step is Step.EMBEDDING
