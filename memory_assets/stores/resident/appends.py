"""Appends of all processes of a service to one table: committed together, and handed to the other processes in files.

A commit costs nearly the same for one row as for many, and LanceDB's writers stand in each other's way. So a process that finds another one
committing leaves its rows in a file and waits for the lock; whoever holds it next commits all that wait. The rows of each commit stay for a
while in a file that bears its version, so that no other process reads them from the table. An erasure removes all of it.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from memory_assets.errors import MemoryAssetsError

_KEPT = 256
"""Commits whose rows are kept."""
_MOST_WAITING = 64
"""Processes whose rows are committed with one's own."""
_WAITING = "waiting-"
_DONE = "done-"
_BEGUN = "begun.json"


class Appends:
    """The appends to one table, in a folder that is made with the first."""

    def __init__(self, folder: Path, is_committed: Callable[[Collection[int]], bool], *, of_folder: bool) -> None:
        """`is_committed` tells whether the table has rows of these ids, `of_folder` that the table lies in a folder beside this one."""
        self._folder = folder
        self._is_committed = is_committed
        self._of_folder = of_folder

    def commit(self, rows: pa.Table, append: Callable[[pa.Table], int]) -> tuple[pa.Table | None, int]:
        """Commit rows with new ids by `append`, which returns the version, together with those that wait.

        Returns what was committed here, or None if another process did it, and the version; 0 if that is not known.
        """
        try:
            self._folder.parent.mkdir(mode=0o700, parents=not self._of_folder, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # the tenant was deleted, or the disk takes no more: the commit will say so
            return rows, append(rows)
        waiting = None
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting = _Waiting.leave(folder, rows)
                fcntl.flock(folder, fcntl.LOCK_EX)
            return self._commit(folder, waiting, rows, append)
        finally:
            if waiting:
                waiting.close()
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
        self, folder: int, mine: "_Waiting | None", rows: pa.Table, append: Callable[[pa.Table], int]
    ) -> tuple[pa.Table | None, int]:
        if (self._folder / _BEGUN).exists():
            self._finish(folder)
        names = set(os.listdir(folder))
        if mine:
            for done in (each for each in names if each.startswith(_DONE) and each.endswith(mine.name)):
                _remove(folder, done)
                return None, int(done.split("-")[1])
            if _WAITING + mine.name not in names and self._is_committed(rows["id"].to_pylist()):
                return None, 0  # an erasure removed the file that said so
            _remove(folder, _WAITING + mine.name)
            names.discard(_WAITING + mine.name)
        abandoned = {each for each in names if each.startswith((_WAITING, _DONE)) and _is_abandoned(folder, each)}
        waiting = sorted(each for each in names - abandoned if each.startswith(_WAITING))[:_MOST_WAITING]
        together = self._joined(rows, waiting) if waiting else None
        if together is None:
            version = append(rows)
        else:
            _write_json(folder, _BEGUN, waiting)
            try:
                version, rows = append(together), together
                self._mark(folder, waiting, version)
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

    def _joined(self, rows: pa.Table, waiting: Sequence[str]) -> pa.Table | None:
        """These and the rows that wait; None if they cannot be committed together."""
        try:
            return pa.concat_tables([rows, *(_read(self._folder / each) for each in waiting)])
        except (OSError, pa.ArrowInvalid):
            return None

    def _mark(self, folder: int, waiting: Sequence[str], version: int) -> None:
        for each in waiting:
            with suppress(OSError):
                os.rename(each, f"{_DONE}{version}-{each.removeprefix(_WAITING)}", src_dir_fd=folder, dst_dir_fd=folder)
        _remove(folder, _BEGUN)

    def _finish(self, folder: int) -> None:
        """Mark what a process committed that was killed before it said so."""
        try:
            begun = json.loads((self._folder / _BEGUN).read_bytes())
            done = [each for each in begun if self._is_committed(_read(self._folder / each)["id"].to_pylist())]
        except (OSError, ValueError):
            done = []
        self._mark(folder, done, 0)


class _Waiting:
    """Rows that wait in a file, which is locked as long as the process lives that shall answer for them."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.close = file.close

    @classmethod
    def leave(cls, folder: int, rows: pa.Table) -> "_Waiting | None":
        """Leave rows for whoever commits next; None if there can be no file."""
        name = f"{secrets.token_hex(8)}.arrow"
        try:
            return cls(name, _write(folder, _WAITING + name, rows, locked=True))
        except OSError:
            return None


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


def _write_json(folder: int, name: str, value: Sequence[str]) -> None:
    with open(name, "w", encoding="utf-8", opener=partial(os.open, mode=0o600, dir_fd=folder)) as written:
        json.dump(value, written)


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
