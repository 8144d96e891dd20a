"""How answers are printed: as one JSON object for programs, as text for people."""

import json
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_NARROWEST = 40


def print_answer(answer: "Answer", tenant: "Tenant", timezone: str | None = None, *, as_json: bool, **told: Any) -> None:
    """Print an operation's answer; `told` goes to its text form."""
    if as_json:
        click.echo(answer.model_dump_json(indent=2))
        return
    from memory_assets.operations.answers import LocalTime

    print_text(answer.text(LocalTime.of(tenant.settings, timezone), **told))


def print_text(text: str) -> None:
    """Print a text as it is; on a terminal, folded to its width, with the lines that begin an entry in bold."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for line in text.split("\n"):
        margin = line[: len(line) - len(line.lstrip())]
        folded = textwrap.fill(line, width, subsequent_indent=margin or "   ", break_long_words=False, break_on_hyphens=False)
        click.echo(folded if margin or not line else click.style(folded, bold=True))


def print_json(value: Any) -> None:
    """Print one JSON object; times in ISO 8601."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")
