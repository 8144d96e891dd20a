"""WordLlama: static token vectors averaged over a text, read straight from the package's data files.

The package itself is never imported: that takes longer than reading its two files, configures the root
logger as a side effect, and its own lookup of the tokenizer ends in a download.
"""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.protocol import EmbedderError, checked_texts, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Role

WORDLLAMA_NAME = "wordllama-l2-supercat-256"
_WEIGHTS = Path("weights/l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers/l2_supercat_tokenizer_config.json")


_PIECE = 32_768
"""Characters that are cut into tokens at once: the tokenizer's time grows faster than a text without spaces."""


def wordllama_files() -> tuple[Path, Path] | None:
    """Find the weights and the tokenizer in the installed package; None where they are not there."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    files = package / _WEIGHTS, package / _TOKENIZER
    return files if all(file.is_file() for file in files) else None


class WordLlamaEmbedder:
    """Mean of a text's 256-dimensional token vectors (WordLlama's `l2_supercat`), of any length of text."""

    name = WORDLLAMA_NAME

    def __init__(self) -> None:
        """Read the token table and the tokenizer.

        Raises:
            EmbedderError: The package is missing or one of its files cannot be read.
        """
        files = wordllama_files()
        if files is None:
            raise EmbedderError(
                f"Embedder {self.name!r}: the package 'wordllama' with its weights is not installed; run `pip install wordllama`."
            )
        from safetensors import SafetensorError, safe_open
        from tokenizers import Tokenizer

        weights, tokenizer = files
        try:
            with safe_open(weights, framework="np") as tensors:
                self._table: npt.NDArray[np.float16] = tensors.get_tensor("embedding.weight")
        except (SafetensorError, OSError) as error:
            raise EmbedderError(
                f"Embedder {self.name!r}: {weights} cannot be read ({error}); run `pip install --force-reinstall wordllama`."
            ) from error
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def dimension(self) -> int:
        """256."""
        return self._table.shape[1]

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "npt.NDArray[np.float32]":  # noqa: ARG002 - one for both
        """Embed texts, whatever their role; see `Embedder.embed`."""
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        means = np.empty((len(checked), self.dimension), dtype=np.float32)
        for row, text in enumerate(checked):
            pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
            encoded = self._tokenizer.encode_batch(pieces, add_special_tokens=False)
            tokens = [token for piece in encoded for token in piece.ids]
            means[row] = self._table[tokens].mean(axis=0, dtype=np.float32)
        return unit_rows(means, embedder=self.name, count=len(checked))
