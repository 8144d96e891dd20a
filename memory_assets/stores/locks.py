"""Locks on a table's folder: a commit holds a shared one, a deletion or a change of embedder an exclusive one.

`flock` only needs the folder opened for reading, so a kill leaves nothing behind.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from memory_assets.errors import StoreError

if TYPE_CHECKING:
    from lancedb.table import Table

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Tables that this context has locked exclusively, in which it may commit."""
_uris: "WeakKeyDictionary[Table, str]" = WeakKeyDictionary()
"""Asking a table for its URI takes half a millisecond."""


@contextmanager
def shared_lock(table: "Table") -> Iterator[None]:
    """Let nobody delete a table meanwhile; Lance would write the rest of a commit into a new folder of the old name.

    A table in object storage is not guarded.
    """
    uri = _uris.get(table) or _uris.setdefault(table, cast("Any", table).uri)
    if "://" in uri or Path(uri) in _held.get():
        yield
        return
    with locked(Path(uri), fcntl.LOCK_SH) as there:
        if not there:
            raise StoreError(f"The table {uri} has been deleted; nothing was written.")
        yield


@contextmanager
def exclusive_lock(database: Path) -> Iterator[None]:
    """Wait until no commit to the tables of a folder is under way, and let nobody else begin one meanwhile."""
    with ExitStack() as locks:
        tables = sorted(database.glob("*.lance"))
        for table in tables:
            if not locks.enter_context(locked(table)):
                raise StoreError(f"The table {table} is being deleted already.")
        before = _held.set(_held.get() | set(tables))
        try:
            yield
        finally:
            _held.reset(before)


@contextmanager
def locked(folder: Path, kind: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Hold a lock on a folder; False if the folder is gone by then."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(held, kind)
        yield folder.exists() and os.path.samestat(os.fstat(held), folder.stat())
    finally:
        os.close(held)
