"""Writing files atomically."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, getrlimit
from typing import BinaryIO

from memory_assets.errors import MAKE_ROOM, MENDS, InvalidInputError

_LONGEST_NAME_BYTES = 200
_IMPOSSIBLE_PATH = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Errors that mean that no file can exist at a path, whatever the permissions or the free space."""
_COMMIT_BYTES = 1 << 20
_LARGEST_FILE_BYTES = 16 << 30
"""Size that a file of a table may have; the largest, of a million vectors, has some two billion bytes."""


def find_size_limit() -> str | None:
    """Return in a sentence why no table is written: files are limited to less than `_LARGEST_FILE_BYTES`; None if they are not."""
    limit = getrlimit(RLIMIT_FSIZE)[0]
    if limit == RLIM_INFINITY or limit >= _LARGEST_FILE_BYTES:
        return None
    return (
        f"Nothing is stored while a file may have {limit} bytes at most (`ulimit -f`), because LanceDB does not notice if it loses the "
        "end of one; start a new shell, or the service, without this limit."
    )


def disk_fault(folder: Path, *, has_tables: bool) -> str | None:
    """Return why nothing can be written to a folder, as a sentence; None if it can. Leaves nothing behind.

    If it `has_tables`, a limit of the size of files counts, too.
    """
    if has_tables and (fault := find_size_limit()):
        return fault
    error = find_disk_error(folder)
    return f"The disk does not take what is to be stored ({error.strerror}); {mend_of(error)}." if error else None


def find_disk_error(folder: Path) -> OSError | None:
    """Return the error of writing a commit to a folder, or to its nearest existing parent; None if writing works."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            os.posix_fallocate(file.fileno(), 0, _COMMIT_BYTES)
    except OSError as error:
        return error
    return None


def mend_of(error: OSError) -> str:
    """Return what a person can do about a disk that cannot be written."""
    return MENDS.get(error.errno or 0, MAKE_ROOM)


def replace_file(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace `path` with `content` in one step, as `replacing` does."""
    with replacing(path, mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a path that a person named: write to a pipe or device directly, replace a file atomically, and follow links.

    Raises InvalidInputError if no file can exist there. After an OSError the old content is unchanged.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise InvalidInputError(f"No file can be written to {path} (there is no folder {target.parent}); name another one.")
        with replacing(target) as file:
            yield file
    except OSError as error:
        if error.errno in _IMPOSSIBLE_PATH:
            raise InvalidInputError(f"No file can be written to {path} ({error.strerror}); name another one.") from None
        raise


def stamp_files(*paths: Path) -> tuple[tuple[int, int, int], ...]:
    """Return a value that differs after every change of the files; empty if none exists."""
    stats = [path.stat() for path in paths if path.exists()]
    return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)


def free_path(path: Path) -> Path:
    """Return `path`, or the first free one of `name-2`, `name-3` and so on."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return next(each for each in chain([path], others) if not os.path.lexists(each))


def clear_remains(path: Path) -> None:
    """Delete the temp files of killed writers of `path`. Running writers hold a lock on theirs."""
    for left in path.parent.glob(f"{escape(_prefix(path))}*.tmp"):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _prefix(path: Path) -> str:
    name = path.name.encode("utf-8", "surrogateescape")
    return f".{path.name if len(name) <= _LONGEST_NAME_BYTES else blake2b(name, digest_size=16).hexdigest()}."


def _create_locked_temporary(path: Path) -> tuple[int, Path]:
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=".tmp")
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, Path(name)
        os.close(descriptor)  # another writer deleted it before it was locked


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` in one step: temp file beside it, fsync, rename, fsync of the folder.

    A reader sees either the old file or the new one. A failure leaves the old file; a kill may also leave a temp file, which the next
    writer deletes. The permissions of the old file are kept; a new file gets `mode`.
    """
    make_folders(path.parent)
    clear_remains(path)
    descriptor, temporary = _create_locked_temporary(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(path.stat().st_mode & 0o7777 if path.exists() else mode)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents for the owner alone, and sync them to disk."""
    if not folder.is_dir():
        make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync to disk what was renamed, created or deleted in a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
