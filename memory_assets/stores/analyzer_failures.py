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
            MERGE INTO analyzer_failures f
            USING (SELECT $1::BIGINT AS id, $2 AS content_hash, $3 AS model, $4 AS failure, $5::TIMESTAMPTZ AS failed_at) n
            ON f.memory_id = n.id
                WHEN MATCHED THEN UPDATE SET attempts = f.attempts + 1, failure = n.failure, failed_at = n.failed_at
                WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.content_hash, n.model, 1, n.failure, n.failed_at)
            """,
            [memory_id, content_hash, model, failure, datetime.now(UTC)],
        )
