"""The interface of embedders, the checks of their texts and vectors, and the base class of local ones."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from memory_assets.arrays import Floats, Mask
from memory_assets.errors import MemoryAssetsError, first_line

Role = Literal["document", "query"]
"""Whether a text is stored or a search query; some models treat them differently."""


_LENGTH_TOLERANCE = 1e-3


def are_whole(vectors: Floats) -> Mask:
    """Return which of stored vectors, shape (n, dimension), have length 1, as embedders make them; others are damaged."""
    return np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1) <= _LENGTH_TOLERANCE


class EmbedderError(MemoryAssetsError):
    """A text could not be embedded; the message names the embedder and the fix."""


class EmbedderAwayError(EmbedderError):
    """The embedding service is temporarily unavailable; a later request may succeed.

    Attributes:
        failed: Whether the service answered that it failed on the request; then one of its texts may be the cause.
    """

    def __init__(self, message: str, *, failed: bool = False) -> None:
        super().__init__(message)
        self.failed = failed


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their cosine similarity."""

    @property
    def name(self) -> str:
        """The model and the version of its weights; rows record it, and vectors of different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector; a remote embedder may need one request to learn it."""
        ...

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        """Return unit vectors, shape (len(texts), dimension), each independent of the other texts. No text may be blank."""
        ...


def checked_texts(texts: Sequence[str], embedder: str) -> list[str]:
    """Return the texts as a list; raises on blank texts and lone surrogates, which no embedder can embed."""
    for position, text in enumerate(texts, start=1):
        if not text.strip():
            raise EmbedderError(f"Embedder {embedder!r}: text {position} of {len(texts)} is blank; remove it or give it content.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise EmbedderError(
                f"Embedder {embedder!r}: text {position} of {len(texts)} has a lone surrogate at character"
                f" {error.start}; pass valid Unicode."
            ) from None
    return list(texts)


def unit_rows(vectors: object, *, embedder: str, count: int, dimension: int | None = None) -> Floats:
    """Check a model's vectors, `count` rows of `dimension` values (any number if None), and scale each to unit length."""
    try:
        rows = np.asarray(vectors, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise EmbedderError(f"Embedder {embedder!r} returned vectors that are not rows of numbers.") from None
    if len(rows) != count:
        raise EmbedderError(f"Embedder {embedder!r} returned {len(rows)} vectors for {count} texts.")
    if dimension is not None and rows.shape[1] != dimension:
        raise EmbedderError(
            f"Embedder {embedder!r} returned vectors of {rows.shape[1]} values where {dimension} are expected;"
            " the model behind that name has changed."
        )
    if not np.isfinite(rows).all():
        raise EmbedderError(f"Embedder {embedder!r} returned a value that is not a finite number.")
    # Scale by the largest magnitude first: squares of extreme values exceed the range of a float.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if (largest == 0).any():
        raise EmbedderError(f"Embedder {embedder!r} returned a zero vector, which has no direction.")
    rows = rows / largest
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class LocalEmbedder(ABC):
    """Embeds in this process; a text longer than the model's window gets the direction of the sum of its parts' vectors."""

    name: str
    dimension: int
    install_command: str

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, self.dimension), np.float32)
        try:
            parts = [self._parts(text) for text in checked]
            vectors = self._vectors([part for of_text in parts for part in of_text], role)
        except (RuntimeError, OSError, ValueError, MemoryError) as error:
            what = f"{type(error).__name__}: {first_line(error)}"
            mend = f"free memory, or run `{self.install_command} --force-reinstall`"
            raise EmbedderError(f"Embedder {self.name!r} failed ({what}); {mend}.") from error
        starts = np.cumsum([0] + [len(of_text) for of_text in parts[:-1]])
        return unit_rows(np.add.reduceat(vectors, starts), embedder=self.name, count=len(checked), dimension=self.dimension)

    @abstractmethod
    def _parts(self, text: str) -> Sequence[Any]:
        """Split a text into the model's windows."""

    @abstractmethod
    def _vectors(self, parts: "list[Any]", role: Role) -> Floats:
        """Return the unit vector of each part."""
