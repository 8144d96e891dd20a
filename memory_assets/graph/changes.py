"""Which memories changed since the graph was last built, and what the rules need to know of them.

A memory's revision in the graph is a digest of its own revision and state, of the embedder and of the rules. The change feed says which
memories may differ; their light columns tell whether they do. Once a day, and where the embedder or the rules have changed, all are
compared. The catalog is closed
while texts are read and vectors compared.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.graph.known_names import project_name
from memory_assets.graph.neighbours import LIVE, nearest_to
from memory_assets.graph.rules import DUPLICATE_SIMILARITY
from memory_assets.graph.wording import find_cues, retracts
from memory_assets.models import Memory
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.catalog_rows import CatalogRows
from memory_assets.stores.feed import Position
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import COLUMNS, from_arrow

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RULES_VERSION = 3
"""Counts up whenever a rule may give an unchanged memory other edges."""

NEIGHBOURS = 5
"""Near-duplicates looked for per memory."""

_LIGHT = ("id", "revision", "state", "superseded_by", "content_hash", "pipeline", "updated_at")
_COMPARED_AGAIN = timedelta(days=1)
"""After which all memories are compared, whatever the feed says."""
_MANY = 2_000
"""Above so many changed memories all rows are read and filtered here."""
_SILO_PATH = re.compile(r"/projects/([^/]+)/memory/([^/]+)$")

_STRINGS = pa.list_(pa.string())
MEMORY_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("revision", pa.string()),
        ("state", pa.string()),
        ("live", pa.bool_()),
        *(
            (name, pa.string())
            for name in ("kind", "source", "source_key", "title", "label", "session", "author", "project", "project_name")
        ),
        ("created_at", pa.timestamp("us", tz="UTC")),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("superseded_by", pa.int64()),
        ("content_hash", pa.string()),
        ("retracts", pa.bool_()),
        *((name, _STRINGS) for name in ("names", "links", "refs", "origins")),
    ]
)
SURFACE_SCHEMA = pa.schema([("memory_id", pa.int64()), ("text", pa.string()), ("type", pa.string())])
CUE_SCHEMA = pa.schema(
    [
        ("memory_id", pa.int64()),
        *((name, pa.string()) for name in ("relation", "target_kind", "target", "other")),
        ("outgoing", pa.bool_()),
        ("confidence", pa.float32()),
        ("sentence", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between the memories and the graph."""

    memories: pa.Table
    """Rows of `graph_memories` that are new or changed."""
    surfaces: pa.Table
    """Names that these mention."""
    cues: pa.Table
    """Relations that their wording states."""
    neighbours: pa.Table
    """Columns `id`, `other`, `similarity`: the nearest of each, for near-duplicates."""
    gone: pa.Table
    """Column `id`: nodes whose memory no longer exists."""
    position: Position
    """How far the memories have been read."""
    basis: str
    """Embedder and rules that the graph is built with."""
    compared_all: bool
    """Whether every memory was compared, so that the position is worth keeping though nothing else changed."""

    def __bool__(self) -> bool:
        return bool(self.memories.num_rows or self.gone.num_rows)


def find_changes(catalog: Catalog, memories: MemoryStore) -> Changes:
    """Compare the memories with the graph, and read those that differ.

    Raises:
        StoreError: a store cannot be read.
    """
    basis = f"{memories.columns.embedder}|{memories.columns.meaning}|{memories.columns.scale}|{RULES_VERSION}"
    with catalog.read() as connection:
        since = _position(connection, basis)
        found = memories.changes(since, CatalogRows(connection, "graph_memories"), _LIGHT)
        connection.register("light", found.rows)
        revisions = """
            SELECT id, md5(concat_ws('|', revision, state, superseded_by::VARCHAR, content_hash, pipeline, $1)) AS revision FROM light
        """
        differing = f"""
            SELECT r.id, r.revision FROM ({revisions}) r LEFT JOIN (FROM graph_memories SEMI JOIN light USING (id)) g USING (id)
            WHERE g.revision IS DISTINCT FROM r.revision
        """
        changed = dict(connection.execute(differing, [basis]).fetchall())
    gone = pa.table({"id": found.gone})
    rows = _read(memories, changed)
    facts = [_facts(memory, changed[memory.id]) for memory in rows]
    live = [memory for memory in rows if memory.state in LIVE]
    return Changes(
        pa.Table.from_pylist(facts, schema=MEMORY_SCHEMA),
        pa.Table.from_pylist(
            [{"memory_id": m.id, "text": e.text, "type": e.type} for m in live for e in dict.fromkeys(m.entities)],
            schema=SURFACE_SCHEMA,
        ),
        pa.Table.from_pylist(
            [
                {
                    "memory_id": memory.id,
                    "relation": cue.relation,
                    "target_kind": cue.target_kind,
                    "target": cue.target,
                    "other": cue.other,
                    "outgoing": cue.outgoing,
                    "confidence": cue.confidence,
                    "sentence": cue.sentence,
                }
                for memory in live
                for cue in find_cues(memory.content, memory.entities)
            ],
            schema=CUE_SCHEMA,
        ),
        nearest_to(memories, [memory.id for memory in live], NEIGHBOURS, least=DUPLICATE_SIMILARITY),
        gone,
        found.position,
        basis,
        since is None,
    )


def _position(connection: "DuckDBPyConnection", basis: str) -> Position | None:
    """Where the last build's reading ended; None where everything is to be compared."""
    row = connection.execute("SELECT version, read_at, basis FROM graph_position").fetchone()
    if not row or row[2] != basis or datetime.now(UTC) - row[1] > _COMPARED_AGAIN:
        return None
    return Position(row[0], row[1])


def _read(memories: MemoryStore, changed: dict[int, str]) -> list[Memory]:
    if len(changed) <= _MANY:
        return memories.get(changed)
    return [memory for memory in from_arrow(memories.scan(COLUMNS)) if memory.id in changed]


def _facts(memory: Memory, revision: str) -> dict[str, Any]:
    stem = re.search(r"([^/]+)\.md$", memory.source_key)
    path = str(memory.metadata.get("path") or "")
    names = [memory.title, stem[1] if stem else ""]
    refs = [str(memory.id), memory.source_key, memory.external_id, path]
    return {
        "id": memory.id,
        "revision": revision,
        "state": memory.state,
        "live": memory.state in LIVE,
        "kind": memory.kind,
        "source": memory.source,
        "source_key": memory.source_key,
        "title": memory.title,
        "label": memory.title or " ".join(memory.content.split())[:80],
        "session": memory.session,
        "author": memory.author,
        "project": memory.project,
        "project_name": project_name(memory.project),
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "superseded_by": memory.superseded_by,
        "content_hash": memory.content_hash,
        "retracts": retracts(memory.content),
        "names": sorted({name.strip().lower() for name in names if name.strip()}),
        "links": sorted({link.strip().lower() for link in memory.links if link.strip()}),
        "refs": sorted({ref for ref in refs if ref}),
        "origins": sorted(set(_origins(memory))),
    }


def _origins(memory: Memory) -> list[str]:
    """What the memory says it was made from: a file that was ingested, or ids of other memories."""
    origins = []
    original = memory.metadata.get("original_path")
    if isinstance(original, str) and original:
        origins.append(original)
        if found := _SILO_PATH.search(original):
            origins.append(f"claude_silo:{found[1]}/{found[2]}")
    sources = memory.metadata.get("derived_from", ())
    listed = sources if isinstance(sources, (list, tuple)) else [sources]
    return origins + [str(source) for source in listed if isinstance(source, (str, int)) and not isinstance(source, bool)]
