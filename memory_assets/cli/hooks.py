"""What the commands that an assistant's host calls by itself have in common."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_assets.errors import trace

_MOST_INPUT = 1 << 20
_MOST_LOG = 1 << 16
"""Bytes after which the log of hooks begins anew."""


def hook_input() -> str:
    """The JSON that the host gives on standard input; empty on a terminal."""
    return "" if sys.stdin.isatty() else sys.stdin.read(_MOST_INPUT)


@contextmanager
def never_in_the_way(data_dir: Path) -> Iterator[None]:
    """Let nothing that fails here be seen by the host: it goes to `hooks.log` in the data folder, if that exists.

    Where it failed and with what kind of error, not its message: that may hold a text, which a log would keep after its deletion.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, a session begins without it
        log = data_dir / "hooks.log"
        with suppress(OSError):
            if data_dir.is_dir():
                mode = "w" if log.exists() and log.stat().st_size > _MOST_LOG else "a"
                with log.open(mode, encoding="utf-8", errors="backslashreplace") as file:
                    file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')}\n{trace(error)}\n\n")
