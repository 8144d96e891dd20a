"""The tenants that a running service keeps open, and the threads in which their work is done.

The event loop only waits. Searches, stores and reads that need no embedder have threads of their own, so that none queues behind
another kind. The upkeep of the tables (merging small files, indexing new rows) has one thread.
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
from memory_assets.stores.resident.copies import remove_copies
from memory_assets.stores.resident.memories import Allowance
from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
Result = TypeVar("Result")

_READING_THREADS = 2
_WRITING_THREADS = 2 * MAX_BATCH
"""Most of them wait to share a commit; `stores.group_commit` bounds how many batches are worked on."""
_EXAMINED_SECONDS = 15.0
"""How long what the embedder said of itself is believed: anybody may ask for the service's health."""
_PATIENCE_SECONDS = 5.0
"""How long the service waits for an embedder that is examined, and at its stop for work that hangs."""
_DELETED_SECONDS = 2.0
"""How often the service looks whether another process deleted one of the open tenants."""
_MOST_OPEN = 64
"""Tenants kept open; beyond that those that have been idle longest are closed."""
_FRESHNESS_SECONDS = 0.5
"""Within which the open stores see what other processes committed."""
_UPKEEP_SECONDS = 2.0
_UPKEEP_SHARE = 0.1
"""Share of the time that the upkeep of one tenant may take; under steady writing it waits the longer the longer it takes."""
_QUIET_SECONDS = 2.0
_POSTPONED_SECONDS = 60.0
"""How long small files may wait for a quiet moment; other processes, which search on disk, feel them."""


class OpenTenant:
    """One tenant of a running service: its stores, kept open."""

    def __init__(self, tenant: Tenant, pool: "TenantPool") -> None:
        self.tenant = tenant
        noting = WeakMethod(self._note_commit)  # without a cycle a closed tenant gives its memory and files back at once
        tenant.on_commit = lambda memories: (note := noting()) and note(memories)
        self._commit_size = pool.metrics.commit_size
        self.read = pool.read
        self.search = pool.search
        self.write = pool.write
        self.unmerged_since: float | None = time.monotonic()
        """Since when there may be small files to be merged; None if nothing was stored after the last merge."""
        self.requests = 0
        """Requests under way; the tenant stays open until they are answered."""
        self._served = pool.served
        self._served_at = self._tending_since = self._tended_at = -math.inf
        self._tending_took = 0.0

    def _note_commit(self, memories: int) -> None:
        self._commit_size.observe(memories)
        if self.unmerged_since is None:
            self.unmerged_since = time.monotonic()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A request of this tenant is under way."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self._served_at = time.monotonic()
            self._served.set()

    @property
    def needs_upkeep(self) -> bool:
        """Whether `tend` has something to do, now or later: nothing where nothing was asked since it was done last."""
        if self.unmerged_since is not None:
            return True
        return self._served_at >= self._tending_since and self.tenant.memories.needs_maintenance

    @property
    def may_be_tended(self) -> bool:
        """Whether `tend` has something to do now, and has not just taken long."""
        rested = time.monotonic() - self._tended_at > self._tending_took / _UPKEEP_SHARE
        return rested and self.needs_upkeep and (self.may_merge or self.tenant.memories.needs_maintenance)

    @property
    def may_merge(self) -> bool:
        """Whether something was stored that is merged now: in a quiet moment, or when none has come for long.

        That searches are answered from memory meanwhile is what makes it worth waiting: LanceDB merges by writing the whole of
        a table of up to a million rows anew.
        """
        since, now = self.unmerged_since, time.monotonic()
        if since is None:
            return False
        quiet = not self.requests and now - self._served_at > _QUIET_SECONDS
        return quiet or now - since > _POSTPONED_SECONDS or not self.tenant.memories.is_resident

    def tend(self) -> None:
        """Load the tenant's memories, or merge small files and index new rows; blocks for seconds."""
        self._tending_since = time.monotonic()
        try:
            if self.may_merge:
                self._merge()
            self.tenant.memories.maintain_resident()
        finally:
            self._tended_at = time.monotonic()
            self._tending_took = self._tended_at - self._tending_since

    def _merge(self) -> None:
        """Merge, unless another process of the service does: then its files are looked at again later."""
        since, held = self.unmerged_since, self.tenant.folder / CACHE  # the system frees its lock when the process dies
        held.mkdir(mode=0o700, parents=not self.tenant.location.is_folder, exist_ok=True)
        with suppress(BlockingIOError), locked(held, fcntl.LOCK_EX | fcntl.LOCK_NB):
            self.unmerged_since = None
            try:
                self.tenant.memories.upkeep.optimize()
                renew_brief(self.tenant)
            except StoreError:
                self.unmerged_since = since
                raise


