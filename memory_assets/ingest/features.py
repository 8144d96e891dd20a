"""Turns source items into memory entries, one text each, and extracts the texts' features, once per text and pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.ingest.scans import NEW_HOOKS
from memory_assets.language.workers import Workers, outcomes_of_many
from memory_assets.models import Features
from memory_assets.stores.layout import read_moves
from memory_assets.stores.schema import table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant


_CHUNK = 512
_CHUNK_SECONDS = 30.0
"""Texts and time per transaction: the most work that a kill can lose."""
_PROGRESS_SECONDS = 2.0
_FEATURES = "extracted_features", "content_hash", "pipeline"


@dataclass(frozen=True, slots=True)
class FeaturesOutcome:
    """Counts of one extraction, and its pipeline."""

    analysed: int
    failed: int
    """Of `analysed`, those that cannot be analysed; `memory status --refused` names them."""
    total: int
    data_version: str
    pipeline: str


def extract_features(tenant: "Tenant", on_progress: Callable[[int, int], None], ready: Workers | None = None) -> FeaturesOutcome:
    """Analyse every entry's text that this pipeline has not analysed, and drop unused features. Finished chunks are kept.

    A text that cannot be analysed is recorded with its fault, and not retried before it or the pipeline changes. The pipeline is loaded
    only if there is something to analyse. `on_progress` gets (done, total) every two seconds and at the end; `ready` is an already started
    pool for the texts.
    """
    catalog, analyzer = tenant.catalog, tenant.analyzer
    with catalog.read() as connection:
        todo = connection.execute(
            """
            SELECT DISTINCT content_hash, content FROM memory_entries e
            WHERE NOT EXISTS (SELECT 1 FROM extracted_features f WHERE f.content_hash = e.content_hash AND f.pipeline = ?)
            ORDER BY length(content)
            """,
            [analyzer.name],
        ).fetchall()
        (unused,) = connection.execute(
            "SELECT count(*) FROM extracted_features WHERE content_hash NOT IN (SELECT content_hash FROM memory_entries)"
        ).fetchone() or (0,)
        if not (todo or unused):
            return FeaturesOutcome(0, 0, *_sum_up(connection, *_FEATURES), analyzer.name)
    rows: list[dict[str, Any]] = []
    failed, begun = 0, monotonic()
    reported = begun
    for done, ((digest, _), found) in enumerate(
        zip(todo, outcomes_of_many(analyzer, [text for _, text in todo], ready), strict=True), 1
    ):
        row = {"content_hash": digest, "pipeline": analyzer.name}
        if isinstance(found, Features):
            rows.append(row | asdict(found))
        else:
            rows.append(row | {"fault": str(found).rpartition("; ")[0]})
            failed += 1
        if len(rows) == _CHUNK or monotonic() - begun > _CHUNK_SECONDS:
            with catalog.write() as connection:
                _insert(connection, rows)
            rows, begun = [], monotonic()
        if done == len(todo) or monotonic() - reported > _PROGRESS_SECONDS:
            reported = monotonic()
            on_progress(done, len(todo))
    with catalog.write() as connection:
        _insert(connection, rows)
        connection.execute("DELETE FROM extracted_features WHERE content_hash NOT IN (SELECT content_hash FROM memory_entries)")
        return FeaturesOutcome(len(todo), failed, *_sum_up(connection, *_FEATURES), analyzer.name)


def _insert(connection: "DuckDBPyConnection", rows: list[dict[str, Any]]) -> None:
    connection.register("analysed", pa.Table.from_pylist(rows, schema=table("extracted_features").arrow()))
    connection.execute(table("extracted_features").merge("FROM analysed"))


def _sum_up(connection: "DuckDBPyConnection", name: str, key: str, value: str) -> tuple[int, str]:
    """Return the number of rows of a table, and a digest of two of its columns."""
    digest = f"SELECT count(*), md5(coalesce(string_agg({key} || {value}, ',' ORDER BY {key}), '')) FROM {name}"
    return connection.execute(digest).fetchone() or (0, "")


_WANTED = f"""
    SELECT key, source, kind, title,
           trim(concat_ws(E'\n\n', nullif(concat_ws(E'\n', nullif(description, ''), hooks), ''),
                          nullif(nullif(body, ''), description))) AS content,
           created_at, tags, links, project, session, author, importance, confidence, metadata,
           md5(content) AS content_hash, md5(concat(item_hash, path, hooks)) AS entry_hash,
           md5(nullif(trim(concat_ws(E'\n\n', nullif(description, ''), nullif(nullif(body, ''), description))), '')) AS text_hash
    FROM source_items LEFT JOIN (SELECT key, array_to_string(hooks, E'\n') AS hooks FROM {NEW_HOOKS}) USING (key)
    WHERE remember AND content <> '' AND key NOT IN (
        SELECT c.key FROM moves JOIN source_items c ON c.key = moves.canonical JOIN source_items s ON s.key = moves.silo
        WHERE c.body = s.body AND c.description = s.description
    )
"""
"""Query for the current entries. An index line about a file is added to the file's description, unless the file says so itself. A canonical
file whose silo file still says the same makes no second entry."""


@dataclass(frozen=True, slots=True)
class EntriesOutcome:
    """Counts of the changed entries, and of all."""

    added: int
    changed: int
    removed: int
    total: int
    data_version: str


def refresh_entries(tenant: "Tenant") -> EntriesOutcome:
    """Update `memory_entries` from the source items, in one transaction, writing only differences."""
    moves = moves_table(read_moves(tenant.folder))
    with tenant.catalog.write() as connection:
        connection.register("moves", moves)
        added, changed, removed = connection.execute(f"""
            SELECT count(*) FILTER (e.key IS NULL),
                   count(*) FILTER (e.entry_hash <> w.entry_hash),
                   count(*) FILTER (w.key IS NULL)
            FROM ({_WANTED}) w FULL JOIN memory_entries e USING (key)
        """).fetchone() or (0, 0, 0)
        if not (added or changed or removed):
            return EntriesOutcome(0, 0, 0, *_sum_up(connection, "memory_entries", "key", "entry_hash"))
        connection.execute(f"""
            DELETE FROM memory_entries WHERE key NOT IN (SELECT key FROM ({_WANTED}));
            MERGE INTO memory_entries e USING ({_WANTED}) w ON e.key = w.key
                WHEN MATCHED AND e.entry_hash <> w.entry_hash THEN UPDATE BY NAME
                WHEN NOT MATCHED THEN INSERT BY NAME;
            INSERT INTO entry_keys BY NAME
                SELECT key, content_hash, text_hash FROM memory_entries ANTI JOIN entry_keys USING (key, content_hash)
        """)
        return EntriesOutcome(added, changed, removed, *_sum_up(connection, "memory_entries", "key", "entry_hash"))


def moves_table(moves: Mapping[str, str]) -> pa.Table:
    """Return a table of curated files, with the key columns `silo` and `canonical`."""
    return pa.table([pa.array(moves.keys(), pa.string()), pa.array(moves.values(), pa.string())], ["silo", "canonical"])
