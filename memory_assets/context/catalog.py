"""A process's copy of what contexts read of a tenant's catalog: entities, patterns, their names, and Tana as it was last read.

Opening the catalog costs more than a walk, so it is read only when its file has changed, and then as a whole. `memory_assets.recall.view`
keeps the links between memories.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.names import Candidate, Names
from memory_assets.context.neighbours import choose_links
from memory_assets.errors import StoreBusyError
from memory_assets.recall.view import Links, ranges
from memory_assets.tana.matching import word_shares

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    from memory_assets.recall.question import Question
    from memory_assets.stores.catalog import Catalog, Stamp
    from memory_assets.tenants import Tenant

    Rows = npt.NDArray[np.intp]

_THINGS = """
    SELECT n.id, n.kind, coalesce(n.label, '') AS label, coalesce(n.type, '') AS type, coalesce(c.summary, '') AS summary,
           coalesce(c.size, 0) AS size
    FROM graph_nodes n LEFT JOIN clusters c ON c.id = n.id WHERE n.kind <> 'memory' ORDER BY n.id
"""
_NAMES = """
    WITH known AS (
        SELECT n.id, a."text" AS name, coalesce(n.type, '') AS type, n.kind = 'entity' AS entity
        FROM graph_aliases a JOIN graph_nodes n ON n.id = a.entity_id
        UNION SELECT id, label, coalesce(type, ''), kind = 'entity' FROM graph_nodes WHERE kind IN ('entity', 'pattern')
        UNION ALL SELECT id, title, '', false FROM graph_memories WHERE live AND title <> ''
    )
    SELECT *, lower(name) AS folded FROM known WHERE name IS NOT NULL ORDER BY id, name
"""
_NODES = """
    SELECT n.id, coalesce(n.name, '') AS name, coalesce(n.description, '') AS description, n.tags, n.created, n.modified,
           coalesce(w.name, '') AS workspace, lower(concat_ws(' ', n.name, n.description)) AS said,
           lower(coalesce(n.name, '')) AS folded
    FROM tana_nodes n LEFT JOIN tana_workspaces w ON w.id = n.workspace ORDER BY n.id
