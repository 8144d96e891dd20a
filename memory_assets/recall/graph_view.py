"""What recall keeps in memory of the catalog's graph: typed edges, mentions and entity names, as sorted arrays.

Opening the catalog costs more than a whole search, so it is read once and again only when its file has changed. Where there is
no catalog yet, or it cannot be read now because another process writes it, the graph is empty or the one last read: search never
waits for it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from memory_assets.errors import StoreError

if TYPE_CHECKING:
    import numpy.typing as npt

    from memory_assets.stores.catalog import Catalog

_PATIENCE = 0.25
"""Seconds that a first search waits for the catalog's lock."""

_EDGES = """
    SELECT source_id, target_id, type, origin, coalesce(confidence, 1)::FLOAT AS confidence, note
    FROM graph_edges ORDER BY source_id, target_id, type, origin
"""
_MENTIONS = "SELECT memory_id, entity_id FROM graph_mentions ORDER BY memory_id, entity_id"
_NAMED = "SELECT id, coalesce(label, '') AS label FROM graph_nodes WHERE kind <> 'memory'"

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Edges:
    """Typed edges, sorted by the node they are looked up by."""

    near: "npt.NDArray[np.int64]"
    """The node an edge is looked up by."""
    far: "npt.NDArray[np.int64]"
    type: "npt.NDArray[np.int16]"
    """Index into `GraphView.types`."""
    origin: "npt.NDArray[np.int16]"
    """Index into `GraphView.origins`."""
    confidence: "npt.NDArray[np.float32]"

    def of(self, nodes: "npt.NDArray[np.int64]") -> "tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]":
        """The edges of these nodes, as (place in `nodes`, edge) pairs."""
        return ranges(self.near, nodes)


@dataclass(frozen=True)
class GraphView:
    """The graph as it was when the catalog had this stamp."""

    stamp: _Stamp
    types: tuple[str, ...]
    origins: tuple[str, ...]
    outgoing: Edges
    incoming: Edges
    notes: pa.Array
    """Why each edge of `outgoing` is there."""
    mention_memory: "npt.NDArray[np.int64]"
    """Mentions sorted by memory."""
    mention_entity: "npt.NDArray[np.int64]"
    labels: dict[int, str]
    """Names of the nodes that are no memories."""

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not len(self.outgoing.near) and not len(self.mention_memory)

    def degree(self, nodes: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """How many edges and mentions each node has."""
        counts = np.zeros(len(nodes), np.int64)
        for near in (self.outgoing.near, self.incoming.near, self.mention_memory):
            counts += np.searchsorted(near, nodes, "right") - np.searchsorted(near, nodes, "left")
        return counts

    @cached_property
    def _by_entity(self) -> "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]":
        order = np.argsort(self.mention_entity, kind="stable")
        return self.mention_entity[order], self.mention_memory[order]

    def mentions_of(self, entity: int) -> "npt.NDArray[np.int64]":
        """The memories that mention an entity."""
        entities, memories = self._by_entity
        return memories[np.searchsorted(entities, entity, "left") : np.searchsorted(entities, entity, "right")]

    def mention_counts(self, entities: "npt.NDArray[np.int64]") -> "npt.NDArray[np.int64]":
        """How many memories mention each entity."""
        sorted_entities, _ = self._by_entity
        return np.searchsorted(sorted_entities, entities, "right") - np.searchsorted(sorted_entities, entities, "left")

    def label(self, node: int) -> str:
        """Name of an entity or a pattern."""
        return self.labels.get(node, str(node))

    def note(self, edge: int) -> str:
        """Why an edge is there, by its place in `outgoing`; empty where nobody said."""
        return self.notes[edge].as_py() or ""


def ranges(keys: "npt.NDArray[np.int64]", wanted: "npt.NDArray[np.int64]") -> "tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]":
    """Where each wanted key occurs in sorted `keys`, as (place in `wanted`, place in `keys`) pairs."""
    starts = np.searchsorted(keys, wanted, "left")
    counts = np.searchsorted(keys, wanted, "right") - starts
    places = np.repeat(np.arange(len(wanted)), counts)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, np.repeat(starts, counts) + offsets


def read_graph(catalog: "Catalog", known: GraphView | None) -> GraphView:
    """The graph as the catalog has it now; `known` where that is still true or the catalog cannot be read."""
    stamp = _stamp(catalog)
    if known is not None and known.stamp == stamp:
        return known
    if not stamp:
        return _empty()
    from memory_assets.stores.catalog import Catalog

    try:
        with Catalog(str(catalog.path), min(catalog.lock_timeout, _PATIENCE)).read() as connection:
            edges, mentions, named = (connection.execute(query).to_arrow_table() for query in (_EDGES, _MENTIONS, _NAMED))
    except StoreError:
        return known or _empty()
    return _view(stamp, edges, mentions, named)


def _stamp(catalog: "Catalog") -> _Stamp:
    files = (catalog.path, catalog.path.with_name(catalog.path.name + ".wal"))
    stats = [file.stat() for file in files if file.exists()]
    return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)


def _empty() -> GraphView:
    ids, text = pa.array([], pa.int64()), pa.array([], pa.string())
    edges = {
        "source_id": ids,
        "target_id": ids,
        "type": text,
        "origin": text,
        "note": text,
        "confidence": pa.array([], pa.float32()),
    }
    nodes = {"id": ids, "kind": text, "label": text}
    return _view((), pa.table(edges), pa.table({"memory_id": ids, "entity_id": ids}), pa.table(nodes))


def _view(stamp: _Stamp, edges: pa.Table, mentions: pa.Table, named: pa.Table) -> GraphView:
    types, type_codes = _encoded(edges["type"])
    origins, origin_codes = _encoded(edges["origin"])
    source, target = edges["source_id"].to_numpy(), edges["target_id"].to_numpy()
    confidence = edges["confidence"].to_numpy()
    back = np.argsort(target, kind="stable")
    return GraphView(
        stamp=stamp,
        types=types,
        origins=origins,
        outgoing=Edges(source, target, type_codes, origin_codes, confidence),
        incoming=Edges(target[back], source[back], type_codes[back], origin_codes[back], confidence[back]),
        notes=edges["note"].combine_chunks(),
        mention_memory=mentions["memory_id"].to_numpy(),
        mention_entity=mentions["entity_id"].to_numpy(),
        labels=dict(zip(named["id"].to_pylist(), named["label"].to_pylist(), strict=True)),
    )


def _encoded(values: pa.ChunkedArray) -> "tuple[tuple[str, ...], npt.NDArray[np.int16]]":
    encoded = values.combine_chunks().dictionary_encode()
    return tuple(encoded.dictionary.to_pylist()), encoded.indices.to_numpy().astype(np.int16)
