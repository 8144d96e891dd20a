"""Scans: the catalog's record of the sources' files and items, as of the last scan.

A file that cannot be read keeps its last good items, as does a source or folder that is missing as a whole. Items that vanished from a
readable file, or with their file, are deleted. `folder_counts` counts the outcomes by folder.
"""

import json
import logging
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from memory_assets.errors import NotFoundError
from memory_assets.language.guard import guard_scan, refuse_unsafe_names
from memory_assets.models import FileScan, FileStamp, Kind, Refusal, Scan, Source, SourceItem
from memory_assets.sources.dating import is_in_future, moment_of
from memory_assets.sources.files import shown_path
from memory_assets.sources.readers import scan_files
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.schema import table
from memory_assets.stores.tombstones import Tombstones, without_erased

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant


_log = logging.getLogger(__name__)
_TABLES = ("source_items", "source_refusals", "source_hooks", "source_projects", "source_files")
"""Tables about a source's files; each has the columns `source` and `path`."""
_LONGEST_SCAN = timedelta(minutes=10)
REFUSALS = """
    (SELECT source, path, reason, mend, location, key FROM source_refusals UNION ALL
     SELECT i.source, i.path, f.fault, if(f.pipeline = '', 'shorten it, or choose another embedder; the next run tries again',
            'shorten it, or report this as a fault of the program'), '', key
     FROM extracted_features f JOIN memory_entries USING (content_hash) JOIN source_items i USING (key)
     WHERE f.fault IS NOT NULL)
"""
"""Query for what was refused or passed over when read, and what could not be analysed or embedded: the fields of `Refusal`."""
NEW_HOOKS = r"""
    (SELECT key, list(DISTINCT hook ORDER BY hook) AS hooks FROM source_hooks JOIN source_items ON key = target
     WHERE hook <> '' AND NOT contains(lower(concat_ws(' ', title, description, body)), lower(rtrim(hook, '.…'))) GROUP BY key)
"""
"""Query for index lines about a file that the file does not contain itself."""
DANGLING_HOOKS = r"""
    (SELECT h.path, hook, regexp_extract(target, '[^/]*$') AS file FROM source_hooks h
     WHERE NOT EXISTS (FROM source_files f
                       WHERE f.path = regexp_replace(h.path, '[^/]*$', '') || regexp_extract(target, '[^/]*$')))
"""
"""Query for index lines that point to a missing file."""


@dataclass(frozen=True, slots=True)
class ScanOutcome:
    """The result of one scan."""

    files_read: int
    files_unchanged: int
    files_vanished: int
    items_by_kind: dict[str, int]
    """Counts of all the source's items, from this scan and earlier ones."""
    refusals: tuple[Refusal, ...]
    """All current refusals, from this scan and earlier ones."""
    notes: tuple[str, ...]
    data_version: str
    """Digest of all items and refusals of the source: equal if nothing has changed."""


def known_stamps(catalog: Catalog, source: Source) -> dict[str, FileStamp]:
    """Return the stamps of a source's files as of its last scan, by absolute path, without those of other machines."""
    with catalog.read() as connection:
        return _stamps(connection, source, catalog.is_shared)


def _stamps(connection: "DuckDBPyConnection", source: Source, is_shared: bool) -> dict[str, FileStamp]:
    rows = connection.execute(
        "SELECT path, size, mtime_ns, inode FROM source_files WHERE source = ? AND (machine IN ('', ?) OR NOT ?)",
        [source, socket.gethostname(), is_shared],
    ).fetchall()
    return {path: FileStamp(size, mtime_ns, inode) for path, size, mtime_ns, inode in rows}


