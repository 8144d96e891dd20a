"""What every embedder promises, the checks of its texts and vectors, and what those that run in this process share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from memory_assets.arrays import Floats, Mask
from memory_assets.errors import MemoryAssetsError, first_line

Role = Literal["document", "query"]
"""What a text is: one that is stored, or the words of somebody who searches. Some models want them told apart."""


_LENGTH_TOLERANCE = 1e-3


def are_whole(vectors: Floats) -> Mask:
    """Which of stored vectors, shape (n, dimension), have length 1, as every embedder makes them: others are damaged."""
    return np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1) <= _LENGTH_TOLERANCE


class EmbedderError(MemoryAssetsError):
    """A text could not be turned into a vector; the message names the embedder and what mends it."""


class EmbedderAwayError(EmbedderError):
    """The service that embeds does not answer now; asked again later it may."""


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their cosine similarity."""

    @property
    def name(self) -> str:
        """Names the model and the version of its weights; rows record it, and vectors of different names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector; a remote embedder may need one call to learn it."""
        ...

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        """Unit vectors, shape (len(texts), dimension); a text's does not depend on its neighbours. No text may be blank."""
        ...


def checked_texts(texts: Sequence[str], embedder: str) -> list[str]:
    """Return the texts as a list, refusing those that no embedder can give a meaning to."""
    if isinstance(texts, str):
        raise TypeError("embed() takes a sequence of texts, not one string")
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
    """Check vectors that came from a model, `count` rows of `dimension` (of any, if None), and scale each to unit length."""
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
    # Scaled by the largest magnitude first, as squares of extreme values leave the range of a float.
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if (largest == 0).any():
        raise EmbedderError(f"Embedder {embedder!r} returned a zero vector, which has no direction.")
    rows = rows / largest
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class LocalEmbedder(ABC):
    """Embeds in this process; a text longer than the model's window gets the direction of the mean of its parts."""

    name: str
    dimension: int
    install_command: str

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        """See `Embedder.embed`."""
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
        """A text cut into what the model sees at once."""

    @abstractmethod
    def _vectors(self, parts: "list[Any]", role: Role) -> Floats:
        """The unit vector of each part."""
