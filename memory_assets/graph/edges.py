"""The build of the graph: nodes (memories, entities, clusters), mentions of entities, and typed edges.

The build reads the changes (`memory_assets.graph.changes`) and resolves names with the catalog closed. The rules
(`memory_assets.graph.rules`) run on a read-only connection over the part that the changes affect. One short transaction writes the
difference, and nothing if nothing changed. If another build committed meanwhile, the build starts again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.compute import pc
from memory_assets.errors import StoreBusyError
from memory_assets.graph import rules
from memory_assets.graph.changes import Changes, find_changes
from memory_assets.graph.entities import CALLED
from memory_assets.graph.naming import AffectedNames, Naming
from memory_assets.graph.statements import find_candidates, find_replacements
from memory_assets.stores.catalog import Catalog, copy_in
from memory_assets.stores.graph_builds import Build, read_build, record_build
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.relations import RelationStore
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_Counts = tuple[int, int, dict[str, int], dict[str, int]]

_ATTEMPTS = 5
_CALLED = pa.schema([("key", pa.string()), ("text", pa.string())])
_LEAST_SHARE = 0.25
"""Share of an entity's mentions that must agree on a type; otherwise its type is NAME."""

_RESOLVED = """
CREATE TEMP VIEW now_surfaces AS
    FROM graph_surfaces WHERE memory_id NOT IN (FROM touched) UNION ALL BY NAME FROM changed_surfaces;
"""
_ENTITIES = f"""
CREATE TEMP TABLE changed_aliases AS
    FROM lost_aliases UNION ALL FROM new_aliases;
CREATE TEMP VIEW now_aliases AS
    FROM graph_aliases ANTI JOIN changed_aliases USING ("text", type) UNION ALL BY NAME FROM new_aliases;
CREATE TEMP TABLE read_again AS
    SELECT id FROM touched UNION SELECT memory_id FROM now_surfaces SEMI JOIN changed_aliases USING ("text", type);
CREATE TEMP TABLE surfaces_read_again AS FROM now_surfaces SEMI JOIN read_again ON read_again.id = memory_id;
CREATE TEMP TABLE old_mentions AS FROM graph_mentions SEMI JOIN read_again ON read_again.id = memory_id;
CREATE TEMP TABLE new_mentions AS
    SELECT DISTINCT memory_id, entity_id FROM surfaces_read_again JOIN now_aliases USING ("text", type);
CREATE TEMP VIEW now_mentions AS
    FROM graph_mentions ANTI JOIN read_again ON read_again.id = memory_id UNION ALL FROM new_mentions;
CREATE TEMP TABLE renamed AS
    SELECT entity_id FROM old_mentions UNION SELECT entity_id FROM new_mentions UNION SELECT entity_id FROM changed_aliases
    UNION
    SELECT entity_id FROM graph_aliases WHERE lower("text") IN (SELECT project_name FROM touched_rows);
CREATE TEMP TABLE renamed_entities AS
    WITH concerned AS (FROM now_aliases SEMI JOIN renamed USING (entity_id)),
    counted AS (
        SELECT entity_id, s."text", s.type, count(*) AS memories, bool_or(c.key IS NOT NULL) AS chosen
        FROM now_surfaces s JOIN concerned USING ("text", type)
            LEFT JOIN called c ON c.key = concerned.key AND c."text" = s."text"
        GROUP BY ALL
    ),
    votes AS (
        SELECT entity_id, type, sum(memories) AS votes, sum(sum(memories)) OVER (PARTITION BY entity_id) AS cast_votes
        FROM counted GROUP BY entity_id, type
    ),
    projects AS (
        SELECT DISTINCT project_name AS name FROM now_memories WHERE live AND project_name <> ''
    ),
    types AS (
        SELECT entity_id,
               CASE WHEN bool_or(entity_id IN (SELECT entity_id FROM counted WHERE lower("text") IN (FROM projects)))
                    THEN 'PROJECT'
                    ELSE coalesce(
                        arg_max(type, (votes, type)) FILTER (type <> 'NAME' AND votes >= {_LEAST_SHARE} * cast_votes), 'NAME')
               END AS type
        FROM votes GROUP BY entity_id
    ),
    labels AS (
        SELECT entity_id, t.type AS type, "text", sum(c.memories) AS memories, bool_or(c.chosen) AS chosen
        FROM counted c JOIN types t USING (entity_id)
        GROUP BY entity_id, t.type, "text"
    )
    SELECT entity_id AS id,
           arg_max("text", (chosen, NOT contains("text", ','),
                            CASE WHEN type = 'PERSON' THEN length("text") - length(replace("text", ' ', '')) ELSE 0 END,
                            memories, "text")) AS label,
           any_value(type) AS type
    FROM labels GROUP BY entity_id;
CREATE TEMP VIEW now_entities AS
    SELECT id, label, type FROM graph_nodes WHERE kind = 'entity' AND id NOT IN (FROM renamed)
    UNION ALL BY NAME FROM renamed_entities;
"""
_NODES = """
CREATE TEMP TABLE wanted_nodes AS
    SELECT id, 'memory' AS kind, label, revision, kind AS type FROM changed
    UNION ALL BY NAME SELECT id, 'entity' AS kind, label, '' AS revision, type FROM renamed_entities
    UNION ALL BY NAME SELECT id, 'pattern' AS kind, label, '' AS revision, 'MetaPattern' AS type FROM clusters;
CREATE TEMP TABLE doomed_nodes AS
    FROM graph_nodes SEMI JOIN (FROM touched UNION FROM renamed) AS concerned USING (id) WHERE kind <> 'pattern'
    UNION ALL FROM graph_nodes WHERE kind = 'pattern';
CREATE TEMP TABLE wanted (
    source_id BIGINT, target_id BIGINT, type VARCHAR, confidence FLOAT, similarity FLOAT, origin VARCHAR,
    evidence_id BIGINT DEFAULT 0, note VARCHAR
);
CREATE TEMP TABLE doomed AS FROM graph_edges LIMIT 0;
"""
_ASKED = "CREATE TEMP TABLE asked AS SELECT memory_id FROM answers;"
_ALL_ASKED = """
INSERT INTO asked
    SELECT memory_id FROM analyzer_links UNION SELECT evidence_id FROM graph_edges WHERE origin = 'analyzer';
"""
_STATED = """
INSERT INTO wanted BY NAME
    WITH RECURSIVE replaced AS MATERIALIZED (SELECT id, superseded_by FROM now_memories WHERE superseded_by IS NOT NULL),
    heads AS (
        SELECT id, id AS head, 0 AS steps FROM (SELECT source_id AS id FROM relations UNION SELECT target_id FROM relations)
        UNION ALL
        SELECT h.id, m.superseded_by, steps + 1 FROM heads h JOIN replaced m ON m.id = h.head WHERE steps < 100
    ),
    newest AS (SELECT id, arg_max(head, steps) AS head FROM heads GROUP BY id HAVING max(steps) > 0)
    SELECT coalesce(a.head, source_id) AS source_id, coalesce(b.head, target_id) AS target_id, type,
           max(confidence) AS confidence, 'stated' AS origin, nullif(arg_max(note, (confidence, note)), '') AS note
    FROM relations r LEFT JOIN newest a ON a.id = r.source_id LEFT JOIN newest b ON b.id = r.target_id
    GROUP BY ALL;
"""
_DIFFERENCE = """
CREATE TEMP TABLE ends AS SELECT source_id AS id FROM wanted UNION SELECT target_id FROM wanted;
CREATE TEMP TABLE present AS
    SELECT id, live FROM now_memories SEMI JOIN ends USING (id)
    UNION ALL SELECT id, true FROM now_entities SEMI JOIN ends USING (id)
    UNION ALL SELECT id, true FROM clusters SEMI JOIN ends USING (id);
CREATE TEMP TABLE wanted_edges AS
    SELECT w.* FROM wanted w JOIN present s ON s.id = w.source_id JOIN present t ON t.id = w.target_id
    WHERE source_id <> target_id AND (origin = 'supersession' OR (s.live AND t.live));
"""
_LOST = """
CREATE TEMP TABLE lost AS SELECT id FROM doomed_nodes EXCEPT SELECT id FROM wanted_nodes;
CREATE TEMP TABLE resting AS SELECT id FROM changed WHERE NOT live;
INSERT INTO doomed
    FROM graph_edges SEMI JOIN lost ON lost.id = source_id UNION ALL FROM graph_edges SEMI JOIN lost ON lost.id = target_id
    UNION ALL FROM graph_edges SEMI JOIN resting ON resting.id = source_id WHERE origin <> 'supersession'
    UNION ALL FROM graph_edges SEMI JOIN resting ON resting.id = target_id WHERE origin <> 'supersession';
"""
_DIFFERENCES = {
    "lost_edges": "SELECT DISTINCT * FROM doomed EXCEPT FROM wanted_edges",
    "new_edges": "FROM wanted_edges EXCEPT FROM doomed",
    "lost_nodes": "FROM doomed_nodes EXCEPT FROM wanted_nodes",
    "new_nodes": "FROM wanted_nodes EXCEPT FROM doomed_nodes",
    "lost_mentions": "FROM old_mentions EXCEPT FROM new_mentions",
    "new_mentions": "FROM new_mentions EXCEPT FROM old_mentions",
    "lost_aliases": "FROM lost_aliases",
    "new_aliases": "FROM new_aliases",
}


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """What a build changed, and the size of the graph afterwards."""

    changed: int
    written: int
    """Rows inserted, updated or deleted."""
    memories: int
    entities: int
    edges_by_type: dict[str, int]
    edges_by_origin: dict[str, int]
    memories_version: int
    """LanceDB version that the graph was built from, as is `relations_version`."""
    relations_version: int


