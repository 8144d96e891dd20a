"""What the sources hold, as of the last scan, kept in the catalog.

A file that cannot be read keeps its last good items, and so does a source or folder that is gone as a whole; what has vanished
from a file that was read, or with its file, goes.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from hashlib import md5
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.errors import NotFoundError
from memory_assets.ingest.secrets import guarded
from memory_assets.models import FileScan, FileStamp, Refusal, Scan, SecretPolicy, Source, SourceItem
from memory_assets.sources.files import shown_path
from memory_assets.stores.catalog import Catalog

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_TABLES = ("source_items", "source_refusals", "source_hooks", "source_files")
"""What is known of a source's files; each has the columns `source` and `path`."""
REFUSALS = """
    (SELECT source, path, reason, mend, location, key FROM source_refusals UNION ALL
     SELECT i.source, i.path, f.fault, 'shorten it, or report this as a fault of the program', '', key
     FROM extracted_features f JOIN memory_entries USING (content_hash) JOIN source_items i USING (key)
     WHERE f.fault IS NOT NULL)
"""
"""What was refused or passed over as it was read, and what could not be analysed: the fields of `Refusal`."""


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """What one scan found."""

    files_read: int
    files_unchanged: int
    files_vanished: int
    items_by_kind: dict[str, int]
    """Of all items now known from the source."""
    refusals: tuple[Refusal, ...]
    """All that stand now, from this scan and earlier ones."""
    notes: tuple[str, ...]
    data_version: str
    """Digest of all items and refusals of the source: equal when nothing has changed."""


def known_stamps(catalog: Catalog, source: Source) -> dict[str, FileStamp]:
    """The stamp of every file of a source as of its last scan, by absolute path."""
    with catalog.read() as connection:
        rows = connection.execute("SELECT path, size, mtime_ns, inode FROM source_files WHERE source = ?", [source]).fetchall()
    return {path: FileStamp(size, mtime_ns, inode) for path, size, mtime_ns, inode in rows}


def record_scan(
    catalog: Catalog, scan: Scan, known: dict[str, FileStamp], policy: SecretPolicy = SecretPolicy.MASK
) -> ScanOutcome:
    """Bring the catalog to what `scan` found, in one transaction, and only where something differs.

    Args:
        catalog: the tenant's catalog.
        scan: a pass over the source that was given `known`.
        known: the stamps that the scan compared with.
        policy: what is done with items that hold secrets.

    Raises:
        StoreError: the catalog cannot be written; nothing was.
    """
    scan = guarded(scan, policy)
    vanished = vanished_paths(scan, known)
    if not (scan.changed or vanished):
        with catalog.read() as connection:
            before = connection.execute("SELECT root, notes FROM source_scans WHERE source = ?", [scan.source]).fetchone()
            if before == (scan.root, list(scan.notes)):
                return _outcome(connection, scan, 0)
    with catalog.write() as connection:
        _forget_files(connection, scan.source, vanished)
        _replace_files(connection, scan.source, scan.changed, frozenset(PurePath(path).parent for path in known))
        connection.execute(
            "INSERT OR REPLACE INTO source_scans VALUES (?, ?, ?, ?)",
            [scan.source, scan.root, datetime.now(UTC), list(scan.notes)],
        )
        return _outcome(connection, scan, len(vanished))


def vanished_paths(scan: Scan, known: Iterable[str]) -> list[str]:
    """The known files that a scan should have met and did not; what lies below a folder it could not look into is not among them."""
    seen = {file.path for file in scan.changed} | set(scan.unchanged)
    unreadable = {PurePath(folder) for folder in scan.unreadable}
    return sorted(path for path in known if path not in seen and unreadable.isdisjoint(PurePath(path).parents))


def let_go(catalog: Catalog, path: Path) -> None:
    """Drop what was read from a file, or from below a folder, that is gone for good; the next run lets its memories rest.

    Raises:
        NotFoundError: nothing is known from there.
        StoreError: the catalog cannot be written; nothing was.
    """
    shown = shown_path(str(path.absolute()))
    below = "path = $1 OR starts_with(path, rtrim($1, '/') || '/')"
    with catalog.write() as connection:
        if not connection.execute(f"FROM source_files WHERE {below} LIMIT 1", [shown]).fetchone():
            raise NotFoundError(f"Nothing is known from {shown}; `memory status --refused` names what is gone.")
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE {below}", [shown])


def refusals(catalog: Catalog, source: Source | None = None) -> tuple[Refusal, ...]:
    """Everything that is refused or passed over now, of one source or of all."""
    with catalog.read() as connection:
        return _refusals(connection, source)


def _refusals(connection: "DuckDBPyConnection", source: Source | None) -> tuple[Refusal, ...]:
    rows = connection.execute(f"FROM {REFUSALS} WHERE source = coalesce(?, source) ORDER BY source, path, location", [source])
    return tuple(Refusal(Source(row[0]), *row[1:]) for row in rows.fetchall())


