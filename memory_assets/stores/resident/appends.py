"""Appends of all processes of a service to one table: committed in batches, and passed to the other processes in files.

A commit costs nearly the same for one row as for many, and LanceDB's writers block each other. So if another process is committing, a
process puts its rows in a file and waits for the lock; the next holder of the lock commits all waiting rows. The rows of each commit
remain for a while in a file named by the commit's version, so that no other process has to read them from the table. An erasure
removes all these files.
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

_KEPT_COMMITS = 256
_MAX_BATCH = 64
"""Most processes whose rows are committed together with one's own."""
_WAITING = "waiting-"
_DONE = "done-"
_BEGUN = "begun"


class Appends:
    """Appends to one table, in a folder that is created with the first."""

    def __init__(self, folder: Path, is_committed: Callable[[Collection[int]], bool]) -> None:
        """`is_committed`, a method of the owner, tells whether the table has rows with these ids."""
        self._folder = folder
        self._is_committed = WeakMethod(is_committed)

    def commit(self, rows: pa.Table, append: Callable[[pa.Table], int]) -> tuple[pa.Table | None, int]:
        """Commit rows with new ids, together with waiting ones, by `append`, which returns the version.

        Returns the committed rows, or None if another process committed them, and the version; 0 if it is unknown.
        """
        try:
            self._folder.parent.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # the tenant was deleted, or the disk is full: the commit reports it
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
        """Return the rows of some commits; None if one of them was no such append, or its file is gone."""
        if len(versions) > _KEPT_COMMITS:
            return None
        try:
            return [_read(self._folder / f"{version}.arrow") for version in versions]
        except (OSError, pa.ArrowInvalid):
            return None

    def _commit(
        self, folder: int, mine: str | None, rows: pa.Table, append: Callable[[pa.Table], int]
    ) -> tuple[pa.Table | None, int]:
        if (self._folder / _BEGUN).exists():  # a process was killed before it marked what it committed
            self._mark_done(
                folder, [each for each in _list_waiting(folder) if (held := self._join([each])) and self._has_committed(held)]
            )
        # An erasure also removes the done mark.
        if mine and (_remove(folder, _DONE + mine) or (not _remove(folder, _WAITING + mine) and self._has_committed(rows))):
            return None, 0
        names = os.listdir(folder)
        abandoned = {each for each in names if each.startswith((_WAITING, _DONE)) and _is_abandoned(folder, each)}
        waiting = [each for each in _list_waiting(folder) if each not in abandoned][:_MAX_BATCH]
        together = self._join(waiting, rows) if waiting else None
        if together is None:
            version = append(rows)
        else:
            os.close(os.open(_BEGUN, os.O_CREAT, 0o600, dir_fd=folder))
            try:
                version, rows = append(together), together
                self._mark_done(folder, waiting)
            except MemoryAssetsError:  # nothing was committed: each process commits its own rows
                _remove(folder, _BEGUN)
                version = append(rows)
        if version:
            with suppress(OSError):  # the commit is done
                _write(folder, f"{version}.arrow", rows).close()
        old = {
            each
            for each in names
            if each.partition(".")[0].isdecimal() and int(each.partition(".")[0]) <= version - _KEPT_COMMITS
        }
        for each in old | abandoned:
            _remove(folder, each)
        return rows, version

    def _join(self, waiting: Sequence[str], *rows: pa.Table) -> pa.Table | None:
        """Return rows with the waiting ones; None if these cannot be read, or not be committed together."""
        try:
            return pa.concat_tables([*rows, *(_read(self._folder / each) for each in waiting)])
        except (OSError, pa.ArrowInvalid):
            return None

    def _mark_done(self, folder: int, waiting: Sequence[str]) -> None:
        for each in waiting:
            with suppress(OSError):
                os.rename(each, _DONE + each.removeprefix(_WAITING), src_dir_fd=folder, dst_dir_fd=folder)
        _remove(folder, _BEGUN)

    def _has_committed(self, rows: pa.Table) -> bool:
        is_committed = self._is_committed()
        assert is_committed
        return is_committed(rows["id"].to_pylist())


def _list_waiting(folder: int) -> list[str]:
    return sorted(each for each in os.listdir(folder) if each.startswith(_WAITING))


def _is_abandoned(folder: int, name: str) -> bool:
    """Return whether the process that wrote this file is gone."""
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


def _read(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _write(folder: int, name: str, rows: pa.Table, *, locked: bool = False) -> BinaryIO:
    """Write a file atomically. OSError if the folder was removed meanwhile."""
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
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