def scan_source(tenant: "Tenant", source: Source, known: Mapping[str, FileStamp]) -> Scan:
    """Read the files of a source whose stamps differ from the known ones.

    Only the tenant that the settings name has sources; what another tenant, such as a copy, knows of files is kept. A file whose name
    holds a secret is refused, unless the settings allow secrets.
    """
    settings = tenant.settings
    if not tenant.is_sources_tenant:
        return Scan(source, "", unchanged=tuple(known), notes=(f"The files belong to the tenant {settings.tenant!r}.",))
    scan = without_moved(refuse_unsafe_names(scan_files(settings, source, known), known, settings.secrets), known)
    if tenant.catalog.is_shared and scan.changed:
        with tenant.catalog.read() as connection:
            return without_namesakes(connection, scan, known)
    return scan


def without_namesakes(connection: "DuckDBPyConnection", scan: Scan, known: Mapping[str, FileStamp]) -> Scan:
    """Remove from a scan the files whose path or key belongs to another machine that shares the catalog; notes name them.

    A known file among them keeps its last good items.
    """
    rows = connection.execute(
        """
        SELECT unnest([path, key]), machine FROM source_files LEFT JOIN source_items USING (source, path)
        WHERE source = ? AND machine NOT IN ('', ?)
        """,
        [scan.source, socket.gethostname()],
    ).fetchall()
    theirs: dict[str, str] = dict(rows)
    changed, kept, notes = [], list(scan.unchanged), list(scan.notes)
    for file in scan.changed:
        names = (file.path, *(item.key for item in file.items))
        if machine := next((theirs[name] for name in names if name in theirs), ""):
            kept += {file.path} & known.keys()
            notes.append(
                f"{file.path} is not read, because {machine} has a file of that name in this store; rename it, or, if {machine} is "
                f"gone, run `memory run --gone` with the path on {machine}."
            )
            _log.warning("%s", notes[-1])
        else:
            changed.append(file)
    return replace(scan, changed=tuple(changed), unchanged=tuple(kept), notes=tuple(notes))


def without_moved(scan: Scan, known: Mapping[str, FileStamp]) -> Scan:
    """Remove from a scan the missing folders that were moved: at least half of their known files were found elsewhere.

    A file that is moved within a file system keeps its stamp, including its inode.
    """
    new = {file.stamp for file in scan.changed if file.digest and file.path not in known}
    moved: set[str] = set()
    for folder in scan.unreadable if new else ():
        stamps = [stamp for path, stamp in known.items() if path.startswith(f"{folder}/")]
        if stamps and not Path(folder).exists() and 2 * len(new.intersection(stamps)) >= len(stamps):
            moved.add(folder)
    changed = tuple(file for file in scan.changed if file.path not in moved)
    return replace(scan, changed=changed, unreadable=tuple(folder for folder in scan.unreadable if folder not in moved))


def refresh_source(tenant: "Tenant", source: Source) -> ScanOutcome:
    """Update the catalog from the current files of a source. It is their only way in; secrets and erased texts are left out."""
    (outcome,) = refresh_sources(tenant, [source])
    return outcome


def refresh_sources(tenant: "Tenant", sources: Iterable[Source]) -> list[ScanOutcome]:
    """Call `refresh_source` for each source, but open the catalog once for what is known and once for what is unchanged."""
    catalog = tenant.catalog
    with catalog.read() as connection:
        known = {source: _stamps(connection, source, catalog.is_shared) for source in sources}
    scans = [read_source(tenant, source, stamps) for source, stamps in known.items()]
    outcomes: dict[Source, ScanOutcome | None] = {}
    if unchanged := [scan for scan in scans if not (scan.changed or vanished_paths(scan, known[scan.source]))]:
        with catalog.read() as connection:
            outcomes = {scan.source: _recorded(connection, scan) for scan in unchanged}
    return [outcomes.get(scan.source) or record_scan(catalog, scan, known[scan.source]) for scan in scans]


def read_source(tenant: "Tenant", source: Source, known: Mapping[str, FileStamp]) -> Scan:
    """Return `scan_source` with the settings' secret policy applied and without erased texts."""
    return without_erased(guard_scan(scan_source(tenant, source, known), tenant.settings.secrets), Tombstones(tenant.state))


