"""Return the neighbourhood of memories, names and clusters, and draw the graph as one HTML file."""

import json
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from pydantic import Field

from memory_assets.display import counted
from memory_assets.graph.layout import layout
from memory_assets.models import State
from memory_assets.operations.answers import Answer, LocalTime, View
from memory_assets.stores.files import writing
from memory_assets.stores.lance import quoted
from memory_assets.tenants import Tenant

_MENTIONS = "MENTIONS"
_EDGES = f"""
    CREATE TEMP VIEW left_out AS SELECT id FROM graph_nodes WHERE kind = 'memory' AND id NOT IN (SELECT id FROM shown);
    CREATE TEMP VIEW edges AS
    SELECT source_id, target_id, type, confidence, origin, coalesce(note, '') AS note FROM graph_edges
    WHERE source_id NOT IN (FROM left_out) AND target_id NOT IN (FROM left_out)
    UNION ALL SELECT memory_id, entity_id, '{_MENTIONS}', 0.5, 'mentions', '' FROM graph_mentions ANTI JOIN left_out ON memory_id = id
"""
"""Edges between what is shown; memories that left recall since the last build are not."""
_NODES = """
    SELECT n.id, CASE n.kind WHEN 'memory' THEN m.kind WHEN 'pattern' THEN 'pattern' ELSE n.type END AS kind,
           n.kind = 'memory' AS is_memory, n.label, coalesce(s.relevance, 0) AS relevance, r.step, coalesce(d.degree, 0) AS degree
    FROM reached r JOIN graph_nodes n USING (id) LEFT JOIN graph_memories m USING (id) LEFT JOIN relevance_scores s USING (id)
    LEFT JOIN (
        SELECT id, count(*) AS degree FROM (
            SELECT source_id AS id FROM edges SEMI JOIN reached ON reached.id = source_id
            UNION ALL SELECT target_id FROM edges SEMI JOIN reached ON reached.id = target_id
        ) GROUP BY id
    ) d USING (id)
    ORDER BY r.step, n.id
"""
_BETWEEN = """
    SELECT source_id, target_id, type, max(confidence), arg_max(origin, confidence), arg_max(note, confidence)
    FROM edges SEMI JOIN reached a ON a.id = source_id SEMI JOIN reached b ON b.id = target_id
    WHERE confidence >= $least AND (len($types) = 0 OR list_contains($types, type))
    GROUP BY source_id, target_id, type ORDER BY 4 DESC, 1, 2, 3
"""
_BEGIN = """
    CREATE TEMP TABLE reached AS
    SELECT id, 0 AS step FROM graph_nodes SEMI JOIN (SELECT unnest($1) AS id) USING (id) ANTI JOIN left_out USING (id)
"""
_STEP = """
    INSERT INTO reached BY NAME
    SELECT other AS id, $step AS step FROM (
        SELECT target_id AS other, type, confidence FROM edges SEMI JOIN frontier f ON f.id = source_id
        UNION ALL SELECT source_id, type, confidence FROM edges SEMI JOIN frontier f ON f.id = target_id
    ) ANTI JOIN reached r ON r.id = other
    WHERE confidence >= $least AND (len($types) = 0 OR list_contains($types, type))
    GROUP BY other ORDER BY max(confidence) DESC, count(*) DESC, other LIMIT $most
"""
_MOST_RELEVANT = """
    SELECT id FROM graph_memories LEFT JOIN relevance_scores s USING (id) WHERE state IN ('active', 'superseded')
    ORDER BY state, coalesce(s.relevance, 0) DESC, id LIMIT $1
"""
_FILES = files("memory_assets.operations")


class NodeView(View):
    """A memory, a name or a cluster, and its position in the drawing."""

    id: int
    kind: str = Field(description="The memory's kind, the name's type, or pattern.")
    is_memory: bool
    label: str
    relevance: float
    step: int = Field(description="Number of edges from the nodes at which the neighbourhood begins.")
    degree: int = Field(description="Number of its edges in the whole graph.")
    x: float
    y: float


