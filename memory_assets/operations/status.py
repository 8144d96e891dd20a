"""Count a tenant's memories, source files and services, and list the files that were not taken in."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

from pydantic import Field

from memory_assets.display import counted, visible
from memory_assets.ingest.scans import DANGLING_HOOKS, FolderStatus, folder_counts, refusals, scan_sources
from memory_assets.models import Refusal, Source
from memory_assets.operations.answers import Answer, Instant, LocalTime, View
from memory_assets.settings import Settings
from memory_assets.sources.claude_silos import INDEX_NAME
from memory_assets.sources.markdown import TYPE_MEND
from memory_assets.supervisor import find_running
from memory_assets.tenants import Tenant

_COLUMNS = ("entries", "taken_in", "guessed", "refused", "passed_over", "waiting", "kept")
_GUESSED = r"""
    SELECT path, list_sort(list_distinct(flatten(list(regexp_extract_all(
        regexp_extract(metadata, '"guessed": \[[^\]]*\]'), '"(kind|created_at)"', 1)))))
    FROM source_items WHERE contains(metadata, '"guessed": [') GROUP BY path ORDER BY path
"""
_REMARKS = rf"""
    SELECT unnest(notes) FROM source_scans UNION ALL
    SELECT DISTINCT path || ': ' || regexp_extract(metadata, '"decoding": "([^"]*)"', 1)
    FROM source_items WHERE contains(metadata, '"decoding": "') UNION ALL
    SELECT path || ' points to ' || file || ', which is not there' || if(hook = '', '', ': ' || hook)
    FROM {DANGLING_HOOKS}
    ORDER BY ALL
"""
_MASKED = r"""
    SELECT path, histogram(kind)
    FROM (SELECT path, unnest(regexp_extract_all(held, '\[secret: ([a-z0-9 ]{1,30})\]', 1)) AS kind
          FROM (SELECT path, i::VARCHAR AS held FROM source_items i UNION ALL SELECT path, hook FROM source_hooks)
          WHERE contains(held, '[secret: '))
    GROUP BY path ORDER BY path
"""
_ITEMS = "SELECT source, histogram(kind) FROM source_items GROUP BY source ORDER BY source"
_COUNTS = """
    SELECT (SELECT count(*) FROM graph_nodes WHERE kind = 'entity') AS entities, (SELECT count(*) FROM graph_edges) AS edges,
           (SELECT count(*) FROM stored ANTI JOIN graph_memories USING (id) WHERE state = 'active') AS unconnected,
           (SELECT count(*) FROM memory_entries e LEFT JOIN extracted_features f USING (content_hash)
            WHERE f.fault IS NULL AND NOT EXISTS
                  (FROM stored s WHERE s.source_key = e.key AND s.content_hash = e.content_hash)) AS unfinished
"""
_BY_STATE = "SELECT state, count(*) FROM stored GROUP BY state ORDER BY state"
_BY_KIND = "SELECT kind, count(*) FROM stored WHERE state = 'active' GROUP BY kind ORDER BY kind"
_FAILURES = """
    SELECT count(*) OVER () AS memories, failure AS last, failed_at AS last_at FROM analyzer_failures
    WHERE model = $1 ORDER BY failed_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class AnalyzerFailures:
    """Failed requests of one chat model."""

    memories: int
    """Number of memories to retry."""
    last: str
    last_at: datetime


class ServiceView(View):
    """A process that `memory up` keeps running."""

    name: str
    pid: int | None = Field(description="Null while it waits for its start.")
    since: Instant
    restarts: int
    ended: str = Field(description="How it last ended; empty if it never did.")
    url: str

    def text(self, local: LocalTime) -> str:
        waits = "is about to be started again" if self.restarts else "waits for its start"
        state = f"process {self.pid}, started {local.age(self.since)}" if self.pid else waits
        again = f", started again {counted(self.restarts, 'time', 'times')} ({self.ended})" if self.restarts else ""
        return f"  {self.name:<14}{state}{again} {self.url}".rstrip()


