"""The graph as rules see it: memories and entities as nodes, typed edges between memories, mentions of entities.

Rules hold only for what is certain: `[[name]]` links, supersession, and what somebody stated. Everything is computed set-wise and
compared with what the catalog holds, so that a run writes only what differs.
"""

from dataclasses import dataclass

import pyarrow as pa

from memory_assets.stores.catalog import Catalog
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore

_READ = ("id", "title", "kind", "state", "superseded_by", "links", "entities", "source_key", "content", "created_at")

LINK_CONFIDENCE = 0.9
"""A `[[name]]` link says that its author saw a connection, not which."""

_NODES = """
    CREATE TEMP TABLE wanted_nodes AS
    SELECT id, 'memory' AS kind, coalesce(nullif(title, ''), left(content, 80)) AS label, state AS revision FROM rows
    UNION ALL BY NAME
    SELECT entity_id AS id, 'entity' AS kind, min(label) AS label, min(type) AS revision FROM mentioned GROUP BY entity_id;
"""
_MENTIONED = """
    CREATE TEMP TABLE mentioned AS
    SELECT DISTINCT r.id AS memory_id, e.text AS label, e.type AS type,
           ((md5_number_lower(e.type || chr(0) || lower(e.text)) >> 12) + 4503599627370496)::BIGINT AS entity_id
    FROM rows r, unnest(r.entities) AS u(e);
"""
_EDGES = """
    CREATE TEMP TABLE names AS
    SELECT DISTINCT lower(name) AS name, id FROM (
        SELECT id, title AS name FROM rows WHERE title <> '' AND state = 'active'
        UNION ALL
        SELECT id, regexp_extract(source_key, '([^/]+)\\.md$', 1) AS name FROM rows WHERE state = 'active'
    ) WHERE name <> '';
    CREATE TEMP TABLE wanted_edges AS
    SELECT source_id, target_id, type, max(confidence)::FLOAT AS confidence, max(similarity)::FLOAT AS similarity, origin FROM (
        SELECT r.id AS source_id, n.id AS target_id, 'RELATES_TO' AS type, $link AS confidence, NULL AS similarity,
               'link' AS origin
        FROM rows r, unnest(r.links) AS u(link) JOIN names n ON n.name = lower(trim(link)) WHERE n.id <> r.id
        UNION ALL BY NAME
        SELECT id AS source_id, superseded_by AS target_id, 'EVOLVED_INTO' AS type, 1.0 AS confidence, NULL AS similarity,
               'supersession' AS origin
        FROM rows WHERE superseded_by IS NOT NULL
        UNION ALL BY NAME
        SELECT source_id, target_id, type, confidence, NULL AS similarity, 'stated' AS origin FROM stated
    ) e SEMI JOIN rows s ON s.id = e.source_id SEMI JOIN rows t ON t.id = e.target_id
    GROUP BY source_id, target_id, type, origin;
"""


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """What changed in the graph, and what it holds now."""

    written: int
    """Rows inserted, updated or deleted."""
    memories: int
    entities: int
    edges_by_type: dict[str, int]
    memories_version: int
    """LanceDB versions that the graph was built from."""
    relations_version: int


def refresh_graph(catalog: Catalog, memories: MemoryStore, relations: RelationStore) -> GraphOutcome:
    """Bring nodes, mentions and rule-made edges to what the memories and stated relations say.

    Raises:
        StoreError: a store cannot be read or written; the graph stays as it was.
    """
    memories_version, relations_version = memories.version, relations.version
    rows = memories.scan(_READ)
    with catalog.read() as connection:
        connection.register("rows", rows)
        connection.register("stated", relations.scan())
        connection.execute(_MENTIONED)
        connection.execute(_NODES)
        connection.execute(_EDGES.replace("$link", str(LINK_CONFIDENCE)))
        wanted = {
            "graph_nodes": connection.execute("FROM wanted_nodes").to_arrow_table(),
            "graph_mentions": connection.execute("SELECT DISTINCT memory_id, entity_id FROM mentioned").to_arrow_table(),
            "graph_edges": connection.execute("FROM wanted_edges").to_arrow_table(),
        }
        changed = {}
        for table, rows_wanted in wanted.items():
            connection.register("wanted", rows_wanted)
            (count,) = connection.execute(
                f"SELECT count(*) FROM ((FROM wanted EXCEPT FROM {table}) UNION ALL (FROM {table} EXCEPT FROM wanted))"
            ).fetchone() or (0,)
            if count:
                changed[table] = count
    if changed:
        _write(catalog, {table: wanted[table] for table in changed})
    with catalog.read() as connection:
        kinds = dict(connection.execute("SELECT kind, count(*) FROM graph_nodes GROUP BY kind").fetchall())
        types = dict(connection.execute("SELECT type, count(*) FROM graph_edges GROUP BY type ORDER BY type").fetchall())
    return GraphOutcome(
        sum(changed.values()),
        kinds.get("memory", 0),
        kinds.get("entity", 0),
        types,
        memories_version,
        relations_version,
    )


def _write(catalog: Catalog, tables: dict[str, pa.Table]) -> None:
    with catalog.write() as connection:
        for table, wanted in tables.items():
            connection.register("wanted", wanted)
            connection.execute(f"DELETE FROM {table} WHERE NOT EXISTS (FROM wanted w WHERE w IS NOT DISTINCT FROM {table})")
            connection.execute(f"INSERT INTO {table} BY NAME (FROM wanted EXCEPT FROM {table})")
            connection.unregister("wanted")
