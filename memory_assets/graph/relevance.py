"""How much a memory matters now: the relevance score of seed 003, section 2, computed set-wise in the catalog.

    relevance = decay * (0.3 + 0.3 * access) * density * (0.5 + importance) * (0.7 + 0.3 * confidence), at most 1

    decay       exp(-rate * days since fresh_at); rate is 0.1 a day by default
    fresh_at    the latest of: the memory's creation or confirmation, and the creation of the memories linked to it (contextual
                freshness: seed 000, section "Graph-Aware Freshness"), so that what is linked to live work does not sink
    access      exp(-0.05 * days since fresh_at): a memory that is touched often is close to 1
    density     1 + 0.3 * ln(1 + edges of the memory, in either direction)
    importance  0..1, 0.5 where nobody said
    confidence  0..1, 1 where nobody doubted

A fresh memory without edges scores 0.6, well above the archive threshold of 0.2.
"""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from memory_assets.stores.catalog import Catalog
from memory_assets.stores.memories import MemoryStore

ACCESS_DECAY_PER_DAY = 0.05

_SCORES = """
    CREATE TEMP TABLE links AS
    SELECT source_id AS id, target_id AS other FROM graph_edges UNION SELECT target_id, source_id FROM graph_edges;
    CREATE TEMP TABLE wanted AS
    WITH degrees AS (
        SELECT l.id, count(*) AS edges, max(o.created_at) FILTER (o.state = 'active') AS activity
        FROM links l JOIN rows o ON o.id = l.other GROUP BY l.id
    ),
    ages AS (
        SELECT r.id, r.importance, r.confidence, coalesce(d.edges, 0) AS edges,
               greatest(r.created_at, coalesce(d.activity, r.created_at)) AS fresh_at,
               greatest(0, date_diff('second', fresh_at, $now::TIMESTAMPTZ) / 86400.0) AS days
        FROM rows r LEFT JOIN degrees d USING (id)
        WHERE r.state = 'active'
    ),
    factors AS (
        SELECT id, exp(-$rate * days) AS decay, 0.3 + 0.3 * exp(-$access_rate * days) AS access,
               1 + 0.3 * ln(1 + edges) AS density,
               0.5 + importance::DOUBLE AS importance, 0.7 + 0.3 * confidence::DOUBLE AS confidence, fresh_at
        FROM ages
    )
    SELECT * EXCLUDE (fresh_at), least(1.0, decay * access * density * importance * confidence) AS relevance, fresh_at,
           $now::TIMESTAMPTZ AS computed_at
    FROM factors;
"""


@dataclass(frozen=True, slots=True)
class RelevanceOutcome:
    """What a decay pass found."""

    scored: int
    below_archive: int
    """Active memories under the archive threshold."""
    histogram: list[int]
    """How many scores lie in each tenth of 0..1."""
    written: int


def refresh_relevance(
    catalog: Catalog, memories: MemoryStore, now: datetime, *, rate: float, archive_threshold: float
) -> RelevanceOutcome:
    """Score every active memory as of `now`, in one transaction; unchanged when asked twice for the same moment.

    Args:
        catalog: holds the graph; receives the scores.
        memories: the tenant's memories.
        now: aware; scores within the same UTC day as the last pass are written again only if the graph or a memory changed.
        rate: decay per day.
        archive_threshold: counted, not acted on.

    Raises:
        StoreError: a store cannot be read or written; the scores stay as they were.
    """
    rows = memories.scan(("id", "state", "created_at", "importance", "confidence"))
    moment = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with catalog.read() as connection:
        wanted = _scores(connection, rows, moment, rate)
        connection.register("wanted_scores", wanted)
        (written,) = connection.execute(
            "SELECT count(*) FROM ((FROM wanted_scores EXCEPT FROM relevance_scores) "
            "UNION ALL (FROM relevance_scores EXCEPT FROM wanted_scores))"
        ).fetchone() or (0,)
    if written:
        with catalog.write() as connection:
            connection.register("wanted_scores", wanted)
            connection.execute("DELETE FROM relevance_scores; INSERT INTO relevance_scores BY NAME FROM wanted_scores")
    with catalog.read() as connection:
        scored, below = connection.execute(
            "SELECT count(*), count(*) FILTER (relevance < ?) FROM relevance_scores", [archive_threshold]
        ).fetchone() or (0, 0)
        bins = dict(
            connection.execute(
                "SELECT least(9, floor(relevance * 10))::INTEGER AS bin, count(*) FROM relevance_scores GROUP BY bin"
            ).fetchall()
        )
    return RelevanceOutcome(scored, below, [bins.get(number, 0) for number in range(10)], written)


def _scores(connection, rows: pa.Table, now: datetime, rate: float) -> pa.Table:
    connection.register("rows", rows)
    for statement in _SCORES.split(";\n"):
        if statement.strip():
            used = {"now": now, "rate": rate, "access_rate": ACCESS_DECAY_PER_DAY}
            connection.execute(statement, {name: value for name, value in used.items() if f"${name}" in statement})
    return connection.execute("FROM wanted").to_arrow_table()
