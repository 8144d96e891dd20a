"""Tana Paste: what makes a node with its tag and fields in one call."""

import re

from memory_assets.display import visible

NAME_LENGTH = 100
_MARKS = re.compile(r"::|[#\[\]<>`^|~{}]|\*\*|__|%%|!!|https?:|^\W|^\d+[.)]\s")
"""What Tana Paste takes for more than letters; there is no escape for it."""


def one_line(text: str) -> str:
    """A text as Tana can hold it: without line breaks and control characters."""
    return " ".join(visible(text).split())


def node_name(content: str) -> str:
    """A text as the name of a node: in one line, cut between words at 100 characters."""
    line = one_line(content)
    if len(line) <= NAME_LENGTH:
        return line
    cut = line[: NAME_LENGTH - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[NAME_LENGTH // 2 :] else cut}…"


def is_plain(text: str) -> bool:
    """Whether a text in Tana Paste means itself and nothing else."""
    return bool(text) and not _MARKS.search(text)


def paste(name: str, tag: str, fields: dict[str, list[str]]) -> str:
    """One node with its tag and, by field id, the values; `name` and values are plain or made by the functions below."""
    lines = [f"- {name} #[[^{tag}]]"]
    for field, values in fields.items():
        if len(values) == 1:
            lines.append(f"  - {field}:: {values[0]}")
        elif values:
            lines += [f"  - {field}::", *(f"    - {value}" for value in values)]
    return "\n".join(lines)


def reference(node: str) -> str:
    """A node or an option as a value."""
    return f"[[^{node}]]"


def date(day: str) -> str:
    """A day such as 2026-01-31 as a value."""
    return f"[[date:{day}]]"
