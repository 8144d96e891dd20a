"""How many memories lie in Claude Code's silos that were not curated yet: seed 002's queue, counted by looking, not by reading."""

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_INDEX = "MEMORY.md"
_HEAD_BYTES = 1_024
_RECOGNISED = re.compile(
    rb"\A\s*---[ \t]*\r?\n(?:.*\n)*?[ \t]*[\"']?type[\"']?[ \t]*:[ \t]*[\"']?(?:user|feedback|project|reference)\b"
)
"""How a file begins that `learn` recognises: frontmatter with one of the four types."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Un-ingested memories, and the silos that they lie in."""

    memories: int = 0
    silos: int = 0

    def __str__(self) -> str:
        memories = "memory" if self.memories == 1 else "memories"
        return f"{self.memories:,} un-ingested {memories} across {self.silos:,} silo{'' if self.silos == 1 else 's'}"


def count_waiting(projects: Path, tenant_folder: Path) -> Waiting:
    """What waits in the silos below Claude Code's folder of projects; what cannot be looked into counts as nothing.

    Feedback that was rejected, and says still what it said then, stays where it is and waits for nothing.
    """
    rejected = _rejected(tenant_folder / "learn" / "proposals.json")
    counts = [_recognised(os.path.join(entry.path, "memory"), rejected) for entry in _entries(str(projects))]  # noqa: PTH118 - a third of the time
    return Waiting(sum(counts), sum(count > 0 for count in counts))


def _rejected(decisions: Path) -> dict[str, str]:
    """The silo files of rejected proposals, by path, with the digest of each as it was rejected."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        if b'"REJECTED"' in (data := decisions.read_bytes()):
            proposals = json.loads(data)["proposals"]
            return {
                each["path"]: each["digest"]
                for proposal in proposals
                if proposal["status"] == "REJECTED"
                for each in proposal["evidence"]
                if each["origin"] == "silo"
            }
    return {}


def _recognised(folder: str, rejected: dict[str, str]) -> int:
    return sum(
        entry.name.endswith(".md")
        and entry.name != _INDEX
        and not entry.name.startswith(".")
        and entry.is_file(follow_symlinks=False)
        and _is_memory(entry.path)
        and not (entry.path in rejected and _digest(entry.path) == rejected[entry.path])
        for entry in _entries(folder)
    )


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def _is_memory(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return bool(_RECOGNISED.match(file.read(_HEAD_BYTES)))
    except OSError:
        return False


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except OSError:
        return []