class EdgeView(View):
    """An edge between two shown nodes."""

    source: int
    target: int
    type: str
    confidence: float
    origin: str
    note: str


class Neighbourhood(View):
    """Nodes and edges around some memories or names."""

    nodes: tuple[NodeView, ...] = ()
    edges: tuple[EdgeView, ...] = ()
    types: tuple[str, ...] = Field(default=(), description="All types of edges in the graph.")


def neighbourhood(
    tenant: Tenant, begin: Collection[int], *, steps: int = 1, most: int = 200, types: Sequence[str] = (), least: float = 0.0
) -> Neighbourhood:
    """Return at most `most` nodes within `steps` edges of the nodes `begin`, the surest edges first, as of the last build.

    Only edges of `types` (empty: all) with a confidence of at least `least` count.
    """
    if not tenant.catalog.exists or not begin:
        return Neighbourhood()
    with tenant.catalog.interactive.read() as connection:
        connection.register("shown", tenant.memories.scan(("id",), f"state IN {quoted((State.ACTIVE, State.SUPERSEDED))}"))
        connection.execute(_EDGES)
        wanted: dict[str, object] = {"least": least, "types": list(types)}
        connection.execute(_BEGIN, [list(begin)])
        for step in range(1, steps + 1):
            (count,) = connection.execute("SELECT count(*) FROM reached").fetchone() or (0,)
            connection.execute("CREATE OR REPLACE TEMP TABLE frontier AS SELECT id FROM reached WHERE step = $1", [step - 1])
            connection.execute(_STEP, wanted | {"step": step, "most": max(0, most - count)})
        nodes = connection.execute(_NODES).fetchall()
        edges = connection.execute(_BETWEEN, wanted).fetchall()
        known = connection.execute("SELECT DISTINCT type FROM edges ORDER BY type").fetchall()
    place = {row[0]: number for number, row in enumerate(nodes)}
    where = layout(len(nodes), [(place[row[0]], place[row[1]], row[3]) for row in edges])
    names = ("id", "kind", "is_memory", "label", "relevance", "step", "degree")
    return Neighbourhood(
        nodes=tuple(
            NodeView(**dict(zip(names, row, strict=True)), x=round(float(x), 2), y=round(float(y), 2))
            for row, (x, y) in zip(nodes, where, strict=True)
        ),
        edges=tuple(EdgeView(**dict(zip(EdgeView.model_fields, row, strict=True))) for row in edges),
        types=tuple(name for (name,) in known),
    )


class Drawn(Answer):
    """The file of a drawing."""

    file: Path
    nodes: int
    edges: int

    def text(self, local: LocalTime) -> str:
        drawn = f"{counted(self.nodes, 'node', 'nodes')} and {counted(self.edges, 'edge', 'edges')} drawn to {self.file}"
        return drawn if self.nodes else f"{drawn}\nThe graph is empty; {local.command('run')} builds it."


def draw_graph(tenant: Tenant, file: Path, limit: int) -> Drawn:
    """Draw the most relevant memories with their names and clusters, at most `limit` nodes, as one HTML file."""
    begin = [number for (number,) in tenant.catalog.fetch(_MOST_RELEVANT, [limit])]
    found = neighbourhood(tenant, begin, most=limit)
    data = found.model_dump(include={"nodes": {"__all__": NodeView.model_fields.keys() - {"step"}}, "edges": True})
    drawing = Template((_FILES / "graph.html").read_text(encoding="utf-8")).substitute(
        title=f"Memory of {tenant.name}",
        counts=f"{counted(len(found.nodes), 'node', 'nodes')}, {counted(len(found.edges), 'edge', 'edges')}",
        data=json.dumps(data).replace("<", r"\u003c"),
        script=read_script().decode(),
    )
    with writing(file) as opened:
        opened.write(drawing.encode())
    return Drawn(file=file.absolute(), nodes=len(found.nodes), edges=len(found.edges))


def read_script() -> bytes:
    """Return the script that draws a graph in the file and on the page."""
    return (_FILES / "graph.js").read_bytes()
