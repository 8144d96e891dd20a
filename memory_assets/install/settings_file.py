"""Adds one member to a JSON file that is somebody else's, and takes it out again; every other byte stays what it is."""

import json
import re
from pathlib import Path
from typing import Any

from memory_assets.errors import ConflictError
from memory_assets.sources.files import RefusedFileError, read_source_file
from memory_assets.stores.files import replace_file

BACKUP = ".before-memory"
"""Ending of the copy of the file as it was before the member was added."""
_OBJECT = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\{(?P<space>\s*)")


def added_member(path: Path, name: str, value: dict[str, Any]) -> str:
    """What would have to be inserted behind the first brace of `path` to give its object the member; empty if it has that name.

    Raises:
        ConflictError: the file does not hold a JSON object.
        OSError: it cannot be read.
    """
    data = _read(path)
    held, opening = _parsed(path, data), _OBJECT.match(data)
    if name in held:
        return ""
    space = opening["space"].decode() if opening and held else ""
    return f"{space}{json.dumps(name)}: {json.dumps(value)}{',' if held else ''}"


def insert(path: Path, text: str) -> None:
    """Insert `text` behind the first brace of `path`, or of a new file; the file as it was is kept beside it.

    Raises:
        ConflictError: the file does not hold a JSON object.
        OSError: it cannot be written.
    """
    path = path.resolve()
    data = _read(path)
    _parsed(path, data)
    place = data.index(b"{") + 1
    if path.exists():
        replace_file(path.with_name(path.name + BACKUP), data)
    replace_file(path, data[:place] + text.encode() + data[place:])


def can_take_out(path: Path, text: str) -> bool:
    """Whether `text` still stands in `path` as it was inserted."""
    try:
        return bool(text) and read_source_file(path, None).count(text.encode()) == 1
    except (OSError, RefusedFileError):
        return False


def take_out(path: Path, text: str) -> None:
    """Take out of `path` what `insert` put there.

    Raises:
        OSError: it cannot be written.
    """
    path = path.resolve()
    replace_file(path, _read(path).replace(text.encode(), b"", 1))


def _read(path: Path) -> bytes:
    try:
        return read_source_file(path, None)
    except FileNotFoundError:
        return b"{}\n"
    except RefusedFileError as error:
        raise ConflictError(f"{path} cannot be read: {error.reason}; {error.mend}.") from error


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        held = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConflictError(f"{path} is not JSON ({error}); mend it, and run the command again.") from error
    if not isinstance(held, dict):
        raise ConflictError(f"{path} holds no JSON object; mend it, and run the command again.")
    return held
