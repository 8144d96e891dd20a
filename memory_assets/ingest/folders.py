"""What became of what lies in the folders of the sources: taken in, refused, passed over, or waiting to be taken in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from memory_assets.ingest.scans import REFUSALS, known_stamps, scan_source
from memory_assets.models import Scan, Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from memory_assets.tenants import Tenant

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
    """What became of what lies in one folder now: `taken_in`, `refused`, `passed_over` and `waiting` add up to `entries`."""

    source: Source
    folder: str
    entries: int = 0
    """Files, and in a folder of memories its subfolders too."""
    taken_in: int = 0
    guessed: int = 0
    """Of those taken in: kind or time is guessed."""
    refused: int = 0
    passed_over: int = 0
    waiting: int = 0
    """New or changed since the last run."""
    kept: int = 0
    """Known files that cannot be looked at now, because the folder is gone or closed; not among `entries`."""


def scan_sources(tenant: "Tenant") -> list[Scan]:
    """How the sources are now, compared by `stat`, so that only new files are read; a tenant that the settings do not name has none."""
    if not tenant.is_sources_tenant:
        return []
    sources = (Source.CLAUDE_SILO, Source.PAI_SEED, Source.PAI_LEARNING)
    return [scan_source(tenant, source, known_stamps(tenant.catalog.interactive, source)) for source in sources]


def folder_counts(
    connection: "DuckDBPyConnection", scans: Iterable[Scan], guessed: Mapping[str, object]
) -> Iterable[FolderStatus]:
    """Count by folder, in the order of their paths; `guessed` are the files of which a kind or time is guessed."""
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
        for path, state in states.items():
            if path in unreadable:
                continue
            folder = str(PurePath(path).parent)
            status = folders.setdefault(folder, FolderStatus(scan.source, folder))
            setattr(status, state, getattr(status, state) + 1)
            status.entries += state != "kept"
            status.guessed += state == "taken_in" and path in guessed
    return (folders[folder] for folder in sorted(folders))
