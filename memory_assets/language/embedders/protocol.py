"""What every embedder promises, and the checks that hold each of them to it."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from memory_assets.errors import MemoryAssetsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt


Role = Literal["document", "query"]
"""What a text is: one that is stored, or the words of somebody who searches. Some models want them told apart."""


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

    def embed(self, texts: "Sequence[str]", role: Role = "document") -> "npt.NDArray[np.float32]":
        """Unit vectors, shape (len(texts), dimension); a text's does not depend on its neighbours. No text may be blank."""
        ...


def checked_texts(texts: "Sequence[str]", embedder: str) -> list[str]:
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


@contextmanager
def faults_as_sentences(embedder: str, command: str) -> "Iterator[None]":
    """Let an embedder that runs in this process fail in a sentence."""
    try:
        yield
    except (RuntimeError, OSError, ValueError, MemoryError) as error:
        what = (str(error).splitlines() or [""])[0][:200]
        raise EmbedderError(
            f"Embedder {embedder!r} failed ({type(error).__name__}: {what}); free memory, or run `{command} --force-reinstall`."
        ) from error


def unit_rows(vectors: object, *, embedder: str, count: int, dimension: int | None = None) -> "npt.NDArray[np.float32]":
    """Check vectors that came from a model, `count` rows of `dimension` (of any, if None), and scale each to unit length."""
    try:
        rows = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbedderError(f"Embedder {embedder!r} returned vectors that are not rows of numbers.") from None
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise EmbedderError(f"Embedder {embedder!r} returned vectors that are not rows of numbers.")
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
