"""One tenant's way into its store: memories that arrive together are understood and committed together.

A commit of LanceDB costs nearly the same for one row as for sixteen, and spaCy and the embedders are faster in batches. So while
one commit is under way, what arrives waits and then goes as one; nothing waits where nothing else is being stored.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from memory_assets.ingest.direct import Stored, store_memories, store_once
from memory_assets.models import NewMemory

if TYPE_CHECKING:
    from memory_assets.api.metrics import Metrics
    from memory_assets.tenants import Tenant

_MOST_PER_COMMIT = 16
_COMMITS_AT_ONCE = 2

Run = Callable[..., Awaitable[Any]]
"""Does blocking work in a thread."""


class Writer:
    """Stores memories of one tenant."""

    def __init__(self, tenant: "Tenant", run: Run, metrics: "Metrics") -> None:
        self._tenant = tenant
        self._run = run
        self._metrics = metrics
        self._waiting: deque[tuple[NewMemory, asyncio.Future[Stored]]] = deque()
        self._committing: set[asyncio.Task[None]] = set()
        self._once: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Retries that arrive while the first try is under way wait for it."""
        self._dirty = False

    async def store(self, given: NewMemory) -> Stored:
        """Remember a text; returns after the commit.

        Raises:
            ConflictError: `given` brings an id that is taken by something else.
            ProcessingError: a step failed; nothing was kept.
            StoreError: the commit failed; nothing was kept.
        """
        self._dirty = True
        if given.id is not None:
            async with self._once.setdefault(given.id, asyncio.Lock()):
                return await self._run(store_once, self._tenant, given)
        future: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if len(self._committing) < _COMMITS_AT_ONCE:
            task = asyncio.create_task(self._commit_waiting())
            self._committing.add(task)
            task.add_done_callback(self._committing.discard)
        return await future

    def take_dirty(self) -> bool:
        """Whether anything was stored since this was last asked."""
        dirty, self._dirty = self._dirty, False
        return dirty

    async def _commit_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_PER_COMMIT))]
            self._metrics.commit_size.observe(len(batch))
            stored = await self._attempt([given for given, _ in batch])
            for (_, future), outcome in zip(batch, stored, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    async def _attempt(self, batch: list[NewMemory]) -> list[Stored | BaseException]:
        """Store a batch; where that fails, each of it by itself, so that nobody pays for another's fault."""
        (stored,) = await asyncio.gather(self._run(store_memories, self._tenant, batch), return_exceptions=True)
        if not isinstance(stored, BaseException):
            return stored
        if len(batch) == 1:
            return [stored]
        alone = [self._attempt([given]) for given in batch]
        return [outcome for outcomes in await asyncio.gather(*alone) for outcome in outcomes]
