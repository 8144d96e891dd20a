"""Failures of the chat model, kept until it answers: the next run asks again, and status reports them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class AnalyzerFailures:
    """What one chat model has not answered yet."""

    memories: int
    """So many will be asked about again."""
    last: str
    """What went wrong last."""
    last_at: datetime


def read_failures(connection: "DuckDBPyConnection", model: str) -> AnalyzerFailures | None:
    """What this model was asked about in vain, if there is anything."""
    newest = connection.execute(
        "SELECT count(*) OVER (), failure, failed_at FROM analyzer_failures WHERE model = $1 ORDER BY failed_at DESC LIMIT 1",
        [model],
    ).fetchone()
    return AnalyzerFailures(*newest) if newest else None


def record_failure(catalog: Catalog, memory_id: int, content_hash: str, model: str, failure: str) -> None:
    """Write down that the model was asked about a memory in vain, once more."""
    with catalog.write() as connection:
        connection.execute(
            """
            INSERT INTO analyzer_failures VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (memory_id) DO UPDATE SET
                attempts = attempts + 1, failure = excluded.failure, failed_at = excluded.failed_at
            """,
            [memory_id, content_hash, model, failure, datetime.now(UTC)],
        )
