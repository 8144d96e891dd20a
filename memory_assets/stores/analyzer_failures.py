"""Failures of the chat model, kept until it succeeds. The next run retries; status reports them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class AnalyzerFailures:
    """Failed requests of one chat model."""

    memories: int
    """Number of memories to retry."""
    last: str
    last_at: datetime


def read_failures(connection: "DuckDBPyConnection", model: str) -> AnalyzerFailures | None:
    """Return the failures of this model; None if there are none."""
    newest = connection.execute(
        "SELECT count(*) OVER (), failure, failed_at FROM analyzer_failures WHERE model = $1 ORDER BY failed_at DESC LIMIT 1",
        [model],
    ).fetchone()
    return AnalyzerFailures(*newest) if newest else None


def record_failure(catalog: Catalog, memory_id: int, content_hash: str, model: str, failure: str) -> None:
    """Record a failed request about a memory, or count one more."""
    with catalog.write() as connection:
        connection.execute(
            """
            MERGE INTO analyzer_failures f
            USING (SELECT $1::BIGINT AS id, $2 AS content_hash, $3 AS model, $4 AS failure, $5::TIMESTAMPTZ AS failed_at) n
            ON f.memory_id = n.id
                WHEN MATCHED THEN UPDATE SET attempts = f.attempts + 1, failure = n.failure, failed_at = n.failed_at
                WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.content_hash, n.model, 1, n.failure, n.failed_at)
            """,
            [memory_id, content_hash, model, failure, datetime.now(UTC)],
        )
