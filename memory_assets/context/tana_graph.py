"""Tana as it was last read into the catalog, as arrays: nodes, the links between them, their fields."""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memory_assets.context.model import Link, Neighbours
from memory_assets.context.names import Names
from memory_assets.context.neighbourhood import choose_links
from memory_assets.recall.graph_view import Links
from memory_assets.recall.grouping import ranges

if TYPE_CHECKING:
    import numpy.typing as npt
    from duckdb import DuckDBPyConnection

    Rows = npt.NDArray[np.intp]

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


@dataclass(frozen=True)
class TanaGraph:
    """A workspace; its nodes are rows."""

    nodes: pa.Table
    """Sorted by `id`: `name`, `description`, `tags`, `created`, `modified`, `workspace`; `said` is name and description in lower case."""
    links: pa.Table
    """`relation`, `label` and `place` of each link, what tells most first."""
    fields: pa.Table
    """`name` and `value` by `row` of a node, in the order in which the node tells them."""
    ends: Links
    """From `source` to `target`, rows of nodes; `row` is the link's."""
    read_at: datetime | None

    @cached_property
    def names(self) -> Names:
        """The names of nodes; those of tagged ones are looked for within topics."""
        return Names(self.nodes["folded"].combine_chunks(), self.tagged)

    @cached_property
    def tagged(self) -> "npt.NDArray[np.bool_]":
        """Whether each node has a tag."""
        return pc.greater(pc.fill_null(pc.list_value_length(self.nodes["tags"]), 0), 0).to_numpy()

    @cached_property
    def modified(self) -> "npt.NDArray[np.int64]":
        """When each node was modified, in microseconds since 1970; lower than any time where that is not known."""
        return pc.fill_null(self.nodes["modified"].cast(pa.int64()), np.iinfo(np.int64).min + 1).to_numpy()

    def rows(self, ids: Collection[str]) -> "Rows":
        """Rows of those nodes that are known."""
        return np.array([row for node in ids if (row := self._row.get(node)) is not None], np.intp)

    def ids(self, rows: "Rows") -> list[str]:
        """Ids of nodes."""
        return self.nodes["id"].take(pa.array(rows)).to_pylist()

    def records(self, rows: "Rows") -> list[dict[str, Any]]:
        """Nodes with all that is known of them."""
        return self.nodes.take(pa.array(rows)).to_pylist()

    def children(self, row: int) -> "Rows":
        """Rows of a node's children, in their order."""
        ends = self.ends.columns
        linked = self.ends.outgoing(np.array([row]))[1]
        linked = linked[ends["child"][linked]]
        return ends["target"][linked[np.argsort(ends["row"][linked])]]

    def neighbours(self, ids: Collection[str], scores: Mapping[str, float], most: int) -> Neighbours:
        """As `StoreReader.neighbours`; a parent that hangs below nothing holds everything, and is left out."""
        asked = self.rows(ids)
        ends = self.ends.columns
        (out_of, out), (into, back) = self.ends.outgoing(asked), self.ends.incoming(asked)
        kept = ~ends["child"][back] | self._hangs[ends["source"][back]]
        into, back = into[kept], back[kept]
        place = np.concatenate([out_of, into])
        found = np.concatenate([out, back])
        target = np.concatenate([ends["target"][out], ends["source"][back]])
        backwards = np.arange(len(found)) >= len(out)
        row = ends["row"][found]
        score = np.zeros(self.nodes.num_rows)
        for node, similarity in scores.items():
            if node in self._row:
                score[self._row[node]] = similarity
        relevant = [-score[target], ends["child"][found], -self.modified[target], target]
        chosen, sizes = choose_links(place, target, [row, backwards], relevant, most)
        told = self.links.take(pa.array(row[chosen]))
        columns = [self.ids(asked[place[chosen]]), self.ids(target[chosen]), told["relation"].to_pylist()]
        links = [
            Link(origin, end, relation, not back, reason=label)
            for origin, end, relation, back, label in zip(
                *columns, backwards[chosen].tolist(), told["label"].to_pylist(), strict=True
            )
        ]
        totals = {link.origin: size for link, size in zip(links, sizes.tolist(), strict=True) if size > most}
        return Neighbours(tuple(links), totals)

    def field_values(self, ids: Collection[str]) -> dict[str, list[tuple[str, str]]]:
        """Name and value of the fields of nodes that have any."""
        asked = self.rows(ids)
        place, rows = ranges(self.fields["row"].to_numpy(), asked)
        told = self.fields.take(pa.array(rows))
        found: dict[str, list[tuple[str, str]]] = {}
        for node, name, value in zip(self.ids(asked[place]), told["name"].to_pylist(), told["value"].to_pylist(), strict=True):
            found.setdefault(node, []).append((name, value))
        return found

    def holding(self, words: Collection[str], least: int, limit: int) -> list[tuple[str, int]]:
        """Ids of nodes whose names and descriptions hold at least so many of some words, and how many; the most first."""
        held = np.zeros(self.nodes.num_rows, np.int64)
        for word in words:
            held += pc.match_substring(self.nodes["said"], word).to_numpy()
        rows = np.flatnonzero(held >= least)
        rows = rows[np.lexsort((rows, -self.modified[rows], ~self.tagged[rows], -held[rows]))][:limit]
        return list(zip(self.ids(rows), held[rows].tolist(), strict=True))

    @cached_property
    def _row(self) -> dict[str, int]:
        return {node: row for row, node in enumerate(self.nodes["id"].to_pylist())}

    @cached_property
    def _hangs(self) -> "npt.NDArray[np.bool_]":
        """Whether each node hangs below another."""
        hangs = np.zeros(self.nodes.num_rows, bool)
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
