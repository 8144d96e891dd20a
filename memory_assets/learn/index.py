"""The pointers of a silo's `MEMORY.md`, taken out byte by byte: every other byte stays as it is."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from memory_assets.sources.files import RefusedFileError, wide_encoding
from memory_assets.sources.memory_index import Pointer, pointer

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_MARK = b"\xef\xbb\xbf"


def hooks_of(data: bytes) -> dict[str, tuple[str, ...]]:
    """Return the files that an index points to, and what it says of each, line by line.

    Raises:
        RefusedFileError: it is UTF-16 or UTF-32, in which no line is taken out.
    """
    hooks: dict[str, list[str]] = defaultdict(list)
    for _, pointed in _lines(data):
        if pointed:
            hooks[pointed.name] += [pointed.hook] if pointed.hook else []
    return {name: tuple(dict.fromkeys(said)) for name, said in hooks.items()}


def without(data: bytes, names: Collection[str]) -> bytes:
    """Return an index without the lines that point to the files of these names, and otherwise byte for byte the same."""
    kept = (line for line, pointed in _lines(data) if not (pointed and pointed.name in names))
    return (_MARK if data.startswith(_MARK) else b"") + b"".join(kept)


def only(data: bytes, names: Collection[str]) -> bytes:
    """Return the lines of an index that point to the files of these names."""
    return b"".join(line for line, pointed in _lines(data) if pointed and pointed.name in names)


def _lines(data: bytes) -> Iterator[tuple[bytes, Pointer | None]]:
    """Yield each line with its end, without the byte order mark, and what it points to."""
    if wide := wide_encoding(data):
        raise RefusedFileError(f"its silo's MEMORY.md is {wide.upper()}", "save that as UTF-8")
    for found in _LINE.finditer(data.removeprefix(_MARK)):
        line = found[0]
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("cp1252", "replace")
        yield line, pointer(text.rstrip("\r\n"))
