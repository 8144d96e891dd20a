"""The creative cycle links similar memories without an edge: RELATES_TO if both mention an entity, else SHARES_THEME.

Two ratings resemble each other by their form alone, so they must share an entity. The cycle draws a sample of memories above a
relevance, the same one for a tenant throughout an ISO week. An edge's confidence is the similarity. Edges are kept in
`creative_links`, which a rebuild of the graph does not touch.
"""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import BaseModel, Field

from memory_assets.graph.neighbours import nearest_to
from memory_assets.models import Kind, State
from memory_assets.stores.graph_builds import record_build

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant

LEAST_RELEVANCE = 0.3
LINKS_PER_MEMORY = 3
"""Links per memory in total, in either direction and over all weeks."""
_NEIGHBOURS = 12
"""Neighbours compared per memory; some of the nearest are linked already."""

_FRESH_LINKS = """
    WITH pairs AS (
        SELECT least(id, other) AS source_id, greatest(id, other) AS target_id, max(similarity) AS similarity
        FROM neighbours WHERE similarity > $least AND id <> other GROUP BY ALL
    ),
    unconnected AS (
        FROM pairs p
        ANTI JOIN graph_edges e ON e.source_id = p.source_id AND e.target_id = p.target_id
        ANTI JOIN graph_edges e ON e.source_id = p.target_id AND e.target_id = p.source_id
        ANTI JOIN creative_links c ON c.source_id = p.source_id AND c.target_id = p.target_id
    )
    SELECT * EXCLUDE are_ratings FROM (
        SELECT s.source_id, s.target_id,
               CASE WHEN EXISTS (FROM graph_mentions a JOIN graph_mentions b USING (entity_id)
                                 WHERE a.memory_id = s.source_id AND b.memory_id = s.target_id)
                    THEN 'RELATES_TO' ELSE 'SHARES_THEME' END AS type,
               s.similarity, a.label AS source_label, b.label AS target_label,
               a.type = $rating AND b.type = $rating AS are_ratings
        FROM unconnected s JOIN graph_nodes a ON a.id = s.source_id JOIN graph_nodes b ON b.id = s.target_id
    )
    WHERE type = 'RELATES_TO' OR NOT are_ratings
    ORDER BY similarity DESC, source_id, target_id
"""
_LINKED = """
    SELECT id, count(*) FROM (SELECT source_id AS id FROM creative_links UNION ALL SELECT target_id FROM creative_links) GROUP BY id
"""


class NewLink(BaseModel):
    """A new edge between two similar memories."""

    source_id: int
    target_id: int
    type: str
    similarity: float
    source_label: str
    target_label: str


class CreativeOutcome(BaseModel):
    """Outcome of a creative cycle."""

    week: str = Field(description="The ISO week whose sample was drawn.")
    sampled: int
    compared: int = Field(description="Neighbours above the threshold, connected or not.")
    links: tuple[NewLink, ...] = Field(description="The most similar first.")


def find_links(tenant: "Tenant", now: datetime, *, dry_run: bool = False) -> CreativeOutcome:
    """Draw the sample of `now`'s ISO week and connect similar memories. A second call in the same week finds nothing new."""
    catalog, least = tenant.catalog, tenant.settings.creative_similarity
    week = f"{now:%G-W%V}"
    query = "SELECT id FROM relevance_scores WHERE relevance > $1 ORDER BY md5($2 || id::VARCHAR) LIMIT $3"
    drawn = [number for (number,) in catalog.fetch(query, [LEAST_RELEVANCE, week, tenant.settings.creative_sample])]
    neighbours = nearest_to(tenant.memories, drawn, _NEIGHBOURS, (State.ACTIVE,), least=least)
    with catalog.read() as connection:
        found = _fresh_links(connection, neighbours, least)
    if found.num_rows and not dry_run:
        with catalog.write() as connection:
            found = _fresh_links(connection, neighbours, least)
            _record(connection, found, week, now)
    return CreativeOutcome.model_validate(
        {"week": week, "sampled": len(drawn), "compared": neighbours.num_rows, "links": found.to_pylist()}
    )


def _fresh_links(connection: "DuckDBPyConnection", neighbours: pa.Table, least: float) -> pa.Table:
    connection.register("neighbours", neighbours)
    found = connection.execute(_FRESH_LINKS, {"least": least, "rating": Kind.RATING}).to_arrow_table()
    linked = Counter(dict(connection.execute(_LINKED).fetchall()))
    kept: list[int] = []
    for place, ends in enumerate(zip(found["source_id"].to_pylist(), found["target_id"].to_pylist(), strict=True)):
        if all(linked[end] < LINKS_PER_MEMORY for end in ends):
            linked.update(ends)
            kept.append(place)
    return found.take(pa.array(kept, pa.int64()))


def _record(connection: "DuckDBPyConnection", found: pa.Table, week: str, now: datetime) -> None:
    connection.register("found", found)
    connection.execute(
        "INSERT INTO creative_links BY NAME SELECT source_id, target_id, type, similarity, $1 AS week, "
        "$2::TIMESTAMPTZ AS found_at FROM found",
        [week, now],
    )
    connection.execute(
        "INSERT INTO graph_edges BY NAME SELECT source_id, target_id, type, similarity AS confidence, similarity, "
        "'creative' AS origin, 0 AS evidence_id, 'found in sleep, ' || $1 AS note FROM found",
        [week],
    )
    record_build(connection, pa.table({"node": pa.chunked_array([*found["source_id"].chunks, *found["target_id"].chunks])}))