class TenantPool:
    """All that is shared by the requests of one service."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.served = asyncio.Event()
        """Whether a tenant may need upkeep: set by every request that ends."""
        self._readers = ThreadPoolExecutor(_READING_THREADS, "memory-read")
        self._searchers = ThreadPoolExecutor(settings.service_threads, "memory-search")
        self._writers = ThreadPoolExecutor(_WRITING_THREADS, "memory-write")
        self._upkeep = ThreadPoolExecutor(1, "memory-upkeep")
        self.read = partial(_in_thread, self._readers)
        """Does work in a thread for reading."""
        self.search = partial(_in_thread, self._searchers)
        """Does work that asks the embedder in a thread where a hung one delays none but its like."""
        self.write = partial(_in_thread, self._writers)
        """Does work that stores or otherwise waits for an embedder in a thread that no search needs."""
        self._open: OrderedDict[str, OpenTenant] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By name: requests for a tenant that is being opened wait for it, and for no other."""
        self._examined: asyncio.Task[str | None] | None = None
        self._examined_at = 0.0
        self._resident = Allowance(settings.resident_bytes, is_shared=settings.workers != 1)
        self._embedders: dict[str, Embedder] = {}

    def warm_up(self) -> None:
        """Load what the first request would otherwise wait for; a remote embedder is not asked.

        Raises:
            SettingsError: the spaCy pipeline of the settings cannot be used.
            EmbedderError: the embedder of the settings cannot be opened.
        """
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
        """Take in changed source files for the tenant of the settings until `stopping`, as soon as no other process does."""
        if self.settings.watch_sources == "on":
            Thread(target=self._watch_in_turn, args=[stopping], name="source-watch-lease", daemon=True).start()

    def _watch_in_turn(self, stopping: Event) -> None:
        watch = SourceWatch(Tenant(self.settings, embedders=self._embedders))
        with locked(self.settings.data_dir):
            if not stopping.is_set():
                watch.start()
            stopping.wait()
            watch.stop()

    async def embedder_fault(self) -> str | None:
        """What the embedder says of itself when it is asked for one vector, at most once in a while; None where it works."""
        if self._examined is None or (self._examined.done() and time.monotonic() - self._examined_at > _EXAMINED_SECONDS):
            self._examined, self._examined_at = asyncio.create_task(self.write(self._examine)), time.monotonic()
        try:
            return await asyncio.wait_for(asyncio.shield(self._examined), _PATIENCE_SECONDS)
        except TimeoutError:
            return f"it did not answer within {_PATIENCE_SECONDS:g} s"

    def _examine(self) -> str | None:
        try:
            Tenant(self.settings, embedders=self._embedders).open_embedder(self.settings.embedder).embed(["health"])
        except EmbedderError as error:
            _log.warning("the embedder does not work: %s", error)
            return "it failed"
        return None

    async def get(self, name: str) -> OpenTenant:
        """The open tenant of that name.

        Raises:
            NotFoundError: it was deleted.
            StoreError: its stores cannot be opened.
        """
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
        for other in idle[: max(0, len(self._open) - _MOST_OPEN)]:
            del self._open[other]
        return opened

    async def _close_deleted(self, names: Iterable[str] | None = None) -> None:
        """Close those of the open tenants that another process deleted: nothing of them stays in this process's memory."""
        looked_at = [(name, self._open[name]) for name in (list(self._open) if names is None else names)]

        def find() -> list[tuple[str, OpenTenant]]:
            return [(name, opened) for name, opened in looked_at if not opened.tenant.state.is_current]

        for name, opened in await asyncio.to_thread(find) if self.settings.state_uri else find():
            if self._open.get(name) is opened:
                del self._open[name]
            if self.settings.state_uri:
                await asyncio.to_thread(remove_copies, opened.tenant.folder / CACHE)

    def _prepare(self, tenant: Tenant) -> None:
        if not tenant.exists:
            raise NotFoundError(f"There is no tenant {tenant.name!r}.")
        tenant.memories.prepare()
        tenant.relations.prepare()
        _ = tenant.analyzer, tenant.embedder
        tenant.memories.keep_resident(self._resident, tenant.folder / CACHE)

    async def keep_up(self) -> None:
        """Tend the open tenants that need it, one after the other, until cancelled; close those that were deleted.

        Without a request, nothing is looked at but whether the folders are still there.
        """
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.served.wait(), _DELETED_SECONDS if self._open else None)
            await self._close_deleted()
            if not self.served.is_set():
                continue
            self.served.clear()
            await asyncio.sleep(_UPKEEP_SECONDS)
            await self._close_deleted()
            for opened in [each for each in self._open.values() if each.may_be_tended]:
                (outcome,) = await asyncio.gather(_in_thread(self._upkeep, opened.tend), return_exceptions=True)
                if isinstance(outcome, Exception):
                    _log.warning("upkeep put off: %s", safe_message(outcome))
            await _in_thread(self._upkeep, pa.default_memory_pool().release_unused)
            if any(each.needs_upkeep for each in self._open.values()):
                self.served.set()

    async def close(self, upkeep: "asyncio.Task[None]") -> None:
        """End the upkeep, and wait a bounded time for the work that was begun: an embedder may hang."""
        upkeep.cancel()
        with suppress(asyncio.CancelledError):
            await upkeep
        executors = (self._readers, self._searchers, self._writers, self._upkeep)
        for threads in executors:
            threads.shutdown(wait=False, cancel_futures=True)
        ended = asyncio.gather(*(asyncio.to_thread(threads.shutdown) for threads in executors))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(ended), _PATIENCE_SECONDS)


async def _in_thread(threads: Executor, work: Callable[..., Result], *arguments: object, **options: object) -> Result:
    """Do `work` in one of `threads`, with this request's id in its log lines."""
    return await asyncio.get_running_loop().run_in_executor(threads, partial(copy_context().run, work, *arguments, **options))
