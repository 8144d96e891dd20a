"""What a tenant holds, what became of every source file, and what waits to be taken in."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from memory_assets.ingest.scans import REFUSALS, known_stamps, refusals
from memory_assets.models import Refusal, Scan, Source, State
from memory_assets.sources import claude_silos, pai_learning, pai_seed
from memory_assets.stores.analyzer_failures import AnalyzerFailures, read_failures

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
_GUESSED = r"""
    SELECT path, list_sort(list_distinct(flatten(list(regexp_extract_all(
        regexp_extract(metadata, '"guessed": \[[^\]]*\]'), '"(kind|created_at)"', 1)))))
    FROM source_items WHERE contains(metadata, '"guessed": [') GROUP BY path ORDER BY path
"""
_REMARKS = r"""
    SELECT unnest(notes) FROM source_scans UNION ALL
    SELECT DISTINCT path || ': ' || regexp_extract(metadata, '"decoding": "([^"]*)"', 1)
    FROM source_items WHERE contains(metadata, '"decoding": "') UNION ALL
    SELECT path || ' points to ' || file || ', which is not there' || if(hook = '', '', ': ' || hook)
    FROM (SELECT path, hook, regexp_extract(target, '[^/]*$') AS file FROM source_hooks) h
    WHERE NOT EXISTS (FROM source_files f WHERE f.path = regexp_replace(h.path, '[^/]*$', '') || file)
    ORDER BY ALL
"""
_MASKED = r"""
    SELECT path, kind, count(*)
    FROM (SELECT path, unnest(regexp_extract_all(held, '\[secret: ([a-z0-9 ]{1,30})\]', 1)) AS kind
          FROM (SELECT path, i::VARCHAR AS held FROM source_items i UNION ALL SELECT path, hook FROM source_hooks)
          WHERE contains(held, '[secret: '))
    GROUP BY ALL ORDER BY ALL
"""


_UNFINISHED = """
    SELECT count(*) FROM memory_entries e LEFT JOIN extracted_features f USING (content_hash)
    WHERE f.fault IS NULL AND NOT EXISTS (FROM stored s WHERE s.source_key = e.key AND s.content_hash = e.content_hash)
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


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """Counts of one tenant."""

    tenant: str
    memories_by_state: dict[str, int]
    memories_by_kind: dict[str, int]
    """Active ones only."""
    items_by_source: dict[str, dict[str, int]]
    """Source -> kind -> items known from files, remembered or not."""
    folders: tuple[FolderStatus, ...]
    """Of the sources, by path."""
    entities: int
    edges: int
    unfinished: int
    """Entries of the last scan that are no memories yet, because the run did not come to its end."""
    refusals: tuple[Refusal, ...]
    guessed: dict[str, tuple[str, ...]]
    """Source file -> what its owner did not state."""
    remarks: tuple[str, ...]
    """Sentences about sources that are absent, bytes that were replaced, and lines of an index that lead nowhere."""
    masked: dict[str, dict[str, int]]
    """Source file -> kind -> keys and passwords in it that were masked; the file still holds them."""
    chat_model: AnalyzerFailures | None
    """What the chat model has not answered; None if it has answered all, or there is none."""


def tenant_status(tenant: "Tenant") -> TenantStatus:
    """Count what the tenant's stores hold; source files are compared by `stat`, and only new ones are read.

    Raises:
        StoreError: a store cannot be read.
    """
    rows = tenant.memories.scan(("state", "kind", "source_key", "content_hash"))
    counts = rows.group_by(["state", "kind"]).aggregate([([], "count_all")]).to_pylist()
    scans, refused = _scans(tenant), refusals(tenant.catalog)
    with tenant.catalog.read() as connection:
        items: dict[str, dict[str, int]] = {}
        for source, kind, count in connection.execute(
            "SELECT source, kind, count(*) FROM source_items GROUP BY ALL ORDER BY ALL"
        ).fetchall():
            items.setdefault(source, {})[kind] = count
        masked: dict[str, dict[str, int]] = {}
        for path, kind, count in connection.execute(_MASKED).fetchall():
            masked.setdefault(path, {})[kind] = count
        entities, edges = connection.execute(
            "SELECT (SELECT count(*) FROM graph_nodes WHERE kind = 'entity'), (SELECT count(*) FROM graph_edges)"
        ).fetchone() or (0, 0)
        connection.register("stored", rows.select(["source_key", "content_hash"]))
        (unfinished,) = connection.execute(_UNFINISHED).fetchone() or (0,)
        guessed = {path: tuple(fields) for path, fields in connection.execute(_GUESSED).fetchall()}
        return TenantStatus(
            tenant=tenant.name,
            memories_by_state=_summed((row["state"], row["count_all"]) for row in counts),
            memories_by_kind=_summed((row["kind"], row["count_all"]) for row in counts if row["state"] == State.ACTIVE),
            items_by_source=items,
            folders=tuple(_folders(connection, scans, guessed)),
            entities=entities,
            edges=edges,
            unfinished=unfinished,
            refusals=refused,
            guessed=guessed,
            remarks=tuple(remark for (remark,) in connection.execute(_REMARKS).fetchall()),
            masked=masked,
            chat_model=read_failures(connection, tenant.settings.chat_model) if tenant.settings.chat_model else None,
        )


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    summed: Counter[str] = Counter()
    for name, count in counts:
        summed[name] += count
    return dict(sorted(summed.items()))


def _scans(tenant: "Tenant") -> list[Scan]:
    """How the sources are now; a tenant that the settings do not name has none."""
    if tenant.name != tenant.settings.tenant:
        return []
    return [
        scan(path, known_stamps(tenant.catalog, source))
        for source, scan, path in (
            (Source.CLAUDE_SILO, claude_silos.scan, tenant.settings.claude_projects_dir),
            (Source.PAI_SEED, pai_seed.scan, tenant.settings.pai_seed),
            (Source.PAI_LEARNING, pai_learning.scan, tenant.settings.pai_learning_dir),
        )
    ]


def _folders(
    connection: "DuckDBPyConnection", scans: Iterable[Scan], guessed: dict[str, tuple[str, ...]]
) -> Iterable[FolderStatus]:
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
