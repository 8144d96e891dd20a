"""How answers are printed: as one JSON object for programs, as text for people."""

import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from memory_assets.display import visible

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_NARROWEST = 40
_LEAD = re.compile(r"\s+(?:\S+(?: \S+)*  +)?|\w+(?: \w+)? {2,}")
"""How a line begins whose rest stands beside it: with blanks, with a word or two that a wider gap sets apart, or with both."""
_COLOURS = {"FAIL": "red", "note": "yellow", "ok": "green"}
"""Of what was looked at, by the mark that its line begins with."""


def say(text: str, **style: Any) -> None:
    """Print what others may have written, with control characters escaped; `style` is that of `click.secho`."""
    click.secho(visible(text), **style)


def print_answer(answer: "Answer", tenant: "Tenant", timezone: str | None = None, *, as_json: bool, **shown: Any) -> None:
    """Print an operation's answer; `shown` goes to its text form."""
    if as_json:
        say(answer.model_dump_json(indent=2))
        return
    from memory_assets.operations.answers import LocalTime

    print_text(answer.text(LocalTime.of(tenant.settings, timezone), **shown))


def print_text(text: str) -> None:
    """Print a text; on a terminal, folded to its width, with the lines that begin an entry in bold."""
    if not sys.stdout.isatty():
        say(text)
        return
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for line in text.split("\n"):
        found = _LEAD.match(line)
        lead = found[0] if found else ""
        hanging = " " * (len(lead) or 3)
        folded = textwrap.fill(visible(line), width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
        say(folded[: len(lead)], nl=False, fg=_COLOURS.get(lead.strip()))
        say(folded[len(lead) :], bold=bool(line) and not lead)