class Status(Answer):
    """Counts of one tenant."""

    tenant: str
    memories_by_state: dict[str, int]
    memories_by_kind: dict[str, int] = Field(description="Active memories only.")
    items_by_source: dict[str, dict[str, int]] = Field(
        description="Source -> kind -> items in its files, stored as memories or not."
    )
    folders: tuple[FolderStatus, ...] = Field(description="Folders of the sources, by path.")
    entities: int
    edges: int
    unconnected: int = Field(description="Active memories that are not in the graph yet.")
    unfinished: int = Field(description="Entries of the last scan without a memory, because the run did not finish.")
    refusals: tuple[Refusal, ...]
    guessed: dict[str, tuple[str, ...]] = Field(description="Source file -> fields that its owner did not state.")
    remarks: tuple[str, ...] = Field(description="Missing sources, replaced bytes, and index lines that point nowhere.")
    masked: dict[str, dict[str, int]] = Field(description="Source file -> kind -> number of masked keys and passwords.")
    services: tuple[ServiceView, ...] = Field(description="Processes that `memory up` keeps running.")
    chat_model: AnalyzerFailures | None = Field(
        description="Failures of the chat model; null if there are none or no model is set."
    )

    def text(self, local: LocalTime, *, refused: bool = False) -> str:
        return "\n".join(self._files() if refused else (*self._counts(local), *(each.text(local) for each in self.services)))

    def _counts(self, local: LocalTime) -> Iterator[str]:
        yield f"Tenant {self.tenant}"
        yield f"  memories      {_format_counts(self.memories_by_state) or 'none yet'}"
        if self.memories_by_kind:
            yield f"  of kind       {_format_counts(self.memories_by_kind)}"
        for source, kinds in self.items_by_source.items():
            yield f"  {source:<14}{_format_counts(kinds)}"
        yield f"  graph         {self.entities} entities, {self.edges} edges"
        if self.unconnected:
            yield f"                {counted(self.unconnected)} not in it yet; {local.command('run')} connects and scores them"
        if self.unfinished:
            yield f"  last run      did not finish: {self.unfinished} texts wait to become memories; {local.command('run')} goes on"
        if failed := self.chat_model:
            again = "which it is asked about again in the next runs"
            yield f"  chat model    failed on {counted(failed.memories)}, {again}; last: {failed.last}"
        for path, kinds in self.masked.items():
            yield f"  masked        {_format_counts(kinds)} in {path}: take it out of that file, and change it where it is used"
        if self.folders:
            yield ""
            yield from _render_table(self.folders)
        if waiting := sum(folder.waiting for folder in self.folders):
            yield f"{counted(waiting, 'file waits', 'files wait')}; {local.command('run')} takes them in."
        if self.refusals or self.guessed or self.remarks:
            yield f"{local.command('status --refused')} names what was refused, passed over or guessed, and what mends it."

    def _files(self) -> Iterator[str]:
        for refusal in sorted(self.refusals, key=lambda refusal: refusal.passed_over):
            path = refusal.path.replace("\n", r"\n")
            yield f"{path} ({refusal.location})" if refusal.location else path
            yield f"    {'passed over: ' if refusal.passed_over else ''}{refusal.reason}"
            if refusal.mend:
                yield f"    mend: {refusal.mend}"
        for path, fields in self.guessed.items():
            yield path
            yield f"    guessed: {', '.join('time' if field == 'created_at' else field for field in fields)}"
            if "kind" in fields and PurePath(path).name.casefold() != INDEX_NAME.casefold():
                yield f"    mend: {TYPE_MEND}"
        yield from self.remarks
        sums = {name.replace("_", " "): sum(getattr(folder, name) for folder in self.folders) for name in _COLUMNS}
        entries, guessed, kept = sums.pop("entries"), sums.pop("guessed"), sums.pop("kept")
        yield f"Of {entries} files: {_format_counts(sums)}; of those taken in, {guessed} with a guessed kind or time."
        if kept:
            yield f"{kept} more are in folders that are missing or unreadable; their memories stay."


def status(tenant: Tenant) -> Status:
    """Count a tenant's memories and source files. Files are compared by `stat`; only new ones are read."""
    rows = tenant.memories.scan(("id", "state", "kind", "source_key", "content_hash"))
    catalog = tenant.catalog.interactive
    scans, refused = scan_sources(tenant), refusals(catalog)
    with catalog.read() as connection:
        connection.register("stored", rows)
        guessed = {path: tuple(fields) for path, fields in connection.execute(_GUESSED).fetchall()}
        return Status(
            tenant=tenant.name,
            **connection.execute(_COUNTS).to_arrow_table().to_pylist()[0],
            memories_by_state=dict(connection.execute(_BY_STATE).fetchall()),
            memories_by_kind=dict(connection.execute(_BY_KIND).fetchall()),
            items_by_source=dict(connection.execute(_ITEMS).fetchall()),
            folders=tuple(folder_counts(connection, scans, guessed)),
            refusals=refused,
            guessed=guessed,
            remarks=tuple(remark for (remark,) in connection.execute(_REMARKS).fetchall()),
            masked=dict(connection.execute(_MASKED).fetchall()),
            services=services(tenant.settings),
            chat_model=next(iter(connection.execute(_FAILURES, [tenant.settings.chat_model]).to_arrow_table().to_pylist()), None),
        )


def services(settings: Settings) -> tuple[ServiceView, ...]:
    """Return the processes that `memory up` keeps running."""
    running = find_running(settings)
    return tuple(ServiceView.model_validate(part) for part in running.parts) if running else ()


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _render_table(folders: tuple[FolderStatus, ...]) -> Iterator[str]:
    """Yield a line for each folder and one for all, without columns that are zero throughout."""
    shown = [name for name in _COLUMNS if name == "entries" or any(getattr(folder, name) for folder in folders)]
    heads = [name.replace("_", " ") for name in shown]
    rows = [([getattr(folder, name) for name in shown], _short_name(folder)) for folder in folders]
    if len(rows) > 1:
        rows.append(([sum(column) for column in zip(*(counts for counts, _ in rows), strict=True)], "in all"))
    yield "".join(f"  {head}" for head in [*heads, "folder"])
    for counts, name in rows:
        yield "".join(f"  {count or '·':>{len(head)}}" for count, head in zip(counts, heads, strict=True)) + f"  {visible(name)}"


def _short_name(folder: FolderStatus) -> str:
    path = PurePath(folder.folder)
    return path.parent.name if folder.source is Source.CLAUDE_SILO else "/".join(path.parts[-2:])
