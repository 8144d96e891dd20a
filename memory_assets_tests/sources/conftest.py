"""What the tests of the sources share: writing a silo, and looking at a scan."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_assets.models import FileStamp, Refusal, Scan, SourceItem

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the root folder `tmp_path / "root"`."""

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
