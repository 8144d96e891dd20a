"""The open tenants of a running service, and the threads that work for them.

The event loop only waits. Searches, writes, and reads without an embedder have separate thread pools, so that none queues behind
another kind. One thread does the upkeep of the tables (merging small files, indexing new rows).
"""

import asyncio
import fcntl
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from typing import TypeVar
from weakref import WeakMethod, WeakValueDictionary

import pyarrow as pa

from memory_assets.api.middleware import Metrics
from memory_assets.errors import NotFoundError, StoreError, safe_message
from memory_assets.language import judge
from memory_assets.language.embedders import Embedder, EmbedderError, describe_choice
from memory_assets.learn.briefing import renew_brief
from memory_assets.operations.take_in import SourceWatch
from memory_assets.settings import Settings
from memory_assets.stores.group_commit import MAX_BATCH
from memory_assets.stores.layout import CACHE
from memory_assets.stores.locks import locked
from memory_assets.stores.resident.copies import keep_copies, remove_copies
from memory_assets.stores.resident.memories import Allowance
from memory_assets.stores.tombstones import FILE
from memory_assets.tenants import Tenant, open_states

_log = logging.getLogger(__name__)
Result = TypeVar("Result")

_READING_THREADS = 2
_WRITING_THREADS = 2 * MAX_BATCH
"""Most of them wait to share a commit; `stores.group_commit` limits the concurrent batches."""
_EMBEDDER_CHECK_SECONDS = 15.0
"""Time for which a check of the embedder is cached, as anybody may ask for the service's health."""
_TIMEOUT_SECONDS = 5.0
"""Time to wait for a check of the embedder, and at shutdown for work that hangs."""
_DELETION_CHECK_SECONDS = 2.0
"""Interval of the check whether another process deleted an open tenant."""
_MAX_OPEN = 64
"""Tenants kept open; beyond that the least recently used idle ones are closed."""
_FRESHNESS_SECONDS = 0.5
"""Delay within which open stores see the commits of other processes."""
_UPKEEP_SECONDS = 2.0
_UPKEEP_SHARE = 0.1
"""Share of time that the upkeep of one tenant may take; the longer it takes, the longer the pause after it."""
_QUIET_SECONDS = 2.0
_POSTPONED_SECONDS = 60.0
"""Time that small files may wait for a quiet moment; they slow down other processes, which search on disk."""