"""
_LINKS = (
    "SELECT source, target, relation, coalesce(label, '') AS label, place FROM tana_links ORDER BY relation DESC, label, place"
)
_FIELDS = "SELECT node, name, value FROM tana_fields WHERE value <> '' ORDER BY place, name"
_TOLD_CHILDREN = 40
"""Children whose names are the text of a node."""
_BELOW_MEMORIES = 0.8
"""What a hit by words counts at most, so that it does not outdo what memories say about the topic."""


@dataclass(frozen=True)
class TanaGraph:
    """The workspace as `memory tana read` left it in the catalog; its nodes are rows. It answers as `StoreReader` does."""

    table: pa.Table
    """Nodes by `id`: `name`, `description`, `tags`, `created`, `modified`, `workspace`; `said` is name and description in lower case."""
    links: pa.Table
    """`relation`, `label` and `place` of each link, what tells most first."""
    values: pa.Table
    """`name` and `value` of fields by `row` of a node, in the order in which the node tells them."""
    ends: Links
    """From `source` to `target`, rows of nodes; `row` is the link's."""
    read_at: datetime | None

    @property
    def backend(self) -> str:
        return f"Tana as read on {self.read_at:%Y-%m-%d}" if self.read_at else "Tana as read so far"

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        rows = self._rows(ids)
        children = [self._records(self._children(row)[:_TOLD_CHILDREN]) for row in rows.tolist()]
        return {
            record["id"]: _tana_node(record, [child["name"] for child in below])
            for record, below in zip(self._records(rows), children, strict=True)
        }

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """Parents, children, references, fields, in both directions; a parent below nothing holds everything, and is left out."""
        asked = self._rows(ids)
        ends = self.ends.columns
        (out_of, out), (into, back) = self.ends.outgoing(asked), self.ends.incoming(asked)
        kept = ~ends["child"][back] | self._hangs[ends["source"][back]]
        into, back = into[kept], back[kept]
        place = np.concatenate([out_of, into])
        found = np.concatenate([out, back])
        target = np.concatenate([ends["target"][out], ends["source"][back]])
        backwards = np.arange(len(found)) >= len(out)
        row = ends["row"][found]
        score = np.zeros(self.table.num_rows)
        for node, similarity in scores.items():
            if node in self._row:
                score[self._row[node]] = similarity
        relevant = [-score[target], ends["child"][found], -self._modified[target], target]
        chosen, sizes = choose_links(place, target, [row, backwards], relevant, most)
        chosen_links = self.links.take(pa.array(row[chosen]))
        columns = [self._ids(asked[place[chosen]]), self._ids(target[chosen]), chosen_links["relation"].to_pylist()]
        links = [
            Link(origin, end, relation, not back, reason=label)
            for origin, end, relation, back, label in zip(
                *columns, backwards[chosen].tolist(), chosen_links["label"].to_pylist(), strict=True
            )
        ]
        totals = {link.origin: size for link, size in zip(links, sizes.tolist(), strict=True) if size > most}
        return Neighbours(tuple(links), totals)

    def fields(self, ids: Collection[str]) -> dict[str, Fields]:
        asked = self._rows(ids)
        place, rows = ranges(self.values["row"].to_numpy(), asked)
        found: dict[str, dict[str, list[str]]] = {}
        for node, record in zip(self._ids(asked[place]), self.values.take(pa.array(rows)).to_pylist(), strict=True):
            found.setdefault(node, {}).setdefault(record["name"], []).append(record["value"])
        return {node: tuple((name, tuple(values)) for name, values in fields.items()) for node, fields in found.items()}

    def search(self, topic: "Question", limit: int) -> dict[str, float]:
        """Nodes whose names and descriptions hold at least half of the topic's words."""
        held = word_shares(self.table["said"], topic.topic)
        rows = np.flatnonzero(held)
        rows = rows[np.lexsort((rows, -self._modified[rows], ~self._tagged[rows], -held[rows]))][:limit]
        return dict(zip(self._ids(rows), (_BELOW_MEMORIES * held[rows]).tolist(), strict=True))

    def named(self, topic: "Question") -> list[Candidate]:
        found = self._records(self._names.near(topic.text))
        return [Candidate(node["id"], node["name"], bool(node["tags"])) for node in found]

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Tagged nodes by name, without case."""
        found: dict[str, list[str]] = {}
        for node in self._records(self._names.exactly(names)):
            if node["tags"]:
                found.setdefault(node["folded"], []).append(node["id"])
        return found

    @cached_property
    def _names(self) -> Names:
        """The names of nodes; those of tagged ones are looked for within topics."""
        return Names(self.table["folded"].combine_chunks(), self._tagged)

    @cached_property
    def _tagged(self) -> "npt.NDArray[np.bool_]":
        return pc.greater(pc.fill_null(pc.list_value_length(self.table["tags"]), 0), 0).to_numpy()

    @cached_property
    def _modified(self) -> "npt.NDArray[np.int64]":
        """When each node was modified, in microseconds since 1970; lower than any time where that is not known."""
        return pc.fill_null(self.table["modified"].cast(pa.int64()), np.iinfo(np.int64).min + 1).to_numpy()

    def _rows(self, ids: Collection[str]) -> "Rows":
        """Rows of those nodes that are known."""
        return np.array([row for node in ids if (row := self._row.get(node)) is not None], np.intp)

    def _ids(self, rows: "Rows") -> list[str]:
        return self.table["id"].take(pa.array(rows)).to_pylist()

    def _records(self, rows: "Rows") -> list[dict[str, Any]]:
        return self.table.take(pa.array(rows)).to_pylist()

    def _children(self, row: int) -> "Rows":
        """Rows of a node's children, in their order."""
        ends = self.ends.columns
        linked = self.ends.outgoing(np.array([row]))[1]
        linked = linked[ends["child"][linked]]
        return ends["target"][linked[np.argsort(ends["row"][linked])]]

    @cached_property
    def _row(self) -> dict[str, int]:
        return {node: row for row, node in enumerate(self.table["id"].to_pylist())}

    @cached_property
    def _hangs(self) -> "npt.NDArray[np.bool_]":
        hangs = np.zeros(self.table.num_rows, bool)
        hangs[self.ends.columns["target"][self.ends.columns["child"]]] = True
        return hangs


