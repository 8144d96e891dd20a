"""What recall keeps in memory of the catalog's graph: typed edges, mentions and entity names, as arrays.

Opening the catalog costs more than a whole search, so it is read only when its file has changed, and then only the nodes that the
graph's builds since have touched. Where there is no catalog yet, or it cannot be read now because another process writes it, the
graph is empty or the one last read: search never waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from memory_assets.errors import StoreError
from memory_assets.recall.columns import Codes, Columns
from memory_assets.recall.grouping import Grouping
from memory_assets.stores.graph_builds import NO_BUILD, Build, present_build, touched_since

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from memory_assets.stores.catalog import Catalog, Stamp

    Nodes = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

_PATIENCE = 0.25
"""Seconds that a first search waits for the catalog's lock."""
_MOST_OUTDATED = 1_000
_OUTDATED_SHARE = 0.25
"""Outdated rows, as a number and as a share of all, beyond which everything is read again."""
_MOST_CHUNKS = 200
"""Pieces of notes from which they are joined."""

_EDGES = """
    SELECT source_id AS source, target_id AS target, type, origin, coalesce(confidence, 1)::FLOAT AS confidence, note
    FROM graph_edges {} ORDER BY source_id, target_id, type, origin
"""
_MENTIONS = "SELECT memory_id AS source, entity_id AS target FROM graph_mentions {} ORDER BY memory_id, entity_id"
_NAMED = "SELECT id, coalesce(label, '') AS label FROM graph_nodes {} WHERE kind <> 'memory'"


@dataclass(frozen=True)
class Links:
    """Directed links, each a row of columns, found from either end."""

    columns: Columns
    """`source`, `target` and what else is known of each link."""
    _by_source: Grouping
    _by_target: Grouping
    _outdated: int = 0

    @classmethod
    def of(cls, columns: "Mapping[str, npt.NDArray[Any]]") -> "Links":
        """Of columns that are sorted by `source`."""
        source, target = columns["source"], columns["target"]
        back = np.argsort(target, kind="stable")
        by_source = Grouping.of_sorted(source, np.arange(len(source), dtype=np.intp))
        return cls(Columns(columns), by_source, Grouping.of_sorted(target[back], back))

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return self._by_source.empty

    @property
    def worn(self) -> bool:
        """Whether so many rows are outdated that they are better read again."""
        return self._outdated > max(_MOST_OUTDATED, _OUTDATED_SHARE * len(self.columns))

    def outgoing(self, nodes: "Nodes") -> "tuple[Rows, Rows]":
        """The links that lead from these nodes, as (place in `nodes`, row) pairs."""
        return self._by_source.of(nodes)

    def incoming(self, nodes: "Nodes") -> "tuple[Rows, Rows]":
        """The links that lead to these nodes, as (place in `nodes`, row) pairs."""
        return self._by_target.of(nodes)

    def incoming_counts(self, nodes: "Nodes") -> "npt.NDArray[np.int64]":
        """How many links lead to each node."""
        return self._by_target.sizes(nodes)

    def replaced(self, sources: "Nodes", columns: "Mapping[str, npt.NDArray[Any]]") -> "Links":
        """These links, those from some sources replaced by others, which are sorted by `source`."""
        old = self._by_source.of(sources)[1]
        grown = self.columns.grown(columns)
        new = np.arange(len(self.columns), len(grown))
        targets = np.unique(grown["target"][np.concatenate([old, new])])
        leading_to = _divided(grown["target"], new, targets)
        by_target = {}
        for target in targets.tolist():
            rows = self._by_target.rows_of(target)
            by_target[target] = np.concatenate([rows[~np.isin(rows, old)], leading_to[target]])
        by_source = self._by_source.changed(_divided(grown["source"], new, sources))
        return Links(grown, by_source, self._by_target.changed(by_target), self._outdated + len(old))


