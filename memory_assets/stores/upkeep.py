"""Merging what commits leave behind: small files into large ones, new rows into the indices."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from memory_assets.errors import StoreError
from memory_assets.stores import lance, vector_index
from memory_assets.stores.locks import shared_lock
from memory_assets.stores.tables import StoredTable, reading

_log = logging.getLogger(__name__)
_KEPT = timedelta(minutes=10)
"""How long versions are kept for readers; every compaction looks at all of them."""
_WORTH_MERGING = 50
"""Unmerged fragments after which compaction pays (LanceDB's own rule of thumb)."""


class Upkeep:
    """The upkeep of one table."""

    def __init__(self, stored: StoredTable, vector_column: Callable[[], str | None]) -> None:
        """Name the table, and a function that gives the vector column to index."""
        self.stored = stored
        self._vector_column = vector_column
        self._left_small = 0
        """Small fragments that the last merge left: the vector index has them in several segments."""

    @reading
    def is_due(self) -> bool:
        """Whether the table has gathered enough small fragments or unindexed rows, or has outgrown its vector index."""
        if self._small_fragments() - self._left_small >= _WORTH_MERGING:
            return True
        table = self.stored.reading
        index = table.index_stats("indexed_text_idx")
        if index is not None and index.num_unindexed_rows > max(1_000, index.num_indexed_rows // 20):
            return True
        return vector_index.is_due(table, self._vector_column(), table.count_rows())

    def optimize(self) -> bool:
        """Merge if that pays, and drop old versions; takes seconds in a large table. Returns whether anything was done."""
        if not self.is_due():
            return False
        table = self.stored.writing
        with shared_lock(table):
            try:
                table.optimize(cleanup_older_than=_KEPT)
            except (RuntimeError, OSError) as error:
                if lance.is_conflict(error):
                    return False
                advice = lance.mend(error) or "run the command again"
                raise StoreError(f"The table in {self.stored.uri} cannot be compacted ({error}): {advice}.") from error
            rows, column = table.count_rows(), self._vector_column()
            if column and vector_index.is_due(table, column, rows):
                vector_index.build(table, column, rows)
        self._left_small = self._small_fragments()
        return True

    def after_commit(self) -> None:
        """Do the same behind a commit, which nobody must take for failed: where it cannot be done, the log says so."""
        try:
            self.optimize()
        except StoreError as error:
            _log.warning("upkeep put off: %s", error)

    def _small_fragments(self) -> int:
        return cast("dict[str, Any]", self.stored.reading.stats())["fragment_stats"]["num_small_fragments"]
