"""From text and a user's tags to a whole memory, or to one error that names the step.

These are the first six of the eight steps of seed 001, section 2; storing and the splash belong to others.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from memory_assets.errors import MemoryAssetsError
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.protocol import Embedder
from memory_assets.language.pipeline import AnalysisError, Analyzer
from memory_assets.language.tags import merge_tags
from memory_assets.language.validation import validate_content, validate_tags
from memory_assets.models import MAX_CONTENT_LENGTH, Entity, TextVectors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_UNIT_TOLERANCE = 1e-3
"""How far a vector's length may be from 1; float32 rounding over 4,096 dimensions stays well below."""


class Step(StrEnum):
    """The steps of processing, in order."""

    VALIDATION = "validation"
    ENTITIES = "entities"
    """Entities, actions and automatic tags, which come from one analysis."""
    EMBEDDING = "embedding"


class ProcessingError(MemoryAssetsError):
    """A memory could not be processed, and nothing of it was kept; the message begins with the step that failed.

    `index` says which of several texts it was, counted from 0; None if the step failed for all of them at once.
    """

    def __init__(self, step: Step, reason: str, index: int | None = None) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.index = index


@dataclass(frozen=True, slots=True)
class Processed:
    """A memory that has passed every step and only needs storing."""

    content: str
    tags: tuple[str, ...]
    """The user's, then the automatic ones, normalised, each once."""
    entities: tuple[Entity, ...]
    actions: tuple[str, ...]
    embedding: "npt.NDArray[np.float32]"
    """Of what it says: a unit vector, shape (dimension,)."""
    in_context: "npt.NDArray[np.float32]"
    """The same with its heading, where it has one."""
    embedder: str
    pipeline: str


def process_batch(
    items: Sequence[tuple[object, object]],
    analyzer: Analyzer,
    embedder: Embedder,
    *,
    headed: Sequence[tuple[str, str]] | None = None,
    longest: int = MAX_CONTENT_LENGTH,
) -> list[Processed]:
    """Validate, analyse, tag and embed several (text, user's tags) pairs.

    `headed` are headings and statements, which are embedded in place of the contents where who, when and where belong to what
    searches ask; `longest` is the most characters of a content.
    """
    contents: list[str] = []
    user_tags: list[tuple[str, ...]] = []
    for index, (text, tags) in enumerate(items):
        with _step(Step.VALIDATION, index):
            contents.append(validate_content(text, longest))
            user_tags.append(validate_tags(tags))
    embedding = _embedding_threads().submit(_embed, embedder, contents, headed) if contents else None
    with _step(Step.ENTITIES):
        try:
            features = analyzer.analyze_batch(contents)
        except AnalysisError as error:
            raise ProcessingError(Step.ENTITIES, str(error), error.index) from error
    with _step(Step.EMBEDDING):
        if not embedding:
            return []
        vectors = embedding.result()
    for made in vectors:
        _check_vectors(made, len(contents), embedder)
    return [
        Processed(
            content=content,
            tags=merge_tags(tags, found.tags),
            entities=found.entities,
            actions=found.actions,
            embedding=meaning,
            in_context=in_context,
            embedder=embedder.name,
            pipeline=analyzer.name,
        )
        for content, tags, found, meaning, in_context in zip(contents, user_tags, features, *vectors, strict=True)
    ]


def _embed(embedder: Embedder, contents: Sequence[str], headed: Sequence[tuple[str, str]] | None) -> TextVectors:
    if headed is None:
        vectors = embedder.embed(contents)
        return TextVectors(vectors, vectors)
    headings, statements = zip(*headed, strict=True)
    return embed_in_context(embedder, statements, headings)


@lru_cache(maxsize=1)
def _embedding_threads() -> ThreadPoolExecutor:
    """Embedders leave the interpreter to others while they compute or wait, and spaCy needs it: so both go on at once."""
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="embedding")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_embedding_threads.cache_clear)


@contextmanager
def _step(step: Step, index: int | None = None) -> Iterator[None]:
    """Turn what a step may raise into a `ProcessingError` that names it."""
    try:
        yield
    except MemoryAssetsError as error:
        raise ProcessingError(step, str(error), index) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ProcessingError(step, f"{type(error).__name__}: {error}", index) from error


def _check_vectors(array: "npt.NDArray[np.float32]", count: int, embedder: Embedder) -> None:
    import numpy as np

    if array.shape != (count, embedder.dimension) or array.dtype != np.float32:
        raise ProcessingError(
            Step.EMBEDDING,
            f"embedder {embedder.name!r} gave {array.dtype} vectors of shape {array.shape}, not float32"
            f" ({count}, {embedder.dimension}).",
        )
    lengths = np.linalg.norm(array, axis=1)
    if not np.all(np.abs(lengths - 1) < _UNIT_TOLERANCE):
        raise ProcessingError(Step.EMBEDDING, f"embedder {embedder.name!r} gave a vector that is not of unit length.")