class OpenTenant:
    """A tenant of a running service with open stores."""

    def __init__(self, tenant: Tenant, pool: "TenantPool") -> None:
        self.tenant = tenant
        counter = WeakMethod(self._count_commit)  # avoids a cycle, so that closing a tenant frees its memory and files at once
        tenant.on_commit = lambda memories: (count := counter()) and count(memories)
        self._commit_size = pool.metrics.commit_size
        self.read = pool.read
        self.search = pool.search
        self.write = pool.write
        self.unmerged_since: float | None = time.monotonic()
        """Time of the opening, or of the first commit since the last merge, which may have left small files; None after a merge."""
        self.requests = 0
        """Requests in progress; the tenant stays open until they are answered."""
        self._served = pool.served
        self._served_at = self._tending_since = self._tended_at = -math.inf
        self._tending_took = 0.0

    def _count_commit(self, memories: int) -> None:
        self._commit_size.observe(memories)
        if self.unmerged_since is None:
            self.unmerged_since = time.monotonic()

    @contextmanager
    def serving(self) -> Iterator[None]:
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self._served_at = time.monotonic()
            self._served.set()

    @property
    def needs_upkeep(self) -> bool:
        """Whether `do_upkeep` has something to do, now or later. It has nothing to do if no request came since it last ran."""
        if self.unmerged_since is not None:
            return True
        return self._served_at >= self._tending_since and self.tenant.memories.needs_maintenance

    @property
    def is_upkeep_due(self) -> bool:
        """Whether `do_upkeep` has something to do now and the pause after its last run is over."""
        is_pause_over = time.monotonic() - self._tended_at > self._tending_took / _UPKEEP_SHARE
        return is_pause_over and self.needs_upkeep and (self.may_merge or self.tenant.memories.needs_maintenance)

    @property
    def may_merge(self) -> bool:
        """Whether new files should be merged now: in a quiet moment, after a minute without one, or if searches read the disk.

        Waiting pays off because LanceDB merges by rewriting a table of up to a million rows; meanwhile searches are answered from memory.
        """
        since, now = self.unmerged_since, time.monotonic()
        if since is None:
            return False
        quiet = not self.requests and now - self._served_at > _QUIET_SECONDS
        return quiet or now - since > _POSTPONED_SECONDS or not self.tenant.memories.is_resident

    def do_upkeep(self) -> None:
        """Merge small files, index new rows and load the tenant's memories, as needed; blocks for seconds."""
        self._tending_since = time.monotonic()
        try:
            if self.may_merge:
                self._merge()
            self.tenant.memories.maintain_resident()
        finally:
            self._tended_at = time.monotonic()
            self._tending_took = self._tended_at - self._tending_since

    def _merge(self) -> None:
        """Merge, unless another process of the service is merging; the files are then checked again later."""
        since, lock = self.unmerged_since, self.tenant.folder / CACHE  # the system releases the lock if the process dies
        lock.mkdir(mode=0o700, parents=not self.tenant.location.is_folder, exist_ok=True)
        with suppress(BlockingIOError), locked(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            self.unmerged_since = None
            try:
                self.tenant.memories.upkeep.optimize()
                renew_brief(self.tenant)
            except StoreError:
                self.unmerged_since = since
                raise


class TenantPool:
    """Open tenants, threads and embedders that the requests of one service share."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.served = asyncio.Event()
        """Set when a request ends, after which a tenant may need upkeep."""
        self._readers = ThreadPoolExecutor(_READING_THREADS, "memory-read")
        self._searchers = ThreadPoolExecutor(settings.service_threads, "memory-search")
        self._writers = ThreadPoolExecutor(_WRITING_THREADS, "memory-write")
        self._upkeep = ThreadPoolExecutor(1, "memory-upkeep")
        self.read = partial(_in_thread, self._readers)
        self.search = partial(_in_thread, self._searchers)
        """Runs a search in a thread; an embedder that hangs delays only other searches."""
        self.write = partial(_in_thread, self._writers)
        """Runs a write, or other work that waits for an embedder, in a thread that no search uses."""
        self._open: OrderedDict[str, OpenTenant] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by name: requests wait only for the opening of their own tenant."""
        self._check: asyncio.Task[str | None] | None = None
        self._checked_at = 0.0
        self._resident = Allowance(settings.resident_bytes, is_shared=settings.workers != 1)
        self._embedders: dict[str, Embedder] = {}

    def warm_up(self) -> None:
        """Load the models that the first request would otherwise wait for. A remote embedder is not called."""
        tenant = Tenant(self.settings, embedders=self._embedders)
        tenant.analyzer.analyze("Alice warmed up the service.")
        embedder = tenant.open_embedder(self.settings.embedder)
        if describe_choice(self.settings.embedder).offline:
            embedder.embed(["warm"])
        try:
            judge.load()
        except EmbedderError as error:
            _log.warning("hits are not read, and texts not compared: %s", error)

    def watch_sources(self, stopping: Event) -> None:
        """Start to ingest changed source files for the tenant of the settings until `stopping`, once no other process does."""
        if self.settings.watch_sources == "on":
            Thread(target=self._watch_under_lock, args=[stopping], name="source-watch-lease", daemon=True).start()

    def _watch_under_lock(self, stopping: Event) -> None:
        watch = SourceWatch(Tenant(self.settings, embedders=self._embedders))
        with locked(self.settings.data_dir):
            if not stopping.is_set():
                watch.start()
            stopping.wait()
            watch.stop()

    async def embedder_fault(self) -> str | None:
        """Return why the embedder fails to embed a text, or None if it works; cached for 15 seconds."""
        if self._check is None or (self._check.done() and time.monotonic() - self._checked_at > _EMBEDDER_CHECK_SECONDS):
            self._check, self._checked_at = asyncio.create_task(self.write(self._check_embedder)), time.monotonic()
        try:
            return await asyncio.wait_for(asyncio.shield(self._check), _TIMEOUT_SECONDS)
        except TimeoutError:
            return f"it did not answer within {_TIMEOUT_SECONDS:g} s"

    def _check_embedder(self) -> str | None:
        try:
            Tenant(self.settings, embedders=self._embedders).open_embedder(self.settings.embedder).embed(["health"])
        except EmbedderError as error:
            _log.warning("the embedder does not work: %s", error)
            return "it failed"
        return None

    async def get(self, name: str) -> OpenTenant:
        """Return the open tenant of a name; raise NotFoundError if it was deleted, and StoreError if its stores cannot be opened."""
        if name in self._open:
            await self._close_deleted([name])
        if name not in self._open:
            async with self._opening.setdefault(name, asyncio.Lock()):
                if name not in self._open:
                    tenant = Tenant(self.settings, name, freshness=_FRESHNESS_SECONDS, embedders=self._embedders)
                    await asyncio.to_thread(self._prepare, tenant)
                    self._open[name] = OpenTenant(tenant, self)
        opened = self._open[name]
        self._open.move_to_end(name)
        idle = [other for other, each in self._open.items() if not each.requests and each is not opened]
        for other in idle[: max(0, len(self._open) - _MAX_OPEN)]:
            del self._open[other]
        return opened

    async def _close_deleted(self, names: Iterable[str] | None = None) -> None:
        """Close open tenants that another process deleted, so that none of their data stays in memory."""
        checked = [(name, self._open[name]) for name in (list(self._open) if names is None else names)]

        def find() -> list[tuple[str, OpenTenant]]:
            return [(name, opened) for name, opened in checked if not opened.tenant.state.is_current]

        for name, opened in await asyncio.to_thread(find) if self.settings.state_uri else find():
            if self._open.get(name) is opened:
                del self._open[name]
            if self.settings.state_uri:
                await asyncio.to_thread(remove_copies, opened.tenant.folder / CACHE)

    async def _follow_others(self) -> None:
        """Do what deletions and erasures of other processes require. While the database is away, nothing."""
        try:
            await self._close_deleted()
            if self.settings.state_uri:
                await asyncio.to_thread(self._remove_outdated_copies)
        except StoreError as error:
            _log.warning("deletions of others are looked for later: %s", safe_message(error))

    def _remove_outdated_copies(self, *names: str) -> None:
        """Remove copies, of these tenants or of all, that were made before another machine erased something of the tenant."""
        found = names or [folder.parent.name for folder in self.settings.data_dir.glob(f"*/{CACHE}")]
        stamps = open_states(self.settings).value_stamps(FILE, found)
        if stamps is None:
            return
        for name in found:
            keep_copies(self.settings.tenant_dir(name) / CACHE, stamps.get(name, ""))

    def _prepare(self, tenant: Tenant) -> None:
        if not tenant.exists:
            raise NotFoundError(f"There is no tenant {tenant.name!r}.")
        tenant.memories.prepare()
        tenant.relations.prepare()
        _ = tenant.analyzer, tenant.embedder
        tenant.memories.keep_resident(self._resident, tenant.folder / CACHE)
        self._remove_outdated_copies(tenant.name)

    async def keep_up(self) -> None:
        """Tend open tenants one after the other and close deleted ones, until cancelled. Without requests only deletion is checked."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.served.wait(), _DELETION_CHECK_SECONDS if self._open else None)
            await self._follow_others()
            if not self.served.is_set():
                continue
            self.served.clear()
            await asyncio.sleep(_UPKEEP_SECONDS)
            await self._follow_others()
            for opened in [each for each in self._open.values() if each.is_upkeep_due]:
                (outcome,) = await asyncio.gather(_in_thread(self._upkeep, opened.do_upkeep), return_exceptions=True)
                if isinstance(outcome, Exception):
                    _log.warning("upkeep put off: %s", safe_message(outcome))
            await _in_thread(self._upkeep, pa.default_memory_pool().release_unused)
            if any(each.needs_upkeep for each in self._open.values()):
                self.served.set()

    async def close(self, upkeep: "asyncio.Task[None]") -> None:
        """Stop the upkeep, and wait a bounded time for running work, since an embedder may hang."""
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        executors = (self._readers, self._searchers, self._writers, self._upkeep)
        for threads in executors:
            threads.shutdown(wait=False, cancel_futures=True)
        ended = asyncio.gather(*(asyncio.to_thread(threads.shutdown) for threads in executors))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ended), _TIMEOUT_SECONDS)


async def _in_thread(threads: Executor, work: Callable[..., Result], *arguments: object, **options: object) -> Result:
    """Run `work` in one of `threads` with this request's context, so that its log lines have the id."""
    return await asyncio.get_running_loop().run_in_executor(threads, partial(copy_context().run, work, *arguments, **options))
