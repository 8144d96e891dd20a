"""The few steps by which the curator changes a disk: each is one that a kill comes before or after, never half.

Everything that apply and undo change goes through here, so that a test can walk every point between two of them. A new file is
written beside its place under a hidden name, which no reader takes for a memory, and then renamed into place.
"""

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from memory_assets.stores.files import sync_folder

_PREFIX = ".memory-learn"


def hidden(path: Path, role: str) -> Path:
    """Return the name under which a file lies beside its place for a moment: short, hidden, the same at every run."""
    return path.with_name(f"{_PREFIX}-{role}-{blake2b(path.name.encode('utf-8', 'surrogateescape'), digest_size=8).hexdigest()}")


def put(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file by `content`, or make it with `mode`, in one step that lasts; an old file's permissions stay."""
    _put(path, content, mode)
    sync(path.parent)


def put_all(contents: Mapping[Path, bytes]) -> None:
    """Replace or make files as `put` does; all of them last when it returns."""
    for path, content in contents.items():
        _put(path, content, 0o600)
    for folder in sorted({path.parent for path in contents}):
        sync(folder)


def _put(path: Path, content: bytes, mode: int) -> None:
    make_folders(path.parent)
    temporary = hidden(path, "new")
    write(temporary, content, path.stat().st_mode & 0o7777 if path.exists() else mode)
    rename(temporary, path)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone."""
    if not folder.is_dir():
        make_folders(folder.parent)
        make_folder(folder)
        sync(folder.parent)


def remove(path: Path) -> None:
    """Delete a file for good, if it is there."""
    if os.path.lexists(path):
        unlink(path)
        sync(path.parent)


def write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that nobody reads yet, to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def rename(path: Path, target: Path) -> None:
    """Give a file another name in its folder; what had that name is replaced."""
    path.rename(target)


def unlink(path: Path) -> None:
    """Delete a name."""
    path.unlink()


def make_folder(folder: Path) -> None:
    """Make one folder for its owner alone."""
    folder.mkdir(mode=0o700)


def set_time(path: Path, mtime_ns: int) -> None:
    """Give a file the time that it had."""
    os.utime(path, ns=(mtime_ns, mtime_ns))


def sync(folder: Path) -> None:
    """Make what was renamed, made or deleted in a folder last."""
    sync_folder(folder)
