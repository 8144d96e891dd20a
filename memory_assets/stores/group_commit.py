"""Group commit: threads that write to one store at the same time share a commit.

A LanceDB commit costs nearly the same for one row as for sixteen. While one is running, new items wait, and then form one batch.
Clients that got their answers together have a moment to come back together (PostgreSQL's `commit_delay`). A single client never waits.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import BoundedSemaphore, Condition
from time import monotonic
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MAX_BATCH = 16
_GATHERING_SECONDS = 0.01
"""Shorter than a commit. Without it, the first of eight clients to come back is committed alone, and seven wait for it."""
_TOGETHER_SECONDS = 1.0
"""After this pause, clients of earlier batches are no longer expected."""
_BATCHES_AT_ONCE = BoundedSemaphore(2)
"""Limit for all stores of a process: one batch is analysed while another is committed; more would wait for spaCy's lock."""


class GroupCommit(Generic[Item, Outcome]):
    """The queue of one store. Thread-safe."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: deque[tuple[Item, Future[Outcome]]] = deque()
        self._is_committing = False
        self._expected = 1
        """Estimated number of writing clients."""
        self._answered_at = 0.0

    def run(self, item: Item, commit: Callable[[Sequence[Item]], Sequence[Outcome]]) -> Outcome:
        """Commit an item, alone or together with items of other threads; return after the commit.

        `commit` writes all items of a batch or none, and returns an outcome for each. If a batch fails, each item is committed alone, so
        that no caller gets another's error.
        """
        future: Future[Outcome] = Future()
        with self._changed:
            self._waiting.append((item, future))
            self._changed.notify_all()
            while not future.done():
                if self._is_committing:
                    self._changed.wait()
                else:
                    self._is_committing = True
                    self._commit_batch(commit)
        return future.result()

    def _commit_batch(self, commit: Callable[[Sequence[Item]], Sequence[Outcome]]) -> None:
        """Commit the waiting items. The caller holds the lock, which is released meanwhile."""
        if monotonic() - self._answered_at > _TOGETHER_SECONDS:
            self._expected = 1
        self._changed.wait_for(lambda: len(self._waiting) >= self._expected, _GATHERING_SECONDS)
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
        self._changed.release()
        try:
            with _BATCHES_AT_ONCE:
                _attempt(batch, commit)
        finally:
            self._changed.acquire()
            self._expected = min(len(batch) + len(self._waiting), MAX_BATCH)
            self._answered_at = monotonic()
            self._is_committing = False
            self._changed.notify_all()


def _attempt(batch: Sequence[tuple[Item, "Future[Outcome]"]], commit: Callable[[Sequence[Item]], Sequence[Outcome]]) -> None:
    try:
        outcomes = commit([item for item, _ in batch])
    except BaseException as error:  # noqa: BLE001 - passed to the caller of the item
        if len(batch) == 1:
            batch[0][1].set_exception(error)
        else:
            for each in batch:
                _attempt([each], commit)
        return
    for (_, future), outcome in zip(batch, outcomes, strict=True):
        future.set_result(outcome)
