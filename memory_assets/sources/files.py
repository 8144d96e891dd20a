"""Safe reading of files that other programs own: bounded, non-blocking, and never outside the given folder."""

import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memory_assets.errors import MemoryAssetsError
from memory_assets.models import FileStamp, Refusal, Source

MAX_BYTES = 1 << 20
"""Largest Markdown file that is read. A memory is a note of a few kilobytes."""

UNREAD_SIZE = -1
"""Size in the stamp of a file that could not be opened. It equals no real stamp, so every run retries."""

READ_SECONDS = 20.0
_HEAD_BYTES = 65_536
_MAX_OWN_BYTES = 64 << 20
_CHUNK_BYTES = 65_536
_BLOCK_BYTES, _TAIL_FACTOR = 1 << 20, 8
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_WIDE_BOMS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_MAX_NS = (1 << 63) - 1
"""Limit of a stamp's time, 64 bits; a file system may hold more."""
_REPLACEMENT = "\ufffd"
_NON_ASCII = re.compile(r"[^\x00-\x7f\ufffd]+")
_CHARACTERS_PER_FAULT = 20
"""A text may hold one undecodable byte, and one more for every so many characters."""
_FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class RefusedFileError(MemoryAssetsError):
    """A file, or a part of one (a field, line or JSON path), cannot be read into memories.

    `reason` and `mend`, which is empty if nothing needs doing, are clauses without a full stop. `transient` means that the cause lies
    outside the file's content, so that an unchanged stamp does not mean an unchanged result.
    """

    def __init__(self, reason: str, mend: str, location: str = "", *, transient: bool = False) -> None:
        super().__init__("; ".join(filter(None, (reason, mend))))
        self.reason = reason
        self.mend = mend
        self.location = location
        self.transient = transient

    def refusal(self, source: Source, path: str, key: str | None = None) -> Refusal:
        """Return this error as a record about `path`, or about the item `key` in it."""
        return Refusal(source, path, self.reason, self.mend, self.location, key)


def read_source_file(path: Path, root: Path | None, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file. Refuse a file above `max_bytes` unread.

    A symbolic link may not leave `root`; if `root` is None, it may lead anywhere.
    """
    with open_regular(path, root) as descriptor:
        size = os.fstat(descriptor).st_size
        data = _read_at_most(descriptor, max_bytes + 1) if size <= max_bytes else b""
    if size > max_bytes or len(data) > max_bytes:
        raise RefusedFileError(
            f"the file is too large: {max(size, len(data)):,} bytes, at most {max_bytes:,} are read",
            "split it into smaller files or move it out of this folder",
        )
    if b"\x00" in data and wide_encoding(data) is None:
        raise RefusedFileError(
            f"the file holds a NUL byte (at offset {data.index(0):,}), so it is not text",
            "save it as UTF-8 text or move it out of this folder",
        )
    return data


def read_head(path: Path, root: Path | None, max_bytes: int) -> bytes:
    """Return the first bytes of a regular file of any size, up to `max_bytes`."""
    with open_regular(path, root) as descriptor:
        return _read_at_most(descriptor, max_bytes)


def last_lines(path: Path, root: Path | None, max_bytes: int, is_wanted: Callable[[bytes], bool]) -> list[bytes]:
    """Return the last wanted lines of a regular file of any size, up to `max_bytes` in all. A line that alone is longer is passed over.

    The file is read from its end, at most eight times `max_bytes`; the first line may be cut.
    """
    lines: list[bytes] = []
    room, rest = max_bytes, b""
    deadline = time.monotonic() + READ_SECONDS
    with open_regular(path, root) as descriptor:
        end = os.fstat(descriptor).st_size
        floor = max(0, end - _TAIL_FACTOR * max_bytes)
        while end > floor:
            begin = max(floor, end - _BLOCK_BYTES)
            os.lseek(descriptor, begin, os.SEEK_SET)
            rest, *whole = (_read_at_most(descriptor, end - begin, deadline) + rest).split(b"\n")
            end = begin
            for line in reversed(whole if end > floor else [rest, *whole]):
                if len(line) <= max_bytes and is_wanted(line):
                    room -= len(line)
                    if room < 0:
                        return lines[::-1]
                    lines.append(line)
            rest = rest[: max_bytes + 1]  # still too long when its beginning is read
    return lines[::-1]


def read_own_file(path: Path) -> bytes:
    """Return the content of a small file of our own; OSError if it is not a regular file, so that nothing waits for a named pipe."""
    try:
        return read_head(path, None, _MAX_OWN_BYTES)
    except RefusedFileError as error:
        raise OSError(error.reason) from error


def is_link(path: Path | str) -> bool:
    """Whether a path is a symbolic link. False below a folder that may not be entered, where `Path.is_symlink` raises."""
    return os.path.islink(path)  # noqa: PTH114


def json_objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects on lines. Lines that are not JSON, such as cut ones, are skipped."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            if isinstance(entry := json.loads(line), dict):
                yield entry


def head_objects(transcript: Path, root: Path, marker: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects with `marker` from a transcript's first 64 KiB; none if it cannot be read."""
    with suppress(FileNotFoundError, RefusedFileError):
        yield from json_objects(line for line in read_head(transcript, root, _HEAD_BYTES).split(b"\n") if marker in line)


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def decode(data: bytes, *, allow_controls: bool = False) -> tuple[str, str]:
    r"""Decode a file's content to text with `\n` line ends; also return a note if the text differs from the bytes.

    The encoding is that of the byte order mark, else UTF-8. Invalid bytes become U+FFFD; if they outnumber the UTF-8 characters
    beyond ASCII, the text is read as Windows-1252. With `allow_controls`, the caller's parser must reject control characters.
    """
    note = ""
    try:
        text = data.decode(wide_encoding(data) or "utf-8-sig")
    except UnicodeDecodeError as error:
        if wide := wide_encoding(data):
            raise RefusedFileError(
                f"the file begins as {wide.upper()} but is not valid {wide.upper()}", "save it as UTF-8"
            ) from None
        text, note = _decode_damaged(data, error.start)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not allow_controls and (fault := text_fault(text)):
        raise RefusedFileError(fault, "remove the character")
    return text, note


def _decode_damaged(data: bytes, first: int) -> tuple[str, str]:
    """Decode bytes whose first invalid UTF-8 byte is at offset `first`; return the text and a note."""
    text = data.decode("utf-8-sig", "replace")
    faults = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    if faults > sum(map(len, _NON_ASCII.findall(text))):
        with suppress(UnicodeDecodeError):
            return data.decode("cp1252"), "read as Windows-1252, because it is not valid UTF-8"
    if faults > 1 + len(text) // _CHARACTERS_PER_FAULT:
        raise RefusedFileError(f"the file is neither UTF-8 nor Windows-1252 text (byte {first:,})", "save it as UTF-8")
    line = data.count(b"\n", 0, first) + 1
    return text, f"{faults} {'byte that is' if faults == 1 else 'bytes that are'} not UTF-8 replaced, the first in line {line}"


def wide_encoding(data: bytes) -> str | None:
    """Return the encoding that a UTF-16 or UTF-32 byte order mark announces; None without one."""
    return next((encoding for bom, encoding in _WIDE_BOMS if data.startswith(bom)), None)


def text_fault(text: str) -> str | None:
    """Return a clause that names the first control character or lone surrogate and its line; None if there is none."""
    if found := _CONTROL_CHARACTER.search(text):
        line = text.count("\n", 0, found.start()) + 1
        return f"line {line} holds the control character U+{ord(found[0]):04X}"
    return None


def stamp_of(path: str, root: Path) -> FileStamp:
    """Return the stamp of `path`, or of its target if it is a symbolic link that stays inside `root`.

    Call it before opening the file: if the file changes in between, the next run reads it again.
    """
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) and stays_inside(path, root):
        status = os.stat(path)  # noqa: PTH116 - ten thousand of these a tick
    return FileStamp(status.st_size, min(max(status.st_mtime_ns, -_MAX_NS), _MAX_NS), status.st_ino)


