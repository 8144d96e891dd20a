"""One tenant's way into its store: memories that arrive together are understood and committed together.

A commit of LanceDB costs nearly the same for one row as for sixteen, and spaCy and the embedders are faster in batches. So while
one commit is under way, what arrives waits and then goes as one. Clients that were just answered together are given a moment to
come back together (PostgreSQL's `commit_delay`); where a client stores alone, nothing waits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from memory_assets.errors import said
from memory_assets.ingest.direct import Stored, store_memories, store_once
from memory_assets.models import NewMemory
from memory_assets.operations.store import StoredMemory, with_splash

if TYPE_CHECKING:
    from memory_assets.api.metrics import Metrics
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_MOST_PER_COMMIT = 16
_GATHERING_SECONDS = 0.01
"""Less than a commit takes. Without it, of eight clients the first to come back is committed alone, and seven wait for it."""
_TOGETHER_SECONDS = 1.0
"""Clients that have not come back by then are not waited for any more."""

Run = Callable[..., Awaitable[Any]]
"""Does blocking work in a thread."""


class Writer:
    """Stores memories of one tenant."""

    def __init__(self, tenant: "Tenant", run: Run, metrics: "Metrics") -> None:
        self._tenant = tenant
        self._run = run
        self._metrics = metrics
        self._waiting: deque[tuple[NewMemory, asyncio.Future[StoredMemory]]] = deque()
        self._committing: asyncio.Task[None] | None = None
        self._expected, self._gathered = 1, asyncio.Event()
        """How many clients seem to be storing, and whether as many wait now."""
        self._answered_at = 0.0
        self._once: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Retries that arrive while the first try is under way wait for it."""
        self.unmerged_since: float | None = monotonic()
        """Since when there may be small files to be merged; None when nothing was stored after the last merge."""

    async def store(self, given: NewMemory) -> StoredMemory:
        """Remember a text; returns after the commit.

        Raises:
            ConflictError: `given` brings an id that is taken by something else.
            ProcessingError: a step failed; nothing was kept.
            StoreError: the commit failed; nothing was kept.
        """
        if self.unmerged_since is None:
            self.unmerged_since = monotonic()
        if given.id is not None:
            async with self._once.setdefault(given.id, asyncio.Lock()):
                stored = await self._run(store_once, self._tenant, given)
            return await self._splashed(stored)
        future: asyncio.Future[StoredMemory] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if len(self._waiting) >= self._expected:
            self._gathered.set()
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_waiting())
        return await future

    async def _commit_waiting(self) -> None:
        if monotonic() - self._answered_at > _TOGETHER_SECONDS:
            self._expected = 1
        while self._waiting:
            if len(self._waiting) < self._expected:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._gathered.wait(), _GATHERING_SECONDS)
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_PER_COMMIT))]
            self._metrics.commit_size.observe(len(batch))
            stored = await self._attempt([given for given, _ in batch])
            self._expected = min(len(batch) + len(self._waiting), _MOST_PER_COMMIT)
            self._gathered.clear()
            self._answered_at = monotonic()
            for (_, future), outcome in zip(batch, stored, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    async def _attempt(self, batch: list[NewMemory]) -> Sequence[StoredMemory | BaseException]:
        """Store a batch; where that fails, each of it by itself, so that nobody pays for another's fault."""
        (stored,) = await asyncio.gather(self._run(store_memories, self._tenant, batch), return_exceptions=True)
        if not isinstance(stored, BaseException):
            # One after the other: side by side they end sooner, and searches wait for both.
            return [await self._splashed(each) for each in stored]
        if len(batch) == 1:
            return [stored]
        alone = [self._attempt([given]) for given in batch]
        return [outcome for outcomes in await asyncio.gather(*alone) for outcome in outcomes]

    async def _splashed(self, stored: Stored) -> StoredMemory:
        """What is answered, whatever becomes of the splash: the memory is committed and must not be sent again."""
        (answer,) = await asyncio.gather(self._run(with_splash, self._tenant, stored), return_exceptions=True)
        if isinstance(answer, BaseException):
            _log.error("no splash: %s", said(answer), exc_info=answer)
            return StoredMemory.of(stored, (), ())
        return answer
