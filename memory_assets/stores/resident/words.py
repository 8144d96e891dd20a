"""An inverted index in memory with BM25 weights (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).

It finds the same as LanceDB's full-text index: words are runs of letters and digits, `Stem` maps them to terms, constants are LanceDB's.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from memory_assets.arrays import Floats, Ids, Rows
from memory_assets.compute import pc
from memory_assets.stores.tables import StoredTable

Stem = Callable[[Sequence[str]], "list[str | None]"]
"""The term of each word; None for a word that is not indexed."""

_K1 = 1.2
_B = 0.75
_FEW = 200
_BATCH_TEXTS = 65_536
"""Texts that are split at once, to bound the memory of building."""
_PILES = 1_024
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
_WORD = re.compile(r"[^\W_]+")
_MAX_CACHED_TERMS = 50_000
_BATCH_WORDS = 4_096
_NOT_INFLECTED = re.compile(r"[a-z0-9]{0,39}[0-9]")
"""Ticket numbers and similar words, which stemming does not change."""
_MARK = "sentinel"
"""Word before and after each batch; their distance shows whether the tokenizer kept each word as one."""


@dataclass(frozen=True, slots=True)
class Words:
    """The terms of a segment's texts."""

    terms: pa.StringArray
    """Sorted; a term's index is its number."""
    starts: Ids
    """Start of the postings of each term, and the end of the last."""
    rows: npt.NDArray[np.int32]
    weights: Floats
    """BM25 of each posting without the inverse document frequency."""
    length: int

    @classmethod
    def of(cls, texts: pa.StringArray, stem: Stem, mean_length: float | None = None) -> "Words":
        """Index texts, one a row, no nulls; `mean_length` is the mean number of terms of a text, by default of these texts."""
        codes: dict[str, int] = {}
        starts = range(0, max(1, len(texts)), _BATCH_TEXTS)
        words = np.concatenate([_make_postings(texts.slice(start, _BATCH_TEXTS), start, stem, codes) for start in starts])
        terms = pa.array(list(codes), pa.string())
        order = pc.sort_indices(terms).to_numpy()
        if len(words):
            words = (np.argsort(order)[words >> _ROW_BITS] << _ROW_BITS) | (words & _ROW)
        lengths = np.bincount(words & _ROW, minlength=len(texts))
        longer = _K1 * (1 - _B + _B * lengths / (mean_length or len(words) / max(1, len(texts)) or 1))
        postings, counts = np.unique(words, return_counts=True)
        sizes = np.bincount(postings >> _ROW_BITS, minlength=len(terms))
        rows = (postings & _ROW).astype(np.int32)
        weights = counts * (_K1 + 1) / (counts + longer[rows])
        return cls(terms.take(order), np.concatenate([[0], sizes.cumsum()]), rows, weights.astype(np.float32), len(words))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.weights.nbytes

    @property
    def vocabulary_nbytes(self) -> int:
        return self.terms.nbytes + self.starts.nbytes

    def postings_of(self, term: str) -> slice:
        code = bisect_left(range(len(self.terms)), term, key=lambda place: self.terms[place].as_py())
        is_there = code < len(self.terms) and self.terms[code].as_py() == term
        return slice(self.starts[code], self.starts[code + 1]) if is_there else slice(0, 0)

    def scores(self, weighted: Iterable[tuple[slice, float]], size: int) -> Floats:
        """Return the BM25 score of each of `size` rows for terms, given their postings and inverse document frequency; 0 if none occurs."""
        total = np.zeros(size, np.float32)
        for found, weight in weighted:
            np.add.at(total, self.rows[found], np.float32(weight) * self.weights[found])
        return total


def _make_postings(texts: pa.StringArray, first: int, stem: Stem, codes: dict[str, int]) -> Ids:
    """Return the term of each word shifted by `_ROW_BITS`, plus its row (texts start at row `first`); new terms get numbers in `codes`."""
    split = _split(texts)
    words = split.flatten().dictionary_encode()
    terms = stem(words.dictionary.to_pylist())
    code_of_word = np.array([-1 if term is None else codes.setdefault(term, len(codes)) for term in terms], np.int64)
    code, row = code_of_word[words.indices.to_numpy()], pc.list_parent_indices(split).to_numpy()
    return ((code << _ROW_BITS) + row + first)[code >= 0]


def best_rows(scores: Floats, count: int) -> Rows:
    """Return the rows of the `count` largest scores above 0 in any order, possibly with some smaller ones.

    The `count` best of the maxima of `_PILES` piles are a lower bound. Partitioning all scores takes twenty times as long.
    """
    dealt = len(scores) // _PILES * _PILES
    if count > _PILES or not dealt:
        return np.flatnonzero(scores)
    best = scores[:dealt].reshape(-1, _PILES).max(axis=0)
    bound = np.partition(best, -count)[-count]
    return np.flatnonzero(scores >= bound if bound > 0.0 else scores)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text)


def _split(texts: pa.StringArray) -> pa.ListArray:
    """Return the words of each text. For a few texts, Python is faster than compiling Arrow's pattern."""
    if len(texts) < _FEW:
        return pa.array([words_of(text) for text in texts.to_pylist()], pa.list_(pa.string()))
    return pc.split_pattern_regex(texts, r"[^\p{L}\p{N}]+")


def inverse_frequency(texts: int, holding: int) -> float:
    """Return BM25's ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log1p((texts - holding + 0.5) / (holding + 0.5))


class Terms:
    """The terms of words by the index on `indexed_text`, cached."""

    def __init__(self, stored: StoredTable) -> None:
        self._stored = stored
        self._cache: dict[str, str | None] = {}

    def __call__(self, words: Sequence[str]) -> list[str | None]:
        """The term of each word; None for a word that is not indexed."""
        known = self._cache
        found: dict[str, str | None] = {word: word for word in words if _NOT_INFLECTED.fullmatch(word)}
        unknown = [word for word in words if word and word not in known and word not in found]
        for start in range(0, len(unknown), _BATCH_WORDS):
            found |= self._tokenize(unknown[start : start + _BATCH_WORDS])
        if len(known) + len(found) > _MAX_CACHED_TERMS:
            self._cache = {}
        else:
            known.update(found)
        return [found[word] if word in found else known.get(word) for word in words]

    def _tokenize(self, words: Sequence[str]) -> dict[str, str | None]:
        first, *tokens, last = self._stored.reading.tokenize(" ".join([_MARK, *words, _MARK]), column="indexed_text")
        if last.position - first.position == len(words) + 1:
            terms: dict[str, str | None] = dict.fromkeys(words)
            return terms | {words[token.position - first.position - 1]: token.text for token in tokens}
        if len(words) == 1:
            return {words[0]: tokens[0].text if tokens else None}
        half = len(words) // 2
        return self._tokenize(words[:half]) | self._tokenize(words[half:])