def _forget_files(connection: "DuckDBPyConnection", source: Source, paths: list[str]) -> None:
    for table in _TABLES:
        connection.execute(f"DELETE FROM {table} WHERE source = ? AND list_contains(?, path)", [source, paths])


def _replace_files(
    connection: "DuckDBPyConnection", source: Source, files: Iterable[FileScan], watched: frozenset[PurePath]
) -> None:
    files = list(files)
    if not files:
        return
    stamps = pa.Table.from_pylist([{"source": source, "path": file.path, **asdict(file.stamp)} for file in files])
    items = [_item_row(item, file, watched) for file in files for item in file.items]
    refused = [asdict(refusal) for file in files for refusal in file.refusals]
    hooks = [
        {"source": source, "path": file.path, "target": hook.target, "hook": hook.text} for file in files for hook in file.hooks
    ]
    connection.register("read_files", stamps)
    connection.execute("""
        DELETE FROM source_files USING read_files r WHERE source_files.source = r.source AND source_files.path = r.path;
        DELETE FROM source_refusals USING read_files r
            WHERE source_refusals.source = r.source AND source_refusals.path = r.path;
        DELETE FROM source_hooks USING read_files r WHERE source_hooks.source = r.source AND source_hooks.path = r.path;
        INSERT INTO source_files BY NAME FROM read_files;
    """)
    if refused:
        connection.register("refused", pa.Table.from_pylist(refused, schema=_refusal_schema()))
        connection.execute("INSERT INTO source_refusals BY NAME FROM refused")
    if hooks:
        connection.register("hooks", pa.Table.from_pylist(hooks))
        connection.execute("INSERT INTO source_hooks BY NAME FROM hooks")
    connection.register("read_items", pa.Table.from_pylist(items, schema=_item_schema()))
    connection.execute(
        """
        DELETE FROM source_items i USING read_files f
        WHERE i.source = f.source AND i.path = f.path
          AND i.key NOT IN (SELECT key FROM read_items)
          AND NOT EXISTS (SELECT 1 FROM source_refusals r
                          WHERE r.source = i.source AND r.path = i.path AND r.mend <> ''
                            AND (r.key IS NULL OR r.key = i.key));
        MERGE INTO source_items i USING read_items r ON i.key = r.key
            WHEN MATCHED AND (i.item_hash <> r.item_hash OR i.path <> r.path) THEN UPDATE BY NAME
            WHEN NOT MATCHED THEN INSERT BY NAME;
        """
    )


def _item_row(item: SourceItem, file: FileScan, watched: frozenset[PurePath]) -> dict[str, Any]:
    """A row of `source_items`; where nobody states its time it has its file's, guessed unless its folder was known before.

    What the file's time adds is no part of the digest, so that a file that is touched keeps its first time.
    """
    row: dict[str, Any] = {field.name: getattr(item, field.name) for field in fields(item)} | {"metadata": _json(item.metadata)}
    digest = md5(json.dumps(row, ensure_ascii=False, default=str).encode("utf-8", "replace"), usedforsecurity=False)
    if item.created_at is None:
        row["created_at"] = datetime.fromtimestamp(file.stamp.mtime_ns / 1e9, UTC)
        if PurePath(file.path).parent not in watched:
            row["metadata"] = _json(item.metadata | {"guessed": [*item.metadata.get("guessed", ()), "created_at"]})
    return row | {"path": file.path, "item_hash": digest.hexdigest()}


def _json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True, default=str)


def _item_schema() -> pa.Schema:
    text = ("key", "source", "path", "kind", "title", "description", "body", "project", "session", "author")
    return pa.schema(
        [pa.field(name, pa.string()) for name in (*text, "metadata", "item_hash")]
        + [pa.field(name, pa.list_(pa.string())) for name in ("tags", "links")]
        + [pa.field(name, pa.float32()) for name in ("importance", "confidence")]
        + [pa.field("created_at", pa.timestamp("us", tz="UTC")), pa.field("remember", pa.bool_())]
    )


def _refusal_schema() -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in ("source", "path", "reason", "mend", "location", "key")])


def _outcome(connection: "DuckDBPyConnection", scan: Scan, vanished: int) -> ScanOutcome:
    kinds = connection.execute(
        "SELECT kind, count(*) FROM source_items WHERE source = ? GROUP BY kind ORDER BY kind", [scan.source]
    ).fetchall()
    (digest,) = connection.execute(
        """
        SELECT md5(coalesce((SELECT string_agg(key || item_hash, ',' ORDER BY key) FROM source_items WHERE source = $1), '')
            || coalesce((SELECT string_agg(path || location || reason, ',' ORDER BY path, location, reason)
                         FROM source_refusals WHERE source = $1), '')
            || coalesce((SELECT string_agg(target || hook, ',' ORDER BY target, hook) FROM source_hooks WHERE source = $1), ''))
        """,
        [scan.source],
    ).fetchone() or ("",)
    return ScanOutcome(
        len(scan.changed),
        len(scan.unchanged),
        vanished,
        dict(kinds),
        tuple(refusal for refusal in _refusals(connection, scan.source) if not refusal.passed_over),
        scan.notes,
        digest,
    )
