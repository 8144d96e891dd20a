"""Make what changed in the sources searchable at once, without Dagster: the graph and the scores follow with the next run."""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_LOCK = "taking_in"
_SETTLING_MS = 400
"""A file that is still being written changes again within this time."""
_ABSENT_SECONDS = 300.0
"""How often a source that is not there yet is looked for."""
_SUFFIXES = (".md", ".json", ".jsonl")


class TakenIn(Answer):
    """What became of the memories of the sources."""

    added: int
    updated: int
    superseded: int
    vanished: int
    returned: int
    refused: int

    def text(self, local: LocalTime) -> str:
        return ", ".join(f"{count} {name}" for name, count in self if count) or "Nothing changed."


def take_in(tenant: Tenant) -> TakenIn:
    """Bring the memories to what the sources say. Where two processes do it, the second waits and then finds nothing left to do.

    Raises:
        StoreError: the store or the catalog cannot be read or written.
        EmbedderError: a text cannot be embedded; what was committed before it stays.
    """
    from memory_assets.ingest.features import extract_features, refresh_entries
    from memory_assets.ingest.memories import sync_memories
    from memory_assets.ingest.scans import refresh_source
    from memory_assets.learn.briefing import renew_brief
    from memory_assets.learn.sessions import remember_sessions
    from memory_assets.sources.readers import source_paths
    from memory_assets.stores.locks import locked

    tenant.memories.prepare()
    lock = tenant.folder / _LOCK
    lock.mkdir(mode=0o700, parents=not tenant.location.is_folder, exist_ok=True)
    with locked(lock):
        scans = [refresh_source(tenant, source) for source in source_paths(tenant.settings) if tenant.is_sources_tenant]
        refresh_entries(tenant)
        extract_features(tenant, lambda *_: None)
        outcome = sync_memories(tenant, lambda *_: None)
    if remember_sessions(tenant) or outcome.changed:
        renew_brief(tenant)
    refused = sum(len(scan.refusals) for scan in scans)
    return TakenIn.of(outcome, refused=refused)


class SourceWatch:
    """Watches the folders of the sources, and takes in what changes there: one thread, in the background, a change at a time."""

    def __init__(self, tenant: Tenant, work: Callable[[Tenant], object] = take_in) -> None:
        self._tenant = tenant
        self._work = work
        self._due = Event()
        self._stopping = Event()

    def start(self) -> None:
        """Take in what changed meanwhile, then watch; nothing if the settings do not want it or the tenant has no sources."""
        if self._tenant.settings.watch_sources == "off" or not self._tenant.is_sources_tenant:
            return
        self._due.set()
        Thread(target=self._take_in, name="source-taking-in", daemon=True).start()
        Thread(target=self._watch, name="source-watch", daemon=True).start()

    def notice(self, path: Path) -> None:
        """A file was written: take it in if a source holds it."""
        if self._is_of_a_source(str(path)):
            self._due.set()

    def stop(self) -> None:
        """End both threads; what was begun is finished."""
        self._stopping.set()
        self._due.set()

    def _take_in(self) -> None:
        while True:
            self._due.wait()
            if self._stopping.is_set():
                return
            self._due.clear()
            try:
                if self._roots():
                    self._work(self._tenant)
            except Exception as error:  # noqa: BLE001 - the next change is taken in all the same
                _log.warning("sources were not taken in: %s", type(error).__name__)

    def _watch(self) -> None:
        from watchfiles import watch

        while not self._stopping.is_set():
            roots = self._roots()
            if not roots:
                self._stopping.wait(_ABSENT_SECONDS)
                continue
            try:
                for changes in watch(
                    *roots,
                    watch_filter=lambda _change, path: self._is_of_a_source(path),
                    step=_SETTLING_MS,
                    stop_event=self._stopping,
                    rust_timeout=int(_ABSENT_SECONDS * 1_000),
                    yield_on_timeout=True,
                    ignore_permission_denied=True,
                ):
                    if changes:
                        self._due.set()
                    if self._roots() != roots:
                        break
            except (OSError, RuntimeError) as error:  # too many watches, or a folder that went away meanwhile
                _log.warning("sources are not watched: %s", type(error).__name__)
                self._stopping.wait(_ABSENT_SECONDS)

    def _roots(self) -> list[Path]:
        from memory_assets.sources.readers import source_paths

        folders = {
            path if path.is_dir() else path.parent for path in source_paths(self._tenant.settings).values() if path.exists()
        }
        return sorted(each for each in folders if folders.isdisjoint(each.parents))

    def _is_of_a_source(self, path: str) -> bool:
        """Whether a source may read it; Claude Code's transcripts, which grow all the time, lie beside its memory folders."""
        settings = self._tenant.settings
        written = Path(path)
        if written == settings.pai_seed:
            return True
        if written.is_relative_to(settings.pai_learning_dir):
            return written.suffix in _SUFFIXES
        return written.is_relative_to(settings.claude_projects_dir) and written.suffix == ".md"
