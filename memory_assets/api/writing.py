"""One tenant's way into its store: memories that arrive together are understood and committed together.

A commit of LanceDB costs nearly the same for one row as for sixteen, and spaCy and the embedders are faster in batches. So while
one commit is under way, what arrives waits and then goes as one; nothing waits where nothing else is being stored.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from memory_assets.errors import MemoryAssetsError
from memory_assets.ingest.direct import Stored, store_memories, store_once
from memory_assets.models import NewMemory
from memory_assets.recall.splash import Ripple, splash

if TYPE_CHECKING:
    from memory_assets.api.metrics import Metrics
    from memory_assets.tenants import Tenant

_log = logging.getLogger(__name__)
_MOST_PER_COMMIT = 16
_COMMITS_AT_ONCE = 1

Run = Callable[..., Awaitable[Any]]
"""Does blocking work in a thread."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """The id of a memory that was committed, and what it stirred up."""

    id: int
    splash: "Sequence[Ripple]"


class Writer:
    """Stores memories of one tenant."""

    def __init__(self, tenant: "Tenant", run: Run, metrics: "Metrics") -> None:
        self._tenant = tenant
        self._run = run
        self._metrics = metrics
        self._waiting: deque[tuple[NewMemory, asyncio.Future[Remembered]]] = deque()
        self._committing: set[asyncio.Task[None]] = set()
        self._once: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Retries that arrive while the first try is under way wait for it."""
        self.written = False
        """Whether anything was stored since `take_written` was last called."""

    async def store(self, given: NewMemory) -> Remembered:
        """Remember a text; returns after the commit.

        Raises:
            ConflictError: `given` brings an id that is taken by something else.
            ProcessingError: a step failed; nothing was kept.
            StoreError: the commit failed; nothing was kept.
        """
        self.written = True
        if given.id is not None:
            async with self._once.setdefault(given.id, asyncio.Lock()):
                return await self._run(_store_once, self._tenant, given)
        future: asyncio.Future[Remembered] = asyncio.get_running_loop().create_future()
        self._waiting.append((given, future))
        if len(self._committing) < _COMMITS_AT_ONCE:
            task = asyncio.create_task(self._commit_waiting())
            self._committing.add(task)
            task.add_done_callback(self._committing.discard)
        return await future

    def take_written(self) -> bool:
        """Whether anything was stored since this was last asked."""
        written, self.written = self.written, False
        return written

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

    async def _attempt(self, batch: list[NewMemory]) -> list[Remembered | BaseException]:
        """Store a batch; where that fails, each of it by itself, so that nobody pays for another's fault."""
        (stored,) = await asyncio.gather(self._run(_store, self._tenant, batch), return_exceptions=True)
        if not isinstance(stored, BaseException):
            return stored
        if len(batch) == 1:
            return [stored]
        alone = [self._attempt([given]) for given in batch]
        return [outcome for outcomes in await asyncio.gather(*alone) for outcome in outcomes]


def _store(tenant: "Tenant", given: Sequence[NewMemory]) -> list[Remembered]:
    return [_remembered(tenant, stored) for stored in store_memories(tenant, given)]


def _store_once(tenant: "Tenant", given: NewMemory) -> Remembered:
    return _remembered(tenant, store_once(tenant, given))


def _remembered(tenant: "Tenant", stored: Stored) -> Remembered:
    """What is answered; a splash that cannot be had is none, because the memory is committed and must not be sent again."""
    try:
        ripples = splash(tenant.memories, stored.memory.id, stored.embedding, tenant.embedder.name)
    except MemoryAssetsError as error:
        _log.warning("no splash for memory %s: %s", stored.memory.id, error)
        ripples = []
    return Remembered(stored.memory.id, ripples)
