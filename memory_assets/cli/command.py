"""Make commands from operations: shared options, and the printing of answers."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memory_assets import operations
from memory_assets.display import visible

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

Function = TypeVar("Function", bound=Callable[..., Any])
TENANT = "memory_assets.tenant"
"""Key in click's context of the `--tenant` before the command."""
_CREATE = "memory_assets.create"
"""Key in click's context of `--create`."""
_NARROWEST = 40
_LEAD = re.compile(r"\s+(?:\S+(?: \S+)*  +)?|\w+(?: \w+)? {2,}")
"""Start of a line whose rest is indented when folded: blanks, a word or two before a wider gap, or both."""
_COLOURS = {"FAIL": "red", "note": "yellow", "ok": "green"}
"""Colours of the doctor's findings, by the mark at the line's start."""


def chosen_tenant(name: str | None) -> str | None:
    """Return the name given with `--tenant` after or before the command."""
    return click.get_current_context().meta.get(TENANT) if name is None else name


def open_tenant(_context: click.Context, _parameter: click.Parameter, name: str | None) -> "Tenant":
    """Open the tenant of a name, or of the settings; it need not exist."""
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    return Tenant(load_settings(), chosen_tenant(name))


def existing_tenant(context: click.Context, parameter: click.Parameter, name: str | None) -> "Tenant":
    """Open the tenant of a name, or of the settings; raise NotFoundError if it was chosen but does not exist."""
    from memory_assets.settings import Settings

    tenant = open_tenant(context, parameter, name)
    is_chosen = chosen_tenant(name) is not None or tenant.name != Settings.model_fields["tenant"].default
    if is_chosen and not context.meta.get(_CREATE):
        tenant.must_exist()
    return tenant


_TENANT_OPTION = click.Option(
    ["--tenant"], callback=existing_tenant, metavar="NAME", help="Tenant to use; default: MEMORY_TENANT, else main."
)
_JSON_OPTION = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")


def command(
    example: str,
    *text_options: str,
    group: click.Group | None = None,
    name: str | None = None,
    tenant: click.Parameter = _TENANT_OPTION,
    prints: bool = False,
    **attributes: Any,
) -> Callable[[Callable[..., "Answer | None"]], click.Command]:
    """Make a command from a function that takes `tenant` and options and returns an answer, or None if it printed by itself.

    The command has `--json` and `--tenant`, prints the answer, and exits with 1 if the answer is a failure. Its help ends with
    `example`. `text_options`, like `--timezone`, go to the answer's text form instead of the function. A function that `prints` by
    itself takes `as_json`, too. `attributes` are arguments of `click.Command`.
    """

    def decorate(function: Callable[..., "Answer | None"]) -> click.Command:
        @wraps(function)
        def run(*, tenant: "Tenant", as_json: bool, timezone: str | None = None, **options: Any) -> None:
            options = {option: _decode(value) for option, value in options.items()}
            shown = {option: options.pop(option) for option in text_options}
            answer = function(tenant=tenant, **options, **({"as_json": as_json} if prints else {}))
            if answer is None:
                return
            print_answer(answer, tenant, timezone, as_json=as_json, **shown)
            if answer.is_failure:
                raise click.exceptions.Exit(1)

        made = (group or click).command(name, epilog=f"Example: {example}", **attributes)(run)
        made.params += [tenant, _JSON_OPTION]
        return made

    return decorate


def _decode(value: Any) -> Any:
    """Read an argument that the locale could not decode as UTF-8; raise InvalidInputError if it is not."""
    if isinstance(value, tuple):
        return tuple(map(_decode, value))
    if not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value):
        return value
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        from memory_assets.errors import InvalidInputError

        raise InvalidInputError(
            f"The argument {value[:80]!r} is not UTF-8: set the terminal to UTF-8, or type it again."
        ) from None


dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
creating_option = click.option(
    "--create",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, is_wanted: context.meta.update({_CREATE: is_wanted}),
    help="Create the tenant if it does not exist.",
)
"""Option of writing commands that may create the tenant."""
max_tokens_option = click.option("--max-tokens", type=click.IntRange(min=20), metavar="N", help="Shorten the text to N tokens.")
timezone_option = click.option(
    "--timezone", metavar="ZONE", is_eager=True, help="Time zone of times, such as Europe/Berlin; default: POND_TIMEZONE."
)
"""Eager, because `time_option` reads it."""
here_option = click.option(
    "--here",
    is_flag=True,
    callback=lambda _context, _parameter, is_wanted: _current_project() if is_wanted else None,
    help="Only memories of this directory's project, of no project, or about the user.",
)
"""Option whose parameter `here` is the working directory's `Project`, or None."""


def time_option(name: str, **attributes: Any) -> Callable[[Function], Function]:
    """Make an option for a time; stderr says how a time in another form than ISO was read."""

    def read(context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
        if text is None:
            return None
        moment = operations.arguments.parse_time(text, name, context.params.get("timezone"))
        try:
            datetime.fromisoformat(text)
        except ValueError:
            say(f"memory: {name} {text} is read as {moment:%-d %B %Y, %H:%M} UTC.", err=True)
        return moment

    return click.option(name, callback=read, **attributes)


def read_text(given: str) -> str:
    """Return the text of an argument; for `-` read standard input, decoded like a source file."""
    if given != "-":
        return given
    from memory_assets.errors import InvalidInputError
    from memory_assets.sources.files import RefusedFileError, decode

    try:
        text, note = decode(sys.stdin.buffer.read(), allow_controls=True)
    except RefusedFileError as error:
        raise InvalidInputError("The encoding of standard input is unknown: send it as UTF-8.") from error
    if note:
        say(f"Standard input: {note}.", err=True)
    return text


def say(text: str, **style: Any) -> None:
    """Print text with control characters escaped; `style` goes to `click.secho`. A stderr that takes no more ends nothing."""
    with suppress(OSError) if style.get("err") else nullcontext():
        click.secho(visible(text), color=False if os.environ.get("NO_COLOR") else None, **style)


def print_answer(answer: "Answer", tenant: "Tenant", timezone: str | None = None, *, as_json: bool, **shown: Any) -> None:
    """Print an operation's answer; `shown` goes to its text form."""
    if as_json:
        say(answer.model_dump_json(indent=2))
        return
    from memory_assets.operations.answers import LocalTime

    program = "memory " if tenant.name == tenant.settings.tenant else f"memory --tenant {tenant.name} "
    _print_text(answer.text(replace(LocalTime.of(tenant.settings, timezone), program=program), **shown))


def _print_text(text: str) -> None:
    """Print a text; on a terminal, fold it to the width and print first lines of entries in bold."""
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


def _current_project() -> "Project | None":
    from memory_assets.sources.projects import current_project

    return current_project()
