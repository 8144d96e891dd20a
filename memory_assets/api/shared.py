"""Small records in memory that a process shares with the workers forked from it."""

import fcntl
import mmap
import os
from collections.abc import Callable
from hashlib import blake2b
from tempfile import TemporaryFile
from threading import Lock

import numpy as np

_NAME_BYTES = 16
_IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108
"""Folder of files in RAM, for unnamed ones: logind may remove the others when their user logs out. None: the default folder."""


class SharedRecords:
    """Short values by name, in memory only; a new one evicts the least recently used.

    If a process is killed, even during a change, the system releases its lock.
    """

    def __init__(self, count: int, most_bytes: int) -> None:
        """Allocate `count` records of at most `most_bytes` each."""
        layout = np.dtype([("name", f"V{_NAME_BYTES}"), ("used", "u8"), ("size", "u4")])
        self.most_bytes = most_bytes
        self._heads = np.frombuffer(mmap.mmap(-1, count * layout.itemsize), layout)
        self._values = np.frombuffer(mmap.mmap(-1, count * most_bytes), np.uint8).reshape(count, most_bytes)
        self._lock_file = TemporaryFile(dir=_IN_MEMORY)  # noqa: SIM115 - open for the lifetime of this object
        self._threads = Lock()

    def change(self, name: str, change: Callable[[bytes], bytes]) -> bytes:
        """Replace a value with `change(value)`, under a lock of all threads and processes; an empty value removes the record."""
        digest = np.void(blake2b(name.encode(), digest_size=_NAME_BYTES).digest())
        with self._threads:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                return self._change(digest, change)
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)

    def _change(self, digest: np.void, change: Callable[[bytes], bytes]) -> bytes:
        names, used, sizes = (self._heads[field] for field in ("name", "used", "size"))
        places = np.flatnonzero((names == digest) & (sizes > 0))
        place = int(places[0]) if len(places) else int(np.argmin(used))
        before = self._values[place, : sizes[place]].tobytes() if len(places) else b""
        after = change(before)
        if after == before:
            used[place] = used.max() + 1 if after else used[place]
            return after
        if len(after) > self.most_bytes:
            raise ValueError(f"A shared record holds {self.most_bytes} bytes and not {len(after)}.")
        sizes[place] = 0  # first, so that a killed process leaves no half-written value
        self._values[place, : len(after)] = np.frombuffer(after, np.uint8)
        names[place], used[place] = digest, used.max() + 1 if after else 0
        sizes[place] = len(after)
        return after
