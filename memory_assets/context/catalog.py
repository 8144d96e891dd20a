"""In-process cache of a tenant's catalog for contexts: entities, patterns, their names, and Tana as last read.

Opening the catalog costs more than a walk, so the cache is refreshed, as a whole, only when the catalog's file has changed. The links
between memories are cached in `memory_assets.recall.view`.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from memory_assets.arrays import Ids, Mask, Rows, Times
from memory_assets.compute import pc
from memory_assets.context.model import Category, Fields, Link, Neighbours, Node
from memory_assets.context.names import Candidate, Names
from memory_assets.context.neighbours import choose_links
from memory_assets.errors import StoreBusyError, StoreError
from memory_assets.recall.view import Links, ranges
from memory_assets.tana.matching import word_shares
from memory_assets.tana.state import SyncRecord

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.recall.question import Question
    from memory_assets.stores.catalog import Catalog, Stamp
    from memory_assets.tenants import Tenant


_THINGS_SQL = """
    SELECT n.id, n.kind, coalesce(n.label, '') AS label, coalesce(n.type, '') AS type, coalesce(c.size, 0) AS size
    FROM graph_nodes n LEFT JOIN (
        SELECT cluster_id AS id, count(*) AS size FROM cluster_members JOIN graph_memories ON graph_memories.id = memory_id
        WHERE live GROUP BY cluster_id
    ) c ON c.id = n.id WHERE n.kind <> 'memory' ORDER BY n.id
"""
_NAMES_SQL = """
    WITH known AS (
        SELECT n.id, a."text" AS name, coalesce(n.type, '') AS type, n.kind = 'entity' AS entity
        FROM graph_aliases a JOIN graph_nodes n ON n.id = a.entity_id
        UNION SELECT id, label, coalesce(type, ''), kind = 'entity' FROM graph_nodes WHERE kind IN ('entity', 'pattern')
        UNION ALL SELECT id, title, '', false FROM graph_memories WHERE live AND title <> ''
    )
    SELECT *, lower(name) AS folded FROM known WHERE name IS NOT NULL ORDER BY id, name
"""
_NODES_SQL = """
    SELECT n.id, coalesce(n.name, '') AS name, coalesce(n.description, '') AS description, n.tags, n.created, n.modified,
           coalesce(w.name, '') AS workspace, lower(concat_ws(' ', n.name, n.description)) AS said,
           lower(coalesce(n.name, '')) AS folded
    FROM tana_nodes n LEFT JOIN tana_workspaces w ON w.id = n.workspace ORDER BY n.id
"""
_LINKS_SQL = (
    "SELECT source, target, relation, coalesce(label, '') AS label, place FROM tana_links ORDER BY relation DESC, label, place"
)
_FIELDS_SQL = "SELECT node, name, value FROM tana_fields WHERE value <> '' ORDER BY place, name"
_MAX_CHILDREN = 40
"""Children whose names are part of a node's text."""
_MAX_SCORE = 0.8
"""Score of a hit with all words, so that it does not rank above memories about the topic."""


@dataclass(frozen=True)
class TanaGraph:
    """The Tana nodes in the catalog, without mirrored learnings, which are memories; with the same methods as `StoreReader`."""

    table: pa.Table
    """Nodes by `id`: `name`, `description`, `tags`, `created`, `modified`, `workspace`; `said` is name and description in lower case."""
    links: pa.Table
    """`relation`, `label` and `place` of each link, most informative first."""
    values: pa.Table
    """`name` and `value` of fields by `row` of their node, in the node's order."""
    ends: Links
    """Links from `source` to `target`, which are rows of `table`; `row` is the row in `links`."""
    read_at: datetime | None

    @property
    def backend(self) -> str:
        return f"Tana as read on {self.read_at:%Y-%m-%d}" if self.read_at else "Tana as read so far"

    def nodes(self, ids: Collection[str]) -> dict[str, Node]:
        rows = self._rows(ids)
        children = [self._records(self._children(row)[:_MAX_CHILDREN]) for row in rows.tolist()]
        return {
            record["id"]: _tana_node(record, [child["name"] for child in below])
            for record, below in zip(self._records(rows), children, strict=True)
        }

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """Return parents, children, references and fields, in both directions, without root nodes, which are above everything."""
        asked = self._rows(ids)
        ends = self.ends.columns
        (out_of, out), (into, back) = self.ends.outgoing(asked), self.ends.incoming(asked)
        kept = ~ends["child"][back] | self._has_parent[ends["source"][back]]
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
        """Find nodes whose names and descriptions contain at least half of the topic's words."""
        held = word_shares(self.table["said"], topic.topic)
        rows = np.flatnonzero(held)
        rows = rows[np.lexsort((rows, -self._modified[rows], ~self._tagged[rows], -held[rows]))][:limit]
        return dict(zip(self._ids(rows), (_MAX_SCORE * held[rows]).tolist(), strict=True))

    def named(self, topic: "Question") -> list[Candidate]:
        found = self._records(self._names.near(topic.text))
        return [Candidate(node["id"], node["name"], bool(node["tags"])) for node in found]

    def things(self, names: Collection[str]) -> dict[str, list[str]]:
        """Return the ids of tagged nodes by lower-case name."""
        found: dict[str, list[str]] = {}
        for node in self._records(self._names.exactly(names)):
            if node["tags"]:
                found.setdefault(node["folded"], []).append(node["id"])
        return found

    @cached_property
    def _names(self) -> Names:
        """Names of nodes; only those of tagged nodes are found within topics."""
        return Names(self.table["folded"].combine_chunks(), self._tagged)

    @cached_property
    def _tagged(self) -> Mask:
        return pc.greater(pc.fill_null(pc.list_value_length(self.table["tags"]), 0), 0).to_numpy()

    @cached_property
    def _modified(self) -> Times:
        """Modification times in microseconds since 1970; an unknown one is lower than any time."""
        return pc.fill_null(self.table["modified"].cast(pa.int64()), np.iinfo(np.int64).min + 1).to_numpy()

    def _rows(self, ids: Collection[str]) -> Rows:
        return np.array([row for node in ids if (row := self._row.get(node)) is not None], np.intp)

    def _ids(self, rows: Rows) -> list[str]:
        return self.table["id"].take(pa.array(rows)).to_pylist()

    def _records(self, rows: Rows) -> list[dict[str, Any]]:
        return self.table.take(pa.array(rows)).to_pylist()

    def _children(self, row: int) -> Rows:
        ends = self.ends.columns
        linked = self.ends.outgoing(np.array([row]))[1]
        linked = linked[ends["child"][linked]]
        return ends["target"][linked[np.argsort(ends["row"][linked])]]

    @cached_property
    def _row(self) -> dict[str, int]:
        return {node: row for row, node in enumerate(self.table["id"].to_pylist())}

    @cached_property
    def _has_parent(self) -> Mask:
        has_parent = np.zeros(self.table.num_rows, bool)
        has_parent[self.ends.columns["target"][self.ends.columns["child"]]] = True
        return has_parent


