"""The brief: what a session's beginning may be told, chosen and measured beforehand, in one small file a tenant.

A hook reads this file and opens no store. `memory_assets.learn.briefing` writes it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

NAME = "brief.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class BriefLine:
    """A memory as a session's beginning would tell it."""

    kind: str
    project: str
    """Folder or slug that it belongs to; empty for none."""
    text: str
    """The line, framed."""
    tokens: int
    """Of the line with its end."""
    id: int | None = None
    """Of the memory; None for an entry of the canonical homes."""


@dataclass(frozen=True, slots=True)
class Brief:
    """The lines, the most telling first, and how much there is beside them."""

    memories: int
    """Active ones of the tenant."""
    lines: tuple[BriefLine, ...] = ()


def read_brief(folder: Path) -> Brief | None:
    """The brief of the tenant in `folder`; None where there is none that can be read."""
    try:
        held = json.loads((folder / NAME).read_bytes())
        if held["format"] != FORMAT:
            return None
        return Brief(int(held["memories"]), tuple(BriefLine(**each) for each in held["lines"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
