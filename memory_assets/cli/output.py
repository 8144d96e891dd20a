"""How answers are printed: as one JSON object for programs, as text for people."""

import json
import re
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from memory_assets.display import visible

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_NARROWEST = 40
_MARGIN = re.compile(r"\s+(?:\S+(?: \S+)*  +)?")
"""How a line begins that is indented: with blanks, and perhaps with a word or two that a wider gap sets apart."""


def say(text: str, **style: Any) -> None:
    """Print what others may have written, with control characters escaped; `style` is that of `click.secho`."""
    click.secho(visible(text), **style)


def print_answer(answer: "Answer", tenant: "Tenant", timezone: str | None = None, *, as_json: bool, **told: Any) -> None:
    """Print an operation's answer; `told` goes to its text form."""
    if as_json:
        say(answer.model_dump_json(indent=2))
        return
    from memory_assets.operations.answers import LocalTime

    print_text(answer.text(LocalTime.of(tenant.settings, timezone), **told))


def print_text(text: str) -> None:
    """Print a text; on a terminal, folded to its width, with the lines that begin an entry in bold."""
    if not sys.stdout.isatty():
        say(text)
        return
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for line in text.split("\n"):
        margin = _MARGIN.match(line)
        hanging = " " * len(margin[0]) if margin else "   "
        folded = textwrap.fill(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
        say(folded, bold=bool(line) and not margin)


def say_folded(lead: str, text: str, **style: Any) -> None:
    """Print `lead`, in `style`, and a text beside it; on a terminal the text is folded to the width, its lines below each other."""
    lines = [text]
    if sys.stdout.isatty():
        room = max(_NARROWEST, shutil.get_terminal_size().columns - len(lead))
        lines = textwrap.wrap(visible(text), room, break_long_words=False, break_on_hyphens=False)
    say(lead, nl=False, **style)
    say(f"\n{' ' * len(lead)}".join(lines))


def print_json(value: Any) -> None:
    """Print one JSON object; times in ISO 8601."""
    say(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
