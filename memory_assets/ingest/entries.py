"""Source items as memory entries: one text each, whoever wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memory_assets.ingest.scans import NEW_HOOKS
from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WANTED = f"""
    SELECT key, source, kind, title,
           trim(concat_ws(E'\n\n', nullif(concat_ws(E'\n', nullif(description, ''), hooks), ''),
                          nullif(nullif(body, ''), description))) AS content,
           created_at, tags, links, project, session, author, importance, confidence, metadata,
           md5(content) AS content_hash, md5(concat(item_hash, path, hooks)) AS entry_hash
    FROM source_items LEFT JOIN (SELECT key, array_to_string(hooks, E'\n') AS hooks FROM {NEW_HOOKS}) USING (key)
    WHERE remember AND content <> '' AND key NOT IN (
        SELECT c.key FROM moves JOIN source_items c ON c.key = moves.canonical JOIN source_items s ON s.key = moves.silo
        WHERE c.body = s.body AND c.description = s.description
    )
"""
"""What an index says of a file adds to the file's description, unless the file says so itself. A canonical memory whose silo file
still stands is that file's memory, and not a second one."""


@dataclass(frozen=True, slots=True)
class EntriesOutcome:
    """What changed among the entries, and how many there are now."""

    added: int
    changed: int
    removed: int
    total: int
    data_version: str


def refresh_entries(catalog: Catalog, moves: Mapping[str, str] | None = None) -> EntriesOutcome:
    """Bring `memory_entries` to what the source items say, in one transaction, and only where something differs.

    `moves` are the canonical keys that curated silo memories have now.
    """
    with catalog.write() as connection:
        connection.register("moves", moves_table(moves or {}))
        added, changed, removed = connection.execute(f"""
            SELECT count(*) FILTER (e.key IS NULL),
                   count(*) FILTER (e.entry_hash <> w.entry_hash),
                   count(*) FILTER (w.key IS NULL)
            FROM ({_WANTED}) w FULL JOIN memory_entries e USING (key)
        """).fetchone() or (0, 0, 0)
        if not (added or changed or removed):
            return EntriesOutcome(0, 0, 0, *_state(connection))
        connection.execute(f"""
            MERGE INTO memory_entries e USING ({_WANTED}) w ON e.key = w.key
                WHEN MATCHED AND e.entry_hash <> w.entry_hash THEN UPDATE BY NAME
                WHEN NOT MATCHED THEN INSERT BY NAME
                WHEN NOT MATCHED BY SOURCE THEN DELETE
        """)
        return EntriesOutcome(added, changed, removed, *_state(connection))


def moves_table(moves: Mapping[str, str]) -> pa.Table:
    """Columns `silo` and `canonical`: the keys of what was curated."""
    return pa.table([pa.array(moves.keys(), pa.string()), pa.array(moves.values(), pa.string())], ["silo", "canonical"])


def _state(connection: "DuckDBPyConnection") -> tuple[int, str]:
    """How many entries there are, and a digest of them all."""
    return connection.execute(
        "SELECT count(*), md5(coalesce(string_agg(key || entry_hash, ',' ORDER BY key), '')) FROM memory_entries"
    ).fetchone() or (0, "")
