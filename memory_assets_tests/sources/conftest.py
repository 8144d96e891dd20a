"""Fixtures of the source tests: write a silo, read the items of a scan."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_assets.models import FileStamp, Refusal, Scan, SourceItem
from memory_assets.sources import claude_silos

SLUG = "-home-mira-src-app"
CWD = "/home/mira/src/app"
PLAIN = "---\nname: {name}\ndescription: about {name}\ntype: user\n---\n\nBody of {name}.\n"

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file below `tmp_path / "root"`."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def items_of(scan: Scan) -> dict[str, SourceItem]:
    return {item.key: item for file in scan.changed for item in file.items}


def refusals_of(scan: Scan) -> list[Refusal]:
    return [refusal for file in scan.changed for refusal in file.refusals]


def stamps_of(scan: Scan) -> dict[str, FileStamp]:
    return {file.path: file.stamp for file in scan.changed}


def one(write: Write, tmp_path: Path, content: str | bytes, name: str = "note.md") -> SourceItem:
    """Write a silo with one file and return its only item."""
    write(f"{SLUG}/memory/{name}", content)
    result = claude_silos.scan(tmp_path / "root", {})
    assert refusals_of(result) == []
    (item,) = items_of(result).values()
    return item


def line(cwd: object) -> str:
    """Return a line of a transcript."""
    return json.dumps({"type": "user", "cwd": cwd, "sessionId": "s"}) + "\n"
