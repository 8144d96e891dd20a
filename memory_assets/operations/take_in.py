"""Ingest changed source files at once, without Dagster. The next run updates the graph and the scores."""

import logging
from pathlib import Path
from threading import Event, Thread

from memory_assets.errors import DeletedError
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_SETTLING_MS = 400
"""A file that is still being written changes again within this time."""
_LOOK_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 5.0
"""Pause after a failure; it doubles with each further one."""
_LONGEST_PAUSE_SECONDS = 300.0
"""Longest pause; where nothing can be watched, the interval at which sources are ingested."""
_SUFFIXES = (".md", ".json", ".jsonl", "")
"""Suffixes of files and folders in the LEARNING store."""


class TakenIn(Answer):
    """Counts of memories that changed with their sources."""

    added: int
    updated: int
    superseded: int
    vanished: int
    returned: int
    refused: int

    def text(self, local: LocalTime) -> str:
        return ", ".join(f"{count} {name}" for name, count in self if count) or "Nothing changed."


def take_in(tenant: Tenant) -> TakenIn:
    """Update the memories from changed source files. Only one process at a time does so; a second one waits."""
    from memory_assets.ingest.features import extract_features, refresh_entries
    from memory_assets.ingest.memories import sync_memories
    from memory_assets.ingest.scans import refresh_sources
    from memory_assets.learn.briefing import ensure_brief, renew_brief
    from memory_assets.learn.sessions import remember_sessions
    from memory_assets.sources.readers import source_paths
    from memory_assets.stores.locks import alone

    tenant.memories.prepare()
    remembered = remember_sessions(tenant)  # their notes need no embedder
    with alone(tenant.folder, "taking_in", parents=not tenant.location.is_folder):
        scans = refresh_sources(tenant, source_paths(tenant.settings)) if tenant.is_sources_tenant else []
        refresh_entries(tenant)
        extract_features(tenant, lambda *_: None)
        outcome = sync_memories(tenant, lambda *_: None)
    if remembered or outcome.changed:
        renew_brief(tenant)
    else:
        ensure_brief(tenant)
    refused = sum(len(scan.refusals) for scan in scans)
    return TakenIn.of(outcome, refused=refused + outcome.not_embedded)


class SourceWatch:
    """Watches the sources' folders in the background, and ingests changes one after the other."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._due = Event()
        self._stopping = Event()

    def start(self) -> None:
        """Watch, and ingest earlier changes. Does nothing if `watch_sources` is off or the tenant has no sources."""
        if self._tenant.settings.watch_sources == "off" or not self._tenant.is_sources_tenant:
            return
        Thread(target=self._ingest, name="source-taking-in", daemon=True).start()
        Thread(target=self._watch, name="source-watch", daemon=True).start()

    def notice(self, path: Path) -> None:
        """Ingest a file that was just written, if it belongs to a source."""
        if self._is_source_file(str(path)):
            self._due.set()

    def stop(self) -> None:
        """End both threads after the work that they have begun."""
        self._stopping.set()
        self._due.set()

    def _ingest(self) -> None:
        pause: float | None = _FIRST_PAUSE_SECONDS
        retry = _FIRST_PAUSE_SECONDS
        while True:
            self._due.wait(pause)
            if self._stopping.is_set():
                return
            self._due.clear()
            try:
                if self._roots():
                    take_in(self._tenant)
                pause, retry = None, _FIRST_PAUSE_SECONDS
            except Exception as error:  # noqa: BLE001 - the thread must go on
                if isinstance(error, DeletedError):
                    self._tenant = self._tenant.reopened() or self._tenant
                _log.warning("sources were not taken in: %s", type(error).__name__)
                pause, retry = retry, min(2 * retry, _LONGEST_PAUSE_SECONDS)

    def _watch(self) -> None:
        from watchfiles import watch

        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            try:
                roots = self._roots()
                looks = watch(
                    *roots,
                    watch_filter=None,  # or it yields nothing while a transcript grows
                    step=_SETTLING_MS,
                    stop_event=self._stopping,
                    rust_timeout=int(_LOOK_SECONDS * 1_000),
                    yield_on_timeout=True,
                    ignore_permission_denied=True,
                )
                next(looks, None)  # the watch has begun: from here on it notices every change
                self._due.set()
                pause = _FIRST_PAUSE_SECONDS
                for changes in looks:
                    if any(self._is_source_file(path) for _, path in changes):
                        self._due.set()
                    if self._roots() != roots:
                        break
            except (OSError, RuntimeError) as error:  # too many watches, or a folder was removed
                _log.warning("sources are not watched: %s", type(error).__name__)
                self._stopping.wait(pause)
                self._due.set()
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _roots(self) -> dict[Path, tuple[int, int]]:
        """Return the folders to watch, each with its device and inode, by which a replaced one is known."""
        from memory_assets.sources.readers import source_paths

        folders = {
            path if path.is_dir() else path.parent for path in source_paths(self._tenant.settings).values() if path.exists()
        }
        roots = {each: each.stat() for each in sorted(folders) if folders.isdisjoint(each.parents)}
        return {path: (found.st_dev, found.st_ino) for path, found in roots.items()}

    def _is_source_file(self, path: str) -> bool:
        """Return whether a source may read the file, or the files of a folder that was moved.

        Excludes Claude Code's transcripts, which grow beside its memory folders.
        """
        settings = self._tenant.settings
        written = Path(path)
        if written == settings.pai_seed:
            return True
        if written.is_relative_to(settings.pai_learning_dir):
            return written.suffix.lower() in _SUFFIXES
        if not written.is_relative_to(settings.claude_projects_dir):
            return False
        inside = written.relative_to(settings.claude_projects_dir).parts[1:]
        return written.suffix.lower() == ".md" or inside in ((), ("memory",))
