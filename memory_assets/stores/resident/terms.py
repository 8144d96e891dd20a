"""The terms that a table's full-text index makes of words: stemmed, folded to ASCII, without stop words."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_assets.stores.tables import StoredTable

_MOST_KNOWN = 50_000
_WORDS_AT_ONCE = 4_096
_NOT_INFLECTED = re.compile(r"[a-z0-9]{0,39}[0-9]")
"""Ticket numbers and the like, which stemming leaves alone."""
_MARK = "sentinel"
"""Stands before and after each batch of words: their distance tells whether the tokenizer took each word for one."""


class Terms:
    """The terms of words by the index on `indexed_text`, cached."""

    def __init__(self, stored: "StoredTable") -> None:
        self._stored = stored
        self._known: dict[str, str | None] = {}

    def __call__(self, words: Sequence[str]) -> list[str | None]:
        """The term of each word; None for a word that is not indexed."""
        known = self._known
        found: dict[str, str | None] = {word: word for word in words if _NOT_INFLECTED.fullmatch(word)}
        unknown = [word for word in words if word and word not in known and word not in found]
        for start in range(0, len(unknown), _WORDS_AT_ONCE):
            found |= self._tokenized(unknown[start : start + _WORDS_AT_ONCE])
        if len(known) + len(found) > _MOST_KNOWN:
            self._known = {}
        else:
            known.update(found)
        return [found[word] if word in found else known.get(word) for word in words]

    def _tokenized(self, words: Sequence[str]) -> dict[str, str | None]:
        first, *tokens, last = self._stored.reading.tokenize(" ".join([_MARK, *words, _MARK]), column="indexed_text")
        if last.position - first.position == len(words) + 1:
            terms: dict[str, str | None] = dict.fromkeys(words)
            return terms | {words[token.position - first.position - 1]: token.text for token in tokens}
        if len(words) == 1:
            return {words[0]: tokens[0].text if tokens else None}
        half = len(words) // 2
        return self._tokenized(words[:half]) | self._tokenized(words[half:])
