"""Any model that the optional package sentence-transformers can load."""

from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.prefixes import Prefixes, prefixes_of, recorded_name
from memory_assets.language.embedders.protocol import EmbedderError, checked_texts, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Role


class SentenceTransformersEmbedder:
    """Embeds with a sentence-transformers model, given by its hub name or by a folder.

    A model that is not in a folder is downloaded by that package at first use into `cache_dir`.
    """

    def __init__(self, model: str, *, cache_dir: "Path") -> None:
        """Load the model.

        Raises:
            EmbedderError: The package is not installed or cannot load the model.
        """
        self.name = recorded_name("sentence-transformers", model)
        try:
            from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise EmbedderError(
                f"Embedder {self.name!r} needs the package sentence-transformers; run `pip install sentence-transformers`."
            ) from None
        try:
            self._model = SentenceTransformer(model, cache_folder=str(cache_dir / "sentence-transformers"))
        except (OSError, ValueError, RuntimeError) as error:
            raise EmbedderError(
                f"Embedder {self.name!r} cannot be loaded ({error}); check the model's name or folder, and the"
                " connection if it has yet to be downloaded."
            ) from error
        known = prefixes_of(model)
        self._prefixes = known if any(known) else Prefixes(query=self._model.prompts.get("query") or "")
        self._dimension = self._encode(["dimension"], "document").shape[1]

    @property
    def dimension(self) -> int:
        """Length of every vector, as the model gave it when it was loaded."""
        return self._dimension

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "npt.NDArray[np.float32]":
        """Embed texts; see `Embedder.embed`."""
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._encode(checked, role)

    def _encode(self, texts: list[str], role: "Role") -> "npt.NDArray[np.float32]":
        prefix = self._prefixes.query if role == "query" else self._prefixes.document
        vectors = self._model.encode(texts, prompt=prefix or None, convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(vectors, embedder=self.name, count=len(texts))
