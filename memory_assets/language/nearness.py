"""Similarity in meaning of words to texts, by bge-small's input embeddings: a table lookup, without context."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.arrays import Floats
from memory_assets.language.embedders.bge import DIMENSION, checked_files, open_tokenizer, read_tensors
from memory_assets.language.words import words

if TYPE_CHECKING:
    import numpy.typing as npt
    from tokenizers import Tokenizer


def nearness(asked: Sequence[str], texts: Sequence[str]) -> Floats:
    """Return the cosine of each word with the nearest word of each text, shape (words, texts); 0 if either has no letters."""
    of_asked = np.array([_vector(word) for word in asked], np.float32).reshape(-1, DIMENSION)
    found = np.zeros((len(asked), len(texts)), np.float32)
    for place, text in enumerate(texts):
        if said := set(words(text)):
            found[:, place] = (of_asked @ np.array([_vector(word) for word in said], np.float32).T).max(axis=1)
    return found


@lru_cache(maxsize=1 << 13)
def _vector(word: str) -> "npt.NDArray[np.float16]":
    """Return the unit vector of a word, the mean of its pieces; zeros if it has none."""
    tokenizer, table = _opened()
    ids = tokenizer.encode(word, add_special_tokens=False).ids
    mean = (table[ids].astype(np.float32) - 128).sum(axis=0)
    return (mean / max(1e-6, float(np.linalg.norm(mean)))).astype(np.float16)


@cache
def _opened() -> "tuple[Tokenizer, npt.NDArray[Any]]":
    model, tokenizer = checked_files()
    return open_tokenizer(tokenizer), read_tensors(model)["embeddings.word_embeddings.weight_quantized"]
