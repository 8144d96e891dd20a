"""The memories that changed since the last build of the graph, with the facts that the rules need.

A memory's revision in the graph is a digest of its own revision and state, the embedder and the rules. The change feed names memories
that may differ; their small columns show whether they do. Once a day, and after a change of the embedder or the rules, all memories
are compared. The catalog is closed while texts are read and vectors compared.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.graph.comparisons import compare_neighbours
from memory_assets.graph.known_names import project_name
from memory_assets.graph.neighbours import LIVE
from memory_assets.graph.statements import read_statements
from memory_assets.graph.wording import find_cues, retracts
from memory_assets.models import Memory
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.feed import CLOCK_SLACK, CatalogRows, Position
from memory_assets.stores.memories import MemoryStore
from memory_assets.stores.rows import COLUMNS, from_arrow
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RULES_VERSION = 23
"""Increment when a rule may give an unchanged memory other edges."""

_SMALL_COLUMNS = ("id", "revision", "state", "superseded_by", "content_hash", "pipeline", "updated_at")
_COPIED = ("id", "state", "kind", "source", "source_key", "title", "session", "author", "project", "created_at", "updated_at",
           "superseded_by", "content_hash")  # fmt: skip
"""Fields of a memory that are also columns of `graph_memories`."""
_COMPARE_ALL_AFTER = timedelta(days=1)
_MAX_READ_BY_ID = 2_000
"""Changed memories above which all rows are read and filtered here."""
_SILO_PATH = re.compile(r"/projects/([^/]+)/memory/([^/]+)$")

MEMORY_SCHEMA = table("graph_memories").arrow()
SURFACE_SCHEMA = table("graph_surfaces").arrow()
CUE_SCHEMA = table("graph_cues").arrow()


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between the memories and the graph."""

    memories: pa.Table
    """New or changed rows of `graph_memories`. The following tables describe these memories."""
    surfaces: pa.Table
    """Names that they mention."""
    cues: pa.Table
    """Relations that their wording states."""
    comparisons: pa.Table
    """Pairs that say the same, see `memory_assets.graph.comparisons`."""
    statements: pa.Table
    """Their statements, see `memory_assets.graph.statements`."""
    gone: pa.Table
    """Column `id`: nodes whose memory no longer exists."""
    position: Position
    """Position in the change feed after this read."""
    basis: str
    """Embedder and version of the rules."""
    compared_all: bool
    """Whether every memory was compared, so that the position must be saved even if nothing changed."""

    @property
    def touched(self) -> pa.Table:
        """Column `id`: the changed and vanished memories."""
        return pa.concat_tables([self.memories.select(["id"]), self.gone])

    def __bool__(self) -> bool:
        return self.touched.num_rows > 0


def find_changes(catalog: Catalog, memories: MemoryStore, on_progress: Callable[[int, int], None]) -> Changes:
    """Return the differences between the memories and the graph, and read the memories that differ.

    `on_progress` is called with the number of compared pairs of texts and of all.
    """
    basis = f"{memories.columns.embedder}|{memories.columns.meaning}|{memories.columns.scale}|{RULES_VERSION}"
    with catalog.read() as connection:
        since = _position(connection, basis)
        found = memories.changes(since, CatalogRows(connection, "graph_memories"), _SMALL_COLUMNS)
        connection.register("light", found.rows)
        revisions = """
            SELECT id, md5(concat_ws('|', revision, state, superseded_by::VARCHAR, content_hash, pipeline, $1)) AS revision FROM light
        """
        differing = f"""
            SELECT r.id, r.revision FROM ({revisions}) r LEFT JOIN (FROM graph_memories SEMI JOIN light USING (id)) g USING (id)
            WHERE g.revision IS DISTINCT FROM r.revision
        """
        changed = dict(connection.execute(differing, [basis]).fetchall())
    if len(changed) <= _MAX_READ_BY_ID:
        rows = memories.get(changed)
    else:
        rows = [memory for memory in from_arrow(memories.scan(COLUMNS)) if memory.id in changed]
    facts = [_facts(memory, changed[memory.id]) for memory in rows]
    live = [memory for memory in rows if memory.state in LIVE]
    return Changes(
        pa.Table.from_pylist(facts, schema=MEMORY_SCHEMA),
        pa.Table.from_pylist(
            [{"memory_id": m.id, "text": e.text, "type": e.type} for m in live for e in dict.fromkeys(m.entities)],
            schema=SURFACE_SCHEMA,
        ),
        pa.Table.from_pylist(
            [asdict(cue) | {"memory_id": memory.id} for memory in live for cue in find_cues(memory.content, memory.entities)],
            schema=CUE_SCHEMA,
        ),
        compare_neighbours(memories, live, on_progress),
        read_statements(live),
        pa.table({"id": found.gone}),
        found.position,
        basis,
        since is None,
    )


def _position(connection: "DuckDBPyConnection", basis: str) -> Position | None:
    """Return the feed position of the last build, or None if all memories must be compared."""
    row = connection.execute("SELECT version, read_at, basis FROM graph_position").fetchone()
    if not row or row[2] != basis or not -CLOCK_SLACK < datetime.now(UTC) - row[1] < _COMPARE_ALL_AFTER:
        return None
    return Position(row[0], row[1])


def _facts(memory: Memory, revision: str) -> dict[str, Any]:
    stem = re.search(r"([^/]+)\.md$", memory.source_key)
    path = str(memory.metadata.get("path") or "")
    names = [memory.title, stem[1] if stem else ""]
    refs = [str(memory.id), memory.source_key, memory.external_id, path]
    return {
        **{name: getattr(memory, name) for name in _COPIED},
        "revision": revision,
        "live": memory.state in LIVE,
        "label": memory.title or " ".join(memory.content.split())[:80],
        "project_name": project_name(memory.project),
        "retracts": retracts(memory.content),
        "names": sorted({name.strip().lower() for name in names if name.strip()}),
        "links": sorted({link.strip().lower() for link in memory.links if link.strip()}),
        "refs": sorted({ref for ref in refs if ref}),
        "origins": sorted(set(_origins(memory))),
    }


def _origins(memory: Memory) -> list[str]:
    """Return what the memory says it was made from: a file that was ingested, or ids of other memories."""
    origins = []
    original = memory.metadata.get("original_path")
    if isinstance(original, str) and original:
        origins.append(original)
        if found := _SILO_PATH.search(original):
            origins.append(f"claude_silo:{found[1]}/{found[2]}")
    sources = memory.metadata.get("derived_from", ())
    listed = sources if isinstance(sources, (list, tuple)) else [sources]
    return origins + [str(source) for source in listed if isinstance(source, (str, int)) and not isinstance(source, bool)]