def record_scan(catalog: Catalog, scan: Scan, known: Mapping[str, FileStamp]) -> ScanOutcome:
    """Update the catalog from `scan`, which was compared with the stamps `known`, in one transaction."""
    vanished = vanished_paths(scan, known)
    with catalog.write() as connection:
        if catalog.is_shared:  # another machine may have recorded such a file since the files were read
            scan = without_namesakes(connection, scan, known)
        for name in _TABLES if vanished else ():
            connection.execute(f"DELETE FROM {name} WHERE source = ? AND list_contains(?, path)", [scan.source, vanished])
        last_scan = connection.execute("SELECT finished_at FROM source_scans WHERE source = ?", [scan.source]).fetchone()
        watched = {PurePath(path).parent: last_scan[0] - _LONGEST_SCAN for path in known} if last_scan else {}
        if scan.changed:
            _replace_files(connection, scan.source, scan.changed, watched)
        connection.execute(
            table("source_scans").merge(
                "SELECT $1 AS source, $2 AS root, $3::TIMESTAMPTZ AS finished_at, $4::VARCHAR[] AS notes"
            ),
            [scan.source, scan.root, datetime.now(UTC), list(scan.notes)],
        )
        return _outcome(connection, scan, len(vanished))


def _recorded(connection: "DuckDBPyConnection", scan: Scan) -> ScanOutcome | None:
    """Return the outcome of a scan that found every file as known; None if the catalog has another root or other notes."""
    before = connection.execute("SELECT root, notes FROM source_scans WHERE source = ?", [scan.source]).fetchone()
    return _outcome(connection, scan, 0) if before == (scan.root, list(scan.notes)) else None


def vanished_paths(scan: Scan, known: Iterable[str]) -> list[str]:
    """Return the known files that a scan did not find, without those below an unreadable folder."""
    seen = {file.path for file in scan.changed} | set(scan.unchanged)
    unreadable = {PurePath(folder) for folder in scan.unreadable}
    return sorted(path for path in known if path not in seen and unreadable.isdisjoint(PurePath(path).parents))


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A source item in the catalog, from a readable file."""

    item: SourceItem
    """The item, with secrets masked if the settings say so."""
    path: Path
    digest: str
    """SHA-256 of the file."""
    hooks: tuple[str, ...]
    """The silo's index lines about it that the item does not contain itself."""


def read_items(catalog: Catalog, source: Source) -> list[StoredItem]:
    """Return the items of a source as of the last scan, by path, without unreadable files."""
    with catalog.read() as connection:
        rows = connection.execute(
            f"""
            SELECT i.* EXCLUDE (item_hash), f.digest, coalesce(h.hooks, []) AS hooks
            FROM source_items i JOIN source_files f USING (source, path) LEFT JOIN {NEW_HOOKS} h USING (key)
            WHERE i.source = ? AND f.digest IS NOT NULL ORDER BY path, key
            """,
            [source],
        )
        names = [column[0] for column in rows.description]
        return [_stored(dict(zip(names, row, strict=True))) for row in rows.fetchall()]


def active_projects(catalog: Catalog) -> list[str]:
    """Return the projects that seed.json calls active, as of the last scan."""
    return [name for (name,) in catalog.fetch("SELECT name FROM source_projects ORDER BY rowid")]


def _stored(row: dict[str, Any]) -> StoredItem:
    path, digest, hooks = Path(row.pop("path")), row.pop("digest"), tuple(row.pop("hooks"))
    row |= {"source": Source(row["source"]), "kind": Kind(row["kind"]), "metadata": json.loads(row["metadata"])}
    row |= {name: tuple(row[name]) for name in ("tags", "links")}
    return StoredItem(SourceItem(**row), path, digest, hooks)


