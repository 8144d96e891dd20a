"""Appends of all processes of a service to one table: committed together, and handed to the other processes in files.

A commit costs nearly the same for one row as for many, and LanceDB's writers stand in each other's way. So a process that finds another one
committing leaves its rows in a file and waits for the lock; whoever holds it next commits all that wait. The rows of each commit stay for a
while in a file that bears its version, so that no other process reads them from the table. An erasure removes all of it.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO
from weakref import WeakMethod

import pyarrow as pa

from memory_assets.errors import MemoryAssetsError

_KEPT = 256
"""Commits whose rows are kept."""
_MOST_WAITING = 64
"""Processes whose rows are committed with one's own."""
_WAITING = "waiting-"
_DONE = "done-"
_BEGUN = "begun"


class Appends:
    """The appends to one table, in a folder that is made with the first."""

    def __init__(self, folder: Path, is_committed: Callable[[Collection[int]], bool]) -> None:
        """`is_committed`, a method of what keeps these appends, tells whether the table has rows of these ids."""
        self._folder = folder
        self._is_committed = WeakMethod(is_committed)

    def commit(self, rows: pa.Table, append: Callable[[pa.Table], int]) -> tuple[pa.Table | None, int]:
        """Commit rows with new ids by `append`, which returns the version, together with those that wait.

        Returns what was committed here, or None if another process did it, and the version; 0 if that is not known.
        """
        try:
            self._folder.parent.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # the tenant was deleted, or the disk takes no more: the commit will say so
            return rows, append(rows)
        mine: tuple[str, BinaryIO] | None = None
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with suppress(OSError):  # without a file these rows are committed alone
                    name = f"{secrets.token_hex(8)}.arrow"
                    mine = name, _write(folder, _WAITING + name, rows, locked=True)
                fcntl.flock(folder, fcntl.LOCK_EX)
            return self._commit(folder, mine and mine[0], rows, append)
        finally:
            if mine:
                mine[1].close()
            os.close(folder)

    def rows_of(self, versions: range) -> list[pa.Table] | None:
        """The rows of some commits; None if one of them was no such append, or is not kept."""
        if len(versions) > _KEPT:
            return None
        try:
            return [_read(self._folder / _file_of(version)) for version in versions]
        except (OSError, pa.ArrowInvalid):
            return None

    def _commit(
        self, folder: int, mine: str | None, rows: pa.Table, append: Callable[[pa.Table], int]
    ) -> tuple[pa.Table | None, int]:
        if (self._folder / _BEGUN).exists():  # by a process that was killed before it said what it committed
            self._mark(folder, [each for each in _waiting(folder) if (held := self._joined([each])) and self._has(held)])
        # An erasure removes what says that it is done.
        if mine and (_remove(folder, _DONE + mine) or (not _remove(folder, _WAITING + mine) and self._has(rows))):
            return None, 0
        names = os.listdir(folder)
        abandoned = {each for each in names if each.startswith((_WAITING, _DONE)) and _is_abandoned(folder, each)}
        waiting = [each for each in _waiting(folder) if each not in abandoned][:_MOST_WAITING]
        together = self._joined(waiting, rows) if waiting else None
        if together is None:
            version = append(rows)
        else:
            os.close(os.open(_BEGUN, os.O_CREAT, 0o600, dir_fd=folder))
            try:
                version, rows = append(together), together
                self._mark(folder, waiting)
            except MemoryAssetsError:  # nothing was committed: each tries alone
                _remove(folder, _BEGUN)
                version = append(rows)
        if version:
            with suppress(OSError):  # the commit is done
                _write(folder, _file_of(version), rows).close()
        old = {each for each in names if each.partition(".")[0].isdecimal() and int(each.partition(".")[0]) <= version - _KEPT}
        for each in old | abandoned:
            _remove(folder, each)
        return rows, version

    def _joined(self, waiting: Sequence[str], *rows: pa.Table) -> pa.Table | None:
        """Rows with those that wait; None if they cannot be read, or committed together."""
        try:
            return pa.concat_tables([*rows, *(_read(self._folder / each) for each in waiting)])
        except (OSError, pa.ArrowInvalid):
            return None

    def _mark(self, folder: int, waiting: Sequence[str]) -> None:
        """Say that rows that waited are committed."""
        for each in waiting:
            with suppress(OSError):
                os.rename(each, _DONE + each.removeprefix(_WAITING), src_dir_fd=folder, dst_dir_fd=folder)
        _remove(folder, _BEGUN)

    def _has(self, rows: pa.Table) -> bool:
        is_committed = self._is_committed()
        assert is_committed
        return is_committed(rows["id"].to_pylist())


def _waiting(folder: int) -> list[str]:
    return sorted(each for each in os.listdir(folder) if each.startswith(_WAITING))


def _is_abandoned(folder: int, name: str) -> bool:
    """Whether the process is gone that left this file."""
    try:
        file = os.open(name, os.O_RDONLY, dir_fd=folder)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def _file_of(version: int) -> str:
    return f"{version}.arrow"


def _read(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _write(folder: int, name: str, rows: pa.Table, *, locked: bool = False) -> BinaryIO:
    """Write a file that appears whole; in a folder that was removed meanwhile none appears, and OSError says so."""
    draft = f"draft-{secrets.token_hex(4)}-{name}"
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows)
    written = open(draft, "wb", buffering=0, opener=partial(os.open, mode=0o600, dir_fd=folder))  # noqa: SIM115 - it stays locked
    if locked:
        fcntl.flock(written, fcntl.LOCK_EX)
    written.write(sink.getvalue())
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    return written


def _remove(folder: int, name: str) -> bool:
    """Remove a file. Returns whether it was there."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