def read_tana_graph(connection: "DuckDBPyConnection") -> TanaGraph:
    """The workspace as the catalog has it."""
    nodes, links, fields = (connection.execute(query).to_arrow_table() for query in (_NODES, _LINKS, _FIELDS))
    (read_at,) = connection.execute("SELECT max(read_at) FROM tana_workspaces").fetchone() or (None,)
    known = nodes["id"].combine_chunks()

    def row_of(ids: pa.ChunkedArray) -> "Rows":
        return pc.fill_null(pc.index_in(ids, value_set=known), -1).to_numpy().astype(np.intp)

    source, target = row_of(links["source"]), row_of(links["target"])
    order = np.argsort(source, kind="stable")
    order = order[(source[order] >= 0) & (target[order] >= 0)]
    child = pc.equal(links["relation"], "CHILD").to_numpy()
    ends = Links.of({"source": source[order], "target": target[order], "row": order, "child": child[order]})
    fields = fields.append_column("row", pa.array(row_of(fields["node"]))).sort_by("row")
    return TanaGraph(nodes, links, fields, ends, read_at)


def _tana_node(record: "Mapping[str, Any]", children: "Collection[str]" = ()) -> Node:
    """A node of Tana by its `id`, `name`, `description`, `tags`, `created`, `modified` and `workspace`, as far as they are known."""
    description, tags = record.get("description"), tuple(record.get("tags") or ())
    content = "\n".join([*filter(None, [description]), *(f"- {child}" for child in children)])
    created = record.get("created")
    return Node(
        record["id"],
        record["name"] or record["id"],
        Category.TANA,
        tags[0] if tags else "node",
        content,
        tags,
        created,
        record.get("modified") or created,
        source=f"tana:{record['workspace']}",
    )


@dataclass(frozen=True)
class CatalogCache:
    """The catalog as it was when it had this stamp."""

    stamp: "Stamp"
    things: pa.Table
    """Entities and patterns by `id`: `kind`, `label`, `type`, and `summary` and `size` of a pattern."""
    named: pa.Table
    """Spellings of entities, labels of patterns, titles of memories: `id`, `name`, `type`, and whether it is an `entity`."""
    tana: TanaGraph

    @cached_property
    def names(self) -> Names:
        return Names(self.named["folded"].combine_chunks())

    @cached_property
    def thing_ids(self) -> "npt.NDArray[np.int64]":
        return self.things["id"].to_numpy()


_known: "WeakKeyDictionary[Tenant, CatalogCache]" = WeakKeyDictionary()


def current_catalog(tenant: "Tenant") -> CatalogCache:
    """What the catalog says now; while another process writes it, what it said before, or StoreBusyError if it was not read yet."""
    catalog, known = tenant.catalog, _known.get(tenant)
    stamp = catalog.stamp
    if known is None or known.stamp != stamp:
        try:
            known = _read(catalog.interactive, stamp)
        except StoreBusyError:
            if known is None:
                raise
        _known[tenant] = known
    return known


def no_catalog(tenant: "Tenant") -> CatalogCache:
    """The cache of an empty catalog."""
    from memory_assets.stores.catalog import Catalog

    return _read(Catalog(f"{tenant.folder}/catalog.absent", 0), ())


def _read(catalog: "Catalog", stamp: "Stamp") -> CatalogCache:
    with catalog.read() as connection:
        things, named = (connection.execute(query).to_arrow_table() for query in (_THINGS, _NAMES))
        return CatalogCache(stamp, things, named, read_tana_graph(connection))