def drop_path(catalog: Catalog, path: Path) -> None:
    """Delete the records of a file, or of a folder's files, that is gone for good; the next run deactivates its memories.

    In a shared catalog this deletes the files that this machine read; only if there are none, those that other machines read.
    """
    shown = shown_path(str(path.absolute()))
    with catalog.write() as connection:
        rows = connection.execute(
            """
            SELECT path, machine IN ('', ?) OR NOT ? AS is_own FROM source_files
            WHERE path = ? OR starts_with(path, rtrim(?, '/') || '/') QUALIFY is_own = bool_or(is_own) OVER ()
            """,
            [socket.gethostname(), catalog.is_shared, shown, shown],
        ).fetchall()
        if not rows:
            raise NotFoundError(f"Nothing is known from {shown}; `memory status --refused` names missing files and folders.")
        for name in _TABLES:
            connection.execute(f"DELETE FROM {name} WHERE list_contains(?, path)", [[file for file, _ in rows]])


def refusals(catalog: Catalog, source: Source | None = None) -> tuple[Refusal, ...]:
    """Return all current refusals, including what is passed over, of one source or all."""
    with catalog.read() as connection:
        return refusals_of(connection, source)


def refusals_of(connection: "DuckDBPyConnection", source: Source | None = None) -> tuple[Refusal, ...]:
    """Return `refusals` from an open catalog."""
    rows = connection.execute(f"FROM {REFUSALS} WHERE source = coalesce(?, source) ORDER BY source, path, location", [source])
    return tuple(Refusal(Source(row[0]), *row[1:]) for row in rows.fetchall())


def _replace_files(
    connection: "DuckDBPyConnection", source: Source, files: Iterable[FileScan], watched: Mapping[PurePath, datetime]
) -> None:
    """Replace the records of the files read; `watched` maps known folders to the time from which new files' times are reliable."""
    read: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
    for file in files:
        here = {"source": source, "path": file.path}
        read["source_files"].append({**here, "digest": file.digest, "machine": socket.gethostname(), **asdict(file.stamp)})
        read["source_items"] += [_item_row(item, file, watched) for item in file.items]
        read["source_refusals"] += [asdict(refusal) for refusal in file.refusals]
        read["source_hooks"] += [{**here, "target": hook.target, "hook": hook.text} for hook in file.hooks]
        read["source_projects"] += [{**here, "name": name} for name in file.projects]
    given = {name: rows for name, rows in read.items() if rows or name == "source_items"}
    for name, rows in given.items():
        connection.register(f"read_{name}", pa.Table.from_pylist(rows, schema=table(name).arrow()))
    for name in _TABLES[1:]:
        connection.execute(f"DELETE FROM {name} t USING read_source_files r WHERE t.source = r.source AND t.path = r.path")
        if name in given:
            connection.execute(f"INSERT INTO {name} BY NAME FROM read_{name}")
    connection.execute(
        """
        DELETE FROM source_items i USING read_source_files f
        WHERE i.source = f.source AND i.path = f.path
          AND i.key NOT IN (SELECT key FROM read_source_items)
          AND NOT EXISTS (SELECT 1 FROM source_refusals r
                          WHERE r.source = i.source AND r.path = i.path AND r.mend <> ''
                            AND (r.key IS NULL OR r.key = i.key));
        MERGE INTO source_items i USING read_source_items r ON i.key = r.key
            WHEN MATCHED AND (i.item_hash <> r.item_hash OR i.path <> r.path) THEN UPDATE BY NAME
            WHEN NOT MATCHED THEN INSERT BY NAME;
        """
    )