def refresh_graph(
    catalog: Catalog,
    memories: MemoryStore,
    relations: RelationStore,
    spellings: Mapping[str, str] | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> GraphOutcome:
    """Update nodes, mentions and edges from the memories, the stated relations and the sleep cycles.

    A stated relation of a superseded memory counts for its newest version. `spellings` are the gazetteer's, lower case -> name, with a
    person's decisions about names (`decided_names`). `on_progress` is called as by `find_changes`. DamagedError: the table of the
    memories is lost.
    """
    memories.stored.raise_if_lost()
    for _ in range(_ATTEMPTS):
        versions = memories.version, relations.version
        changes = find_changes(catalog, memories, on_progress)
        found = _prepare(catalog, changes, versions[1], spellings or {})
        difference = _compute(catalog, changes, found, relations.scan(), spellings or {}) if changes or found else {}
        written = sum(rows.num_rows for rows in difference.values()) + changes.memories.num_rows + changes.gone.num_rows
        if written or found:
            counts = _write(catalog, changes, difference, found)
        else:
            with catalog.read() as connection:
                counts = _counts(connection)
        if counts:
            return GraphOutcome(changes.memories.num_rows, written, *counts, *versions)
    raise StoreBusyError(f"{catalog.where} had its graph rebuilt by another process {_ATTEMPTS} times; run the command again.")


@dataclass(frozen=True, slots=True)
class _Input:
    """Input of a build besides the changed memories."""

    build: Build
    naming: Naming
    relations_version: int
    restated: bool
    """Whether relations were stated or withdrawn since the last build."""
    replacements: pa.Table
    """Rows of `graph_changes` for the statements of changed memories."""
    answers: pa.Table
    """Rows of `analyzer_news`: memories whose links from a chat model changed."""
    compared_all: bool

    def __bool__(self) -> bool:
        """Whether there is anything to write, if only a position."""
        return bool(self.compared_all or self.naming.anew or self.restated or self.answers.num_rows)


def _compute(
    catalog: Catalog, changes: Changes, found: _Input, relations: pa.Table, spellings: Mapping[str, str]
) -> dict[str, pa.Table]:
    """Return the rows to remove from and add to each table; `relations` are all stated ones."""
    with catalog.read() as connection:
        tables = {
            "changed": changes.memories,
            "changed_surfaces": changes.surfaces,
            "changed_cues": changes.cues,
            "changed_statements": changes.statements,
            "changed_replacements": found.replacements,
            "comparisons": changes.comparisons,
            "touched": changes.touched,
            "relations": relations,
            "answers": found.answers,
            "lost_aliases": found.naming.lost_aliases,
            "new_aliases": found.naming.new_aliases,
            "called": _called(spellings),
        }
        copy_in(connection, tables)
        for script in (rules.NOW, _RESOLVED, _ENTITIES, _NODES, _LOST, _ASKED):
            connection.execute(script)
        if changes.compared_all:
            connection.execute(_ALL_ASKED)
        if changes or found.naming.lost_aliases.num_rows or found.naming.new_aliases.num_rows:
            connection.execute(rules.READERS)
            for read, rule in rules.RULES.items():
                if connection.execute(f"FROM {read} LIMIT 1").fetchone():
                    connection.execute(rule)
        connection.execute(rules.KEPT)
        if relations.num_rows:
            connection.execute(_STATED)
            connection.execute(rules.DECIDED)
        connection.execute(_DIFFERENCE)
        return {name: connection.execute(query).to_arrow_table() for name, query in _DIFFERENCES.items()}


def _called(spellings: Mapping[str, str]) -> pa.Table:
    chosen = [(key.removeprefix(CALLED), name) for key, name in spellings.items() if key.startswith(CALLED)]
    return pa.table({"key": [key for key, _ in chosen], "text": [name for _, name in chosen]}, _CALLED)


def _prepare(catalog: Catalog, changes: Changes, relations_version: int, spellings: Mapping[str, str]) -> _Input:
    """Find the names, statements, relations and links that the change affects. Names and statements are compared without the catalog."""
    with catalog.read() as connection:
        build = read_build(connection)
        tables = {"touched": changes.touched, "changed_surfaces": changes.surfaces, "changed_statements": changes.statements}
        copy_in(connection, tables)
        connection.execute(_RESOLVED)
        pairs = find_candidates(connection) if changes.statements.num_rows else []
        names = AffectedNames(connection, spellings)
        restated = connection.execute("SELECT stated_version FROM graph_position").fetchone() != (relations_version,)
        answers = connection.execute("FROM analyzer_news").to_arrow_table()
    return _Input(build, names.resolve(), relations_version, restated, find_replacements(pairs), answers, changes.compared_all)


def _write(catalog: Catalog, changes: Changes, difference: dict[str, pa.Table], found: _Input) -> _Counts | None:
    """Apply the difference in one transaction. Return None without writing if another build committed meanwhile."""
    with catalog.write() as connection:
        if read_build(connection) != found.build:
            return None
        copy_in(connection, {"touched": changes.touched, "gone": changes.gone, "answers": found.answers})
        connection.execute("""
            DELETE FROM graph_memories WHERE id IN (FROM touched);
            DELETE FROM graph_surfaces WHERE memory_id IN (FROM touched);
            DELETE FROM graph_cues WHERE memory_id IN (FROM touched);
            DELETE FROM graph_statements WHERE memory_id IN (FROM touched);
            DELETE FROM graph_changes WHERE old_id IN (FROM touched) OR new_id IN (FROM touched);
            DELETE FROM cluster_members WHERE memory_id IN (SELECT id FROM gone);
            DELETE FROM analyzer_links WHERE memory_id IN (SELECT id FROM gone);
            DELETE FROM analyzer_news n USING answers a WHERE n.memory_id = a.memory_id AND n.noted = a.noted;
        """)
        derived = {
            "memories": changes.memories,
            "surfaces": changes.surfaces,
            "cues": changes.cues,
            "statements": changes.statements,
            "changes": found.replacements,
        }
        for name, rows in derived.items():
            if rows.num_rows:
                connection.execute(f"INSERT INTO graph_{name} BY NAME FROM rows")
        # A catalog that was begun again keeps its creative links and does not know which memories are gone.
        if changes.gone.num_rows or changes.compared_all:
            connection.execute("""
                DELETE FROM creative_links
                WHERE source_id NOT IN (SELECT id FROM graph_memories) OR target_id NOT IN (SELECT id FROM graph_memories)
            """)
        for name, rows in difference.items():
            if rows.num_rows:
                age, _, what = name.partition("_")
                changed = table(f"graph_{what}")
                connection.execute(changed.merge("FROM rows") if age == "new" else changed.delete("FROM rows"))
        connection.execute("DELETE FROM graph_position")
        position = [changes.position.version, changes.position.read_at, changes.basis, found.naming.basis]
        connection.execute("INSERT INTO graph_position VALUES ($1, $2, $3, $4, $5)", [*position, found.relations_version])
        record_build(connection, _touched(difference))
        return _counts(connection)


def _touched(difference: dict[str, pa.Table]) -> pa.Table:
    """Return column `node`: the nodes whose edges, mentions or name differ."""
    columns = {"source_id", "target_id", "memory_id"}
    ends = [rows[name] for rows in difference.values() for name in rows.column_names if name in columns]
    named = [difference[name].filter(pc.field("kind") != "memory")["id"] for name in ("lost_nodes", "new_nodes")]
    return pa.table({"node": pa.chunked_array([chunk for each in ends + named for chunk in each.chunks], pa.int64()).unique()})


def _counts(connection: "DuckDBPyConnection") -> _Counts:
    kinds = dict(connection.execute("SELECT kind, count(*) FROM graph_nodes GROUP BY kind").fetchall())
    types = dict(connection.execute("SELECT type, count(*) FROM graph_edges GROUP BY type ORDER BY type").fetchall())
    origins = dict(connection.execute("SELECT origin, count(*) FROM graph_edges GROUP BY origin ORDER BY origin").fetchall())
    return kinds.get("memory", 0), kinds.get("entity", 0), types, origins
