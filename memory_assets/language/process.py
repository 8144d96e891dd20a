"""Analysing and embedding memories; an error names the step that failed (seed 001, section 2)."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from memory_assets.errors import MemoryAssetsError
from memory_assets.language.embedders.context import embed_in_context
from memory_assets.language.embedders.protocol import Embedder
from memory_assets.language.pipeline import AnalysisError, Analyzer
from memory_assets.language.tags import merge_tags
from memory_assets.models import Memory, TextVectors


class Step(StrEnum):
    """The steps of processing, in order; the caller does the first (`language.validation`)."""

    VALIDATION = "validation"
    ENTITIES = "entities"
    """Entities, actions and automatic tags, found in one analysis."""
    EMBEDDING = "embedding"


class ProcessingError(MemoryAssetsError):
    """A memory could not be processed, and nothing of it was stored; the message begins with the step that failed.

    `index` is the text's index in the batch, from 0, or None if the step failed for the whole batch.
    """

    def __init__(self, step: Step, reason: str, index: int | None = None) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.index = index


def process_batch(
    drafts: Sequence[Memory], headed: Sequence[tuple[str, str]], analyzer: Analyzer, embedder: Embedder
) -> tuple[list[Memory], TextVectors]:
    """Add entities, actions and tags (the user's first, then automatic ones) to valid memories; return them and their vectors.

    `headed` holds the heading and statement to embed of each memory.
    Raise ProcessingError if a step failed for at least one of them.
    """
    headings, statements = zip(*headed, strict=True)
    embedding = _embedding_threads().submit(embed_in_context, embedder, statements, headings)
    with _errors_of(Step.ENTITIES):
        features = analyzer.analyze_batch(draft.content for draft in drafts)
    with _errors_of(Step.EMBEDDING):
        vectors = embedding.result()
    memories = [
        replace(
            draft,
            tags=merge_tags(draft.tags, found.tags),
            entities=found.entities,
            actions=found.actions,
            pipeline=analyzer.name,
        )
        for draft, found in zip(drafts, features, strict=True)
    ]
    return memories, vectors


@lru_cache(maxsize=1)
def _embedding_threads() -> ThreadPoolExecutor:
    """Return threads for embedding: embedders release the GIL, so they run while spaCy, which holds it, analyses."""
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="embedding")


os.register_at_fork(after_in_child=_embedding_threads.cache_clear)


@contextmanager
def _errors_of(step: Step) -> Iterator[None]:
    try:
        yield
    except AnalysisError as error:
        raise ProcessingError(step, str(error), error.index) from error
    except MemoryAssetsError as error:
        raise ProcessingError(step, str(error)) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ProcessingError(step, f"{type(error).__name__}: {error}") from error
