"""The cost of reading a file is linear in its size, whatever its content."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_assets.models import Source
from memory_assets.sources.claude_silos import parse_index
from memory_assets.sources.dating import Dating
from memory_assets.sources.files import RefusedFileError
from memory_assets.sources.markdown import memory_item

PIECES = [
    "[[",
    "]]",
    "(",
    "[a](",
    "`",
    "```\n",
    "#",
    "# a\n",
    "- ",
    "> ",
    "1. ",
    "---\n",
    "a: b\n",
    "'",
    "<!--",
    "~",
    " ",
    "\t",
    "\n",
    "x",
]
SLUG = "/nowhere/-a/memory/"


def read(text: str) -> None:
    """Read a text as a memory and as an index."""
    dating = Dating(Path("/nowhere"))
    with suppress(RefusedFileError):
        memory_item(text.encode(), source=Source.CLAUDE_SILO, key="k", path=f"{SLUG}a.md", dating=dating)
    with suppress(RefusedFileError):
        parse_index(text.encode(), prefix="k:", path=f"{SLUG}MEMORY.md", dating=dating, project="", metadata={})


def operations(text: str) -> int:
    """Count the calls of Python and C functions while a text is read."""
    count = 0

    def counting(*_: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counting)
    try:
        read(text)
    finally:
        sys.setprofile(None)
    return count


@settings(max_examples=60)
@given(
    st.sampled_from(["", "---\nname: x\n", "---\ntype: user\n---\n", "text\n"]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join),
)
@example("", "[[```\n> ```\n")
def test_twice_the_text_takes_twice_the_operations(start: str, unit: str) -> None:
    operations(start)
    times = 600 // len(unit)
    assert operations(start + unit * times * 2) <= 2.2 * operations(start + unit * times) + 2_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["[[", "[[a|", "[[a#", "`a\n", "[a](", "x.md ", "- [a](b.md) - ", "   ", "2026-01-"])
def test_a_file_of_half_a_megabyte_of_one_mark_is_read(unit: str) -> None:
    read(unit * (500_000 // len(unit)))
