"""Files that are replaced as a whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memory_assets.errors import InvalidInputError

_NO_FILE = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG})
"""Where no file can be, whoever asks and however much room there is."""


def replace_file(path: Path, content: str | bytes) -> None:
    """Put `content` in place of `path` in one step, as `replacing` does."""
    with replacing(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """What is written here goes where a person named: into a pipe or device, else in place of the file, whatever links lead to it.

    Raises:
        InvalidInputError: no file can be there.
        OSError: it cannot be written; what was there stays.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        with replacing(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as error:
        if error.errno in _NO_FILE:
            raise InvalidInputError(f"No file can be written to {path} ({error.strerror}); name another one.") from None
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """What is written here takes the place of `path` in one step: temp file beside it, fsync, rename, fsync of the folder.

    A reader sees the old file or the new one; a failure leaves the old one, and a kill at most a temp file besides. The old
    file's permissions are kept; a new file can be read by its owner alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