def _item_row(item: SourceItem, file: FileScan, watched: Mapping[PurePath, datetime]) -> dict[str, Any]:
    """Make a row of `source_items`. An item without a time, or with one in the future, gets its file's, but at most the present one.

    It is a guess if the folder was not watched since before, or if the file's time lies in the future, because a file that was copied or
    restored may have any time. The digest excludes the file's time, so that a touched file keeps its first one.
    """
    row: dict[str, Any] = {field.name: getattr(item, field.name) for field in fields(item)} | {"metadata": _json(item.metadata)}
    digest = md5(json.dumps(row, ensure_ascii=False, default=str).encode("utf-8", "replace"), usedforsecurity=False)
    if item.created_at is None or is_in_future(item.created_at):
        written, since = moment_of(file.stamp.mtime_ns / 1e9), watched.get(PurePath(file.path).parent)
        row["created_at"] = min(written or datetime.fromtimestamp(0, UTC), datetime.now(UTC))
        if written is None or since is None or written < since or is_in_future(written):
            row["metadata"] = _json(item.metadata | {"guessed": [*item.metadata.get("guessed", ()), "created_at"]})
    return row | {"path": file.path, "item_hash": digest.hexdigest()}


def _json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True, default=str)


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
    refused = tuple(refusal for refusal in refusals_of(connection, scan.source) if not refusal.passed_over)
    return ScanOutcome(len(scan.changed), len(scan.unchanged), vanished, dict(kinds), refused, scan.notes, digest)


_FILES = f"""
    SELECT path, CASE WHEN mended AND (items IS NULL OR whole OR refused >= items) THEN 'refused'
                      WHEN mended IS NOT NULL AND items IS NULL THEN 'passed_over'
                      ELSE 'taken_in' END
    FROM source_files
    LEFT JOIN (SELECT source, path, count(*) AS items FROM source_items GROUP BY ALL) USING (source, path)
    LEFT JOIN (SELECT source, path, bool_or(mend <> '') AS mended, count(DISTINCT key) AS refused,
                      bool_or(mend <> '' AND key IS NULL AND path ILIKE '%.md') AS whole
               FROM {REFUSALS} GROUP BY ALL) USING (source, path)
"""


@dataclass(slots=True)
class FolderStatus:
    """Counts of one folder's entries by outcome: `taken_in`, `refused`, `passed_over` and `waiting` add up to `entries`."""

    source: Source
    folder: str
    entries: int = 0
    """Files, and in a folder of memories also its subfolders."""
    taken_in: int = 0
    guessed: int = 0
    """Of `taken_in`, those with a guessed kind or time."""
    refused: int = 0
    passed_over: int = 0
    waiting: int = 0
    """New or changed since the last run."""
    kept: int = 0
    """Known files in a missing or unreadable folder; not included in `entries`."""


def scan_sources(tenant: "Tenant") -> list[Scan]:
    """Scan the sources, reading only files whose stamps changed; empty for a tenant that the settings do not name."""
    if not tenant.is_sources_tenant:
        return []
    sources = (Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING)
    return [scan_source(tenant, source, known_stamps(tenant.catalog.interactive, source)) for source in sources]


def folder_counts(
    connection: "DuckDBPyConnection", scans: Iterable[Scan], guessed: Mapping[str, object]
) -> Iterable[FolderStatus]:
    """Count outcomes by folder, in order of paths; `guessed` holds the files with a guessed kind or time."""
    outcomes: dict[str, str] = dict(connection.execute(_FILES).fetchall())
    folders: dict[str, FolderStatus] = {}
    for scan in scans:
        unreadable = set(scan.unreadable)
        states = {path: outcomes.get(path, "waiting") for path in scan.unchanged} | {
            file.path: "waiting" for file in scan.changed
        }
        for path in outcomes:
            if path not in states and not unreadable.isdisjoint(map(str, PurePath(path).parents)):
                states[path] = "kept"
        for path in states.keys() - unreadable:
            folder, state = str(PurePath(path).parent), states[path]
            status = folders.setdefault(folder, FolderStatus(scan.source, folder))
            setattr(status, state, getattr(status, state) + 1)
            status.entries += state != "kept"
            status.guessed += state == "taken_in" and path in guessed
    return (folders[folder] for folder in sorted(folders))