def stays_inside(path: str, root: Path) -> bool:
    """Whether `path` exists and, with all symbolic links resolved, lies inside `root`."""
    try:
        return Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(root))
    except OSError:
        return False


def shown_path(path: str) -> str:
    """Return `path` as valid Unicode: bytes that are not UTF-8 become backslash escapes."""
    return path.encode("utf-8", "backslashreplace").decode()


def denied(error: OSError) -> RefusedFileError:
    """Return the refusal of a path that the system does not let this process open or list."""
    return RefusedFileError(
        f"it cannot be read: {os.strerror(error.errno or errno.EIO)}",
        "give the user who runs this read permission",
        transient=True,
    )


@contextmanager
def open_regular(path: Path, root: Path | None = None, *, or_pipe: bool = False) -> Iterator[int]:
    """Open a file without blocking and yield its descriptor. All files of other programs are opened here.

    With `or_pipe`, a named pipe is opened too; that blocks until it has a writer. FileNotFoundError: there is nothing.
    RefusedFileError: it is not a readable regular file, or it is a link that leaves `root`.
    """
    if or_pipe and path.is_fifo():
        with path.open("rb", buffering=0) as pipe:
            yield pipe.fileno()
        return
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        if path.is_symlink():
            raise RefusedFileError("it is a symbolic link to nothing", "fix or remove the link") from None
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RefusedFileError("it is a symbolic link that leads to itself", "fix or remove the link") from None
        raise denied(error) from error
    if root and not Path(real).is_relative_to(os.path.realpath(root)):
        raise RefusedFileError(
            f"it is a symbolic link that leaves {shown_path(str(root))}", "put a copy of the file there instead of the link"
        )
    try:
        _require_regular(os.lstat(real))
        descriptor = os.open(real, _OPEN_FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise denied(error) from error
    try:
        _require_regular(os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        found = _FILE_TYPES.get(stat.S_IFMT(status.st_mode), "something else")
        raise RefusedFileError(f"it is {found}, not a regular file", "move it out of this folder")


def _read_at_most(descriptor: int, limit: int, deadline: float | None = None) -> bytes:
    chunks: list[bytes] = []
    deadline = deadline or time.monotonic() + READ_SECONDS
    try:
        while limit > 0 and (chunk := os.read(descriptor, min(limit, _CHUNK_BYTES))):
            chunks.append(chunk)
            limit -= len(chunk)
            if time.monotonic() > deadline:
                raise RefusedFileError(
                    f"reading it took longer than {READ_SECONDS:g} seconds", "move it to a faster disk", transient=True
                )
    except OSError as error:
        raise denied(error) from error
    return b"".join(chunks)
