"""Segments of one table in files that all processes of a service map. They can always be rebuilt; an erasure or a deletion removes them.

Writers hold the lock of the folder and publish atomically: a segment by renaming its folder, the list of segments of the newest copy
by replacing one file. A segment never changes.
"""

import fcntl
import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import numpy as np

from memory_assets.errors import StoreError
from memory_assets.stores.feed import Position
from memory_assets.stores.files import replace_file
from memory_assets.stores.locks import locked
from memory_assets.stores.resident.segment import Segment
from memory_assets.stores.resident.snapshot import Snapshot
from memory_assets.stores.resident.words import Stem

_LIST = "copy.json"
_STAMP = "stamp"
_DRAFT = "draft-"
_SEGMENT = "segment-"
_ATTEMPTS = 100
"""How often removing a folder is tried while another process writes to it."""


class Copies:
    """Copies of one table, in a folder that is created with the first."""

    def __init__(self, folder: Path, run: str) -> None:
        """Use copies of this `run` of a service and store; copies of any other are never read."""
        self._folder = folder
        self._run = run
        self._seen_stamp: tuple[int, int] | None = None

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Block other writers and yield a draft folder, which exists before the table is read.

        A later erasure removes the draft with all that was read before. BlockingIOError if another process writes, OSError by the disk.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with locked(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_there:
            if not is_there:
                raise FileNotFoundError(self._folder)
            for left in self._folder.glob(f"{_DRAFT}*"):
                shutil.rmtree(left, ignore_errors=True)
            draft = self._folder / f"{_DRAFT}{secrets.token_hex(8)}"
            draft.mkdir(mode=0o700)
            try:
                yield draft
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def has(self, segment: Segment) -> bool:
        return bool(segment.file) and (self._folder / segment.file).is_dir()

    def save(self, segment: Segment, draft: Path) -> Segment:
        """Return a segment with all its rows, mapped from files; an empty one unchanged."""
        if not len(segment):
            return segment
        part = draft / secrets.token_hex(8)
        part.mkdir(mode=0o700)
        segment.save(part)
        return Segment.open(part.rename(self._folder / f"{_SEGMENT}{part.name}"))

    def publish(self, snapshot: Snapshot) -> None:
        """Publish a snapshot of saved segments to all processes; files that it does not need are removed."""
        segments = [
            {"file": each.file, "gone": np.flatnonzero(~each.current).tolist()} for each in snapshot.segments if each.file
        ]
        position = {"version": snapshot.position.version, "read_at": snapshot.position.read_at.isoformat()}
        listed = {"run": self._run, "column": snapshot.column, "position": position, "segments": segments}
        replace_file(self._folder / _LIST, json.dumps(listed))
        self._seen_stamp = self._stamp()
        kept = {each["file"] for each in segments}
        for left in self._folder.glob(f"{_SEGMENT}*"):
            if left.name not in kept:
                shutil.rmtree(left, ignore_errors=True)

    @property
    def has_unseen(self) -> bool:
        """Whether another process has published a copy."""
        return self._stamp() not in (None, self._seen_stamp)

    def read(self, terms: Stem) -> Snapshot | None:
        """Return the newest snapshot of another process of this run; None if there is none."""
        self._seen_stamp = self._stamp()
        try:
            listed = json.loads((self._folder / _LIST).read_bytes())
            if listed["run"] != self._run:
                return None
            position = Position(listed["position"]["version"], datetime.fromisoformat(listed["position"]["read_at"]))
            return Snapshot(position, listed["column"], tuple(self._open(**each) for each in listed["segments"]), terms)
        except (OSError, ValueError, KeyError):  # another process has just removed or replaced it
            return None

    def _open(self, file: str, gone: Sequence[int]) -> Segment:
        segment = Segment.open(self._folder / file)
        segment.current[list(gone)] = False
        return segment

    def _stamp(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = (self._folder / _LIST).stat()
            return found.st_ino, found.st_mtime_ns
        return None


def keep_copies(folder: Path, stamp: str) -> None:
    """Remove all copies but those made since the tenant has this stamp, which every erasure changes; empty if it was deleted."""
    with suppress(OSError):
        if (folder / _STAMP).read_text() == stamp:
            return
    remove_copies(folder)
    with suppress(OSError):  # writing the copies reports it
        if stamp:
            folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(folder / _STAMP, stamp)


def remove_copies(folder: Path) -> None:
    """Remove all copies. A process that is writing one finds its draft gone and stops."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    raise StoreError(f"{folder} cannot be removed; see who owns it, and remove it.")
