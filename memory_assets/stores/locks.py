"""Locks on folders. A commit holds a shared lock on its table's folder; a deletion or a rewrite holds an exclusive one.

`flock` needs only an open folder, so a killed process leaves nothing behind. Object storage has no locks: there a commit checks
before and afterwards that the store still belongs to the tenant.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import DeletedError, StoreBusyError, StoreError

if TYPE_CHECKING:
    from lancedb.table import Table

    from memory_assets.stores.state import TenantState

_log = logging.getLogger(__name__)

SHARED = fcntl.LOCK_SH
HOOK_PATIENCE_SECONDS = 1.0
"""How long a hook waits for a lock, because the session waits for the hook."""
_PATIENCE_SECONDS = 60.0
"""How long a change of the tenant's state waits: longer than a commit that itself waits for the catalog's lock."""
_PAUSE_SECONDS = 0.02
_DOUBT_SECONDS = 60.0
"""How long after its announcement a commit may arrive that is never counted, because its process or PostgreSQL dies."""
_RECHECK_SECONDS = 5.0
"""Time between two checks for such a commit."""
_locked_folders: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Folders that this context has locked exclusively, so it may lock them again and commit there."""


class Commits:
    """Commit counter in the tenant's state: each commit is announced before and counted after it.

    While nobody commits, no request goes to object storage.
    """

    def __init__(self, state: "TenantState") -> None:
        self.state = state
        self._seen: int | None = None
        """The newest count that the open table includes."""
        self._seen_at = 0.0
        self._doubted_until = 0.0

    def see(self, newest: int | None) -> None:
        """Note that the open table includes the commits that were counted up to `newest`."""
        self._seen_at = time.monotonic()
        if newest != self._seen:
            self._seen, self._doubted_until = newest, self._seen_at + _DOUBT_SECONDS

    def follow(self, table: "Table") -> None:
        """Check out the newest commit, whichever process made it."""
        newest = self.state.count_commits()
        may_lack_a_commit = self._seen_at < min(time.monotonic() - _RECHECK_SECONDS, self._doubted_until)
        if newest is None or newest != self._seen or may_lack_a_commit:
            table.checkout_latest()
            self.see(newest)

    def announce(self) -> None:
        """Count a commit that is about to begin. StoreError if PostgreSQL is away, DeletedError if the tenant was deleted."""
        newest = self.state.note_commit()
        if newest is not None and self._seen == newest - 1:
            self._seen = newest

    def note(self) -> None:
        """Count a commit to the table; a failure is only logged, because the commit succeeded. DeletedError if the tenant was deleted."""
        try:
            self.announce()
        except DeletedError:
            raise
        except StoreError as error:
            _log.warning("a commit was not counted: %s", error)


@contextmanager
def locked(folder: Path, kind: int = fcntl.LOCK_EX, patience_seconds: float | None = None) -> Iterator[bool]:
    """Hold a lock on a folder. Yields False if the folder is gone. A context may lock again what it has locked exclusively.

    BlockingIOError: another process held the lock for longer than `patience_seconds`.
    """
    if folder in _locked_folders.get():
        yield folder.exists()
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    before = None
    try:
        _lock(descriptor, kind, patience_seconds)
        if kind & fcntl.LOCK_EX:
            before = _locked_folders.set(_locked_folders.get() | {folder})
        yield folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat())
    finally:
        if before is not None:
            _locked_folders.reset(before)
        os.close(descriptor)


@contextmanager
def locked_in_time(folder: Path, kind: int = fcntl.LOCK_EX, patience_seconds: float | None = None) -> Iterator[bool]:
    """Hold a lock on a folder like `locked`, but wait for a minute by default.

    StoreBusyError: another process, perhaps a stopped one, held it for longer.
    """
    patience = _PATIENCE_SECONDS if patience_seconds is None else patience_seconds
    with ExitStack() as held:
        try:
            is_there = held.enter_context(locked(folder, kind, patience))
        except BlockingIOError as error:
            raise StoreBusyError(
                f"{folder} has been locked for {patience:g} s by {_find_holder(folder)}; wait for it to finish or stop it."
            ) from error
        yield is_there


def _find_holder(folder: Path) -> str:
    with suppress(OSError):
        found = folder.stat()
        locked_place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for _, _, _, _, process, place, *_ in map(str.split, Path("/proc/locks").read_text(encoding="ascii").splitlines()):
            if place == locked_place:
                return f"process {process}"
    return "another process"


@contextmanager
def alone(folder: Path, work: str, *, parents: bool) -> Iterator[None]:
    """Let one process at a time do this work on the tenant in `folder`; others wait. `parents` makes the folder if it is missing."""
    lock = folder / work
    lock.mkdir(mode=0o700, parents=parents, exist_ok=True)
    with locked(lock):
        yield


def _lock(descriptor: int, kind: int, patience_seconds: float | None) -> None:
    if patience_seconds is None:
        fcntl.flock(descriptor, kind)
        return
    latest = time.monotonic() + patience_seconds
    pause = _PAUSE_SECONDS / 20
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > latest:
                raise
        time.sleep(pause)
        pause = min(pause * 2, _PAUSE_SECONDS)