def read_tana_graph(connection: "DuckDBPyConnection", mirrored: list[str]) -> TanaGraph:
    """Read the Tana nodes from the catalog, without those that mirror learnings."""
    nodes, links, fields = (connection.execute(query).to_arrow_table() for query in (_NODES_SQL, _LINKS_SQL, _FIELDS_SQL))
    nodes = nodes.filter(pc.invert(pc.is_in(nodes["id"], value_set=pa.array(mirrored, pa.string()))))
    (read_at,) = connection.execute("SELECT max(read_at) FROM tana_workspaces").fetchone() or (None,)
    known = nodes["id"].combine_chunks()

    def row_of(ids: pa.ChunkedArray) -> Rows:
        return pc.fill_null(pc.index_in(ids, value_set=known), -1).to_numpy().astype(np.intp)

    source, target = row_of(links["source"]), row_of(links["target"])
    order = np.argsort(source, kind="stable")
    order = order[(source[order] >= 0) & (target[order] >= 0)]
    child = pc.equal(links["relation"], "CHILD").to_numpy()
    ends = Links.of({"source": source[order], "target": target[order], "row": order, "child": child[order]})
    fields = fields.append_column("row", pa.array(row_of(fields["node"]))).sort_by("row")
    return TanaGraph(nodes, links, fields, ends, read_at)


def _tana_node(record: "Mapping[str, Any]", children: "Collection[str]") -> Node:
    """Build a node from its row and the names of its children."""
    tags = tuple(record["tags"] or ())
    content = "\n".join([*filter(None, [record["description"]]), *(f"- {child}" for child in children)])
    return Node(
        record["id"],
        record["name"] or record["id"],
        Category.TANA,
        tags[0] if tags else "node",
        content,
        tags,
        record["created"],
        record["modified"] or record["created"],
        source=f"tana:{record['workspace']}",
    )


@dataclass(frozen=True)
class CatalogCache:
    """The content of a catalog at the time of its stamp."""

    stamp: "Stamp"
    mirror_stamp: "Stamp"
    """Stamp of the record of syncs, which names the mirrored learnings."""
    things: pa.Table
    """Entities and patterns by `id`: `kind`, `label`, `type`, and a pattern's `size`, the number of its memories in recall."""
    named: pa.Table
    """Spellings of entities, labels of patterns and titles of memories: `id`, `name`, `type`, and whether it is an `entity`."""
    tana: TanaGraph

    @cached_property
    def names(self) -> Names:
        return Names(self.named["folded"].combine_chunks())

    @cached_property
    def thing_ids(self) -> Ids:
        return self.things["id"].to_numpy()


_caches: "WeakKeyDictionary[Tenant, CatalogCache]" = WeakKeyDictionary()


def current_catalog(tenant: "Tenant") -> CatalogCache:
    """Return the cache of the catalog; while another process writes that, return the previous cache, or raise StoreBusyError."""
    catalog, cached = tenant.catalog, _caches.get(tenant)
    stamps = catalog.stamp, SyncRecord.stamp(tenant.folder)
    if cached is None or (cached.stamp, cached.mirror_stamp) != stamps:
        mirrored: list[str] = []
        with suppress(StoreError):  # the next sync names what is wrong with the record
            mirrored = SyncRecord.load(tenant.folder).nodes
        try:
            cached = _read(catalog.interactive, *stamps, mirrored)
        except StoreBusyError:
            if cached is None:
                raise
        _caches[tenant] = cached
    return cached


def no_catalog(tenant: "Tenant") -> CatalogCache:
    """Return the cache of an empty catalog."""
    from memory_assets.stores.catalog import Catalog

    return _read(Catalog(f"{tenant.folder}/catalog.absent", 0), (), (), [])


def _read(catalog: "Catalog", stamp: "Stamp", mirror_stamp: "Stamp", mirrored: list[str]) -> CatalogCache:
    with catalog.read() as connection:
        things, named = (connection.execute(query).to_arrow_table() for query in (_THINGS_SQL, _NAMES_SQL))
        return CatalogCache(stamp, mirror_stamp, things, named, read_tana_graph(connection, mirrored))