def _divided(keys: "Nodes", rows: "Rows", wanted: "Nodes") -> "dict[int, Rows]":
    """For each wanted key those of `rows` that have it."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    starts, ends = (np.searchsorted(keys[order], wanted, side) for side in ("left", "right"))
    return {key: order[start:end] for key, start, end in zip(wanted.tolist(), starts, ends, strict=True)}


@dataclass(frozen=True)
class GraphView:
    """The graph as it was when the catalog had this stamp."""

    stamp: "Stamp"
    build: Build
    edges: Links
    """Between nodes, with `type` and `origin` (codes) and `confidence`."""
    mentions: Links
    """From memories to entities."""
    types: Codes
    origins: Codes
    _notes: pa.ChunkedArray
    _labels: dict[int, str]
    """Names of the nodes that are no memories. Views that follow each other share it: a newer name does an older view no harm."""

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return self.edges.empty and self.mentions.empty

    def label(self, node: int) -> str:
        """Name of an entity or a pattern."""
        return self._labels.get(node, str(node))

    def note(self, edge: int) -> str:
        """Why an edge is there; empty where nobody said."""
        return self._notes[edge].as_py() or ""

    def following(self, stamp: "Stamp", build: Build, touched: "Nodes", parts: "_Parts") -> "GraphView":
        """The graph after builds that touched some nodes; `parts` are what belongs to them now."""
        edges, mentions, named = parts
        for node in touched.tolist():
            self._labels.pop(node, None)
        self._labels.update(zip(named["id"].to_pylist(), named["label"].to_pylist(), strict=True))
        notes = pa.chunked_array([*self._notes.chunks, *edges["note"].chunks], pa.string())
        return replace(
            self,
            stamp=stamp,
            build=build,
            edges=self.edges.replaced(touched, _edge_columns(edges, self.types, self.origins)),
            mentions=self.mentions.replaced(touched, _ends(mentions)),
            _notes=pa.chunked_array([notes.combine_chunks()]) if notes.num_chunks > _MOST_CHUNKS else notes,
        )


_Parts = Sequence[pa.Table]
"""Edges, mentions and names, as the catalog has them."""


def read_graph(catalog: "Catalog", known: GraphView | None) -> GraphView:
    """The graph as the catalog has it now; `known` where that is still true or the catalog cannot be read."""
    stamp = catalog.stamp
    if known is not None and known.stamp == stamp:
        return known
    if not stamp:
        return _view((), NO_BUILD, _NOTHING)
    from memory_assets.stores.catalog import Catalog

    try:
        with Catalog(str(catalog.path), min(catalog.lock_timeout, _PATIENCE)).read() as connection:
            build = present_build(connection)
            if known is None or known.edges.worn or known.mentions.worn or not known.build.leads_to(build):
                everything = [connection.execute(query.format("")).to_arrow_table() for query in (_EDGES, _MENTIONS, _NAMED)]
                return _view(stamp, build, everything)
            if known.build == build:
                return replace(known, stamp=stamp)
            touched = touched_since(connection, known.build)
            connection.register("touched", touched)
            parts = [
                connection.execute(query.format(f"SEMI JOIN touched ON {column} = node")).to_arrow_table()
                for query, column in ((_EDGES, "source_id"), (_MENTIONS, "memory_id"), (_NAMED, "id"))
            ]
            return known.following(stamp, build, np.sort(touched["node"].to_numpy()), parts)
    except StoreError:
        return known or _view((), NO_BUILD, _NOTHING)


def _view(stamp: "Stamp", build: Build, parts: _Parts) -> GraphView:
    edges, mentions, named = parts
    types, origins = Codes(), Codes()
    return GraphView(
        stamp=stamp,
        build=build,
        edges=Links.of(_edge_columns(edges, types, origins)),
        mentions=Links.of(_ends(mentions)),
        types=types,
        origins=origins,
        _notes=edges["note"],
        _labels=dict(zip(named["id"].to_pylist(), named["label"].to_pylist(), strict=True)),
    )


def _ends(links: pa.Table) -> "dict[str, npt.NDArray[Any]]":
    return {name: links[name].to_numpy() for name in ("source", "target")}


def _edge_columns(edges: pa.Table, types: Codes, origins: Codes) -> "dict[str, npt.NDArray[Any]]":
    return _ends(edges) | {
        "type": types.encoded(edges["type"]),
        "origin": origins.encoded(edges["origin"]),
        "confidence": edges["confidence"].to_numpy(),
    }


_ENDS = [("source", pa.int64()), ("target", pa.int64())]
_NOTHING = [
    pa.schema(fields).empty_table()
    for fields in (
        [*_ENDS, ("type", pa.string()), ("origin", pa.string()), ("confidence", pa.float32()), ("note", pa.string())],
        _ENDS,
        [("id", pa.int64()), ("label", pa.string())],
    )
]
