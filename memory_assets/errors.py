"""Errors shown to users: each message is one sentence that says what is wrong and how to mend it."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

MAKE_ROOM = "make room on it"
UPGRADE = "upgrade memory_assets, or start again what began before an upgrade (`memory up`, a service, a session)"
MENDS = {
    errno.ENOSPC: MAKE_ROOM,
    errno.EDQUOT: MAKE_ROOM,
    errno.EFBIG: "raise `ulimit -f`, or use a disk that takes larger files",
    errno.EIO: "check the disk",
    errno.EROFS: "it can only be read, so mount it for writing",
    errno.EACCES: "give yourself read and write access to it",
    errno.EPERM: "give yourself read and write access to it",
    errno.EEXIST: "name another folder, or move away what is in its place",
    errno.ENOTDIR: "name another folder, or move away what is in its place",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EMFILE: "close other programs, or raise `ulimit -n`",
    errno.ENFILE: "close other programs",
}
"""Error of the disk or of the machine, or of a path at which nothing can be made -> what a person can do about it."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_NO_MEMORY = ("failed to map segment", "bad_alloc", "Cannot allocate memory", "error return without exception set")
"""Parts of messages of the loader and libraries when RAM is exhausted."""


class MemoryAssetsError(Exception):
    """Base of every error whose message is shown to the user without a traceback."""


class InvalidInputError(MemoryAssetsError):
    """An argument or a file is invalid; the message names the field and the mend."""


class NotFoundError(MemoryAssetsError):
    """The named memory, tenant or file does not exist."""


class ConflictError(MemoryAssetsError):
    """The request contradicts existing data; nothing was changed."""


class ChangedMeanwhileError(ConflictError):
    """Another writer changed the memory after it was read; nothing was changed."""


class StoreError(MemoryAssetsError):
    """A store cannot be opened, read or written. Except in an `UnansweredError`, nothing was written."""


class DamagedError(StoreError):
    """Files of a store are missing or damaged."""


class DeletedError(StoreError):
    """The tenant was deleted or recreated meanwhile."""


class NewerStoreError(StoreError):
    """A newer release wrote the store: this program is older, or was started before an upgrade."""


class StoreBusyError(StoreError):
    """Another process kept the store's lock for longer than the timeout."""


class UnansweredError(StoreError):
    """A store stopped answering: what was to be written may be written."""


class SettingsError(MemoryAssetsError):
    """A setting's value is invalid; the message names the setting and where it is set."""


class NoSettingsFileError(SettingsError, InvalidInputError):
    """There is no file at the path of the settings."""


def is_program_missing(error: BaseException) -> bool:
    """Whether an error arose because the program's files were replaced or removed while it runs."""
    is_ours = isinstance(error, ImportError) and (error.name or "").startswith("memory_assets")
    return not isinstance(error, MemoryAssetsError) and (is_ours or _stamp_program() != _LOADED)


def _stamp_program() -> tuple[int, int] | None:
    """Return modification time and size of this file, which an installation writes anew; None if it is gone."""
    try:
        found = Path(__file__).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


_LOADED = _stamp_program()


def format_trace(error: BaseException) -> str:
    """Return the traceback of an error and of its causes, for a log.

    Messages of foreign errors are left out: they may quote a memory, and a log outlives the memory's deletion.
    """
    import traceback

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    frames = "".join(traceback.format_tb(error.__traceback__))
    before = f"{format_trace(cause)}\n" if cause else ""
    return f"{before}{frames}{safe_message(error)}"


def first_line(error: BaseException) -> str:
    """Return the first line of a library's error, at most 300 characters, without positions in Rust sources."""
    found = re.sub(r",? /\S+\.rs:\d+:\d+", "", str(error).strip())
    return found.splitlines()[0][:300] if found else type(error).__name__


def first_fault(error: "ValidationError", whole: str = "it") -> str:
    """Return place and message of pydantic's first complaint; `whole` stands for an empty place."""
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def safe_message(error: BaseException) -> str:
    """Return the message of one of this project's errors, but only the type of a foreign one."""
    return str(error) if isinstance(error, MemoryAssetsError) else type(error).__name__


def describe_lack(error: BaseException) -> str | None:
    """Return what the machine lacks or refuses, and the mend, as a sentence; None if the error has another cause."""
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
        return "There is not enough memory for this; close other programs or raise `ulimit -v`."
    if not isinstance(error, OSError) or error.errno not in MENDS:
        return None
    lacks_files = error.errno in (errno.EMFILE, errno.ENFILE)
    unnamed = "No more files can be opened" if lacks_files else "The disk does not take what is to be written"
    what = f"{error.filename} cannot be used" if error.filename else unnamed
    return f"{what} ({error.strerror}); {MENDS[error.errno]}, and run the command again."


@contextmanager
def forgo_on_full_disk() -> Iterator[None]:
    """Do without what a full or read-only disk does not take: a record of what is told is worth less than telling it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
