"""Locks on folders: a commit holds a shared one on its table's, a deletion or a rewriting an exclusive one.

`flock` only needs the folder opened for reading, so a kill leaves nothing behind. Object storage has none: there a commit checks
afterwards that its store is still the tenant's.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from memory_assets.errors import StoreError

if TYPE_CHECKING:
    from lancedb.table import Table

    from memory_assets.stores.state import TenantState

SHARED = fcntl.LOCK_SH
HOOK_PATIENCE_SECONDS = 1.0
"""What a hook waits for a lock: the session waits for the hook."""
_PAUSE_SECONDS = 0.02
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Folders that this context has locked exclusively, in which it may lock and commit."""
_commits: "WeakKeyDictionary[Table, Commits]" = WeakKeyDictionary()
_uris: "WeakKeyDictionary[Table, str]" = WeakKeyDictionary()
"""Asking a table for its URI takes half a millisecond."""


class Commits:
    """The commits to a tenant's tables, as its state counts them: while no other process commits, object storage is not asked."""

    def __init__(self, state: "TenantState") -> None:
        self.state = state
        self.seen: int | None = None
        """Up to which commit the table is open."""

    def follow(self, table: "Table") -> None:
        """Bring a table to the newest commit that was noted, whoever made it."""
        newest = self.state.count_commits()
        if newest is None or newest != self.seen:
            table.checkout_latest()
            self.seen = newest

    def note(self) -> None:
        """Note a commit to the table; refuse it with StoreError if the tenant was deleted."""
        newest = self.state.note_commit()
        if newest is not None and self.seen == newest - 1:
            self.seen = newest


def guard(table: "Table", commits: Commits | None) -> None:
    """Let commits to a table be noted, which checks that its store is still the tenant's."""
    if commits is not None:
        _commits[table] = commits


def bring_up(table: "Table") -> None:
    """Bring a table to its newest version."""
    if (commits := _commits.get(table)) and "://" in _uri(table):
        commits.follow(table)
    else:
        table.checkout_latest()


def refuse_deleted(table: "Table") -> None:
    """Refuse to commit to a table whose tenant was deleted, with StoreError."""
    if (commits := _commits.get(table)) and not commits.state.is_current:
        raise commits.state.deleted()


def _uri(table: "Table") -> str:
    return _uris.get(table) or _uris.setdefault(table, cast("Any", table).uri)


@contextmanager
def shared_lock(table: "Table") -> Iterator[None]:
    """Let nobody delete a table meanwhile; Lance would write the rest of a commit into a new folder of the old name.

    In object storage, or if the id of the store lies elsewhere, what was committed is refused afterwards if the tenant was deleted.

    Raises:
        StoreError: the table, or its tenant, was deleted.
    """
    uri = _uri(table)
    if "://" in uri:
        yield
        if commits := _commits.get(table):
            commits.note()
        return
    with locked(Path(uri), fcntl.LOCK_SH) as there:
        if not there:
            raise StoreError(f"The table {uri} has been deleted; nothing was written.")
        yield


@contextmanager
def locked(folder: Path, kind: int = fcntl.LOCK_EX, patience_seconds: float | None = None) -> Iterator[bool]:
    """Hold a lock on a folder; False if the folder is gone by then. What this context has locked exclusively it may lock again.

    Raises:
        BlockingIOError: others held it for longer than `patience_seconds`.
    """
    if folder in _held.get():
        yield folder.exists()
        return
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    before = None
    try:
        _lock(held, kind, patience_seconds)
        if kind & fcntl.LOCK_EX:
            before = _held.set(_held.get() | {folder})
        yield folder.exists() and os.path.samestat(os.fstat(held), folder.stat())
    finally:
        if before is not None:
            _held.reset(before)
        os.close(held)


def _lock(descriptor: int, kind: int, patience_seconds: float | None) -> None:
    if patience_seconds is None:
        fcntl.flock(descriptor, kind)
        return
    latest = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > latest:
                raise
        time.sleep(_PAUSE_SECONDS)
