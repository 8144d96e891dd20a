"""What commands share: how they print an answer, and the options that several have."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from memory_assets.cli.output import print_answer, say

if TYPE_CHECKING:
    from datetime import datetime

    from memory_assets.operations.answers import Answer
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

Command = Callable[..., Any]
TENANT = "memory_assets.tenant"
"""Where a command's context keeps the `--tenant` that stands before the command."""
_CREATE = "memory_assets.create"
"""Where a command's context keeps `--create`."""


def answering(
    *text_options: str, tenant_option: Callable[[Command], Command] | None = None
) -> "Callable[[Callable[..., Answer | None]], Command]":
    """Make a command of a function that takes `tenant` and its options and returns an answer, or None if it printed by itself.

    The command has `--json` and `--tenant`, prints the answer, and exits with 1 if the answer is a failure. `--timezone` and the
    options named in `text_options` go to the answer's text form, not to the function.
    """

    def decorate(function: "Callable[..., Answer | None]") -> Command:
        @(tenant_option or existing_tenant_option)
        @json_option
        @wraps(function)
        def run(*, tenant: "Tenant", as_json: bool, timezone: str | None = None, **options: Any) -> None:
            shown = {name: options.pop(name) for name in text_options}
            if (answer := function(tenant=tenant, **options)) is None:
                return
            print_answer(answer, tenant, timezone, as_json=as_json, **shown)
            if answer.is_failure:
                raise click.exceptions.Exit(1)

        return run

    return decorate


def common_options(function: Command) -> Command:
    """Add `--json` (parameter `as_json`) and `--tenant` (parameter `tenant`) to a command that prints by itself."""
    return existing_tenant_option(json_option(function))


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def existing_tenant_option(function: Command) -> Command:
    """Add `--tenant` (parameter `tenant`) to a command; it exists, unless nobody chose it and it is the default."""
    return click.option("--tenant", callback=_named, metavar="NAME", help="Whose memory; default: MEMORY_TENANT, else main.")(
        function
    )


def new_tenant_option(function: Command) -> Command:
    """Add `--tenant` (parameter `tenant`) to a command that makes the tenant."""
    return click.option(
        "--tenant",
        callback=lambda _context, _parameter, name: _open(name),
        metavar="NAME",
        help="Who gets it: a tenant that is new or empty; default: MEMORY_TENANT, else main.",
    )(function)


creating_option = click.option(
    "--create",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, is_wanted: context.meta.update({_CREATE: is_wanted}),
    help="Make the tenant if there is none.",
)
"""Lets a command that writes begin a tenant that does not exist yet."""


max_tokens_option = click.option(
    "--max-tokens", type=click.IntRange(min=20), metavar="N", help="Shorten the text so that a model reads at most N tokens."
)
timezone_option = click.option(
    "--timezone", metavar="ZONE", help="Show times in it, such as Europe/Berlin; default: POND_TIMEZONE."
)


def here_option(function: Command) -> Command:
    """Add `--here` (parameter `here`, the `Project` of the working directory, or None) to a command that lists memories."""
    return click.option(
        "--here", is_flag=True, callback=_at_hand, help="Only of this directory's project, of none, or about the user."
    )(function)


def chosen_tenant(name: str | None) -> str | None:
    """The name given with `--tenant`, after the command or before it."""
    return click.get_current_context().meta.get(TENANT) if name is None else name


def say_time(text: str | None, name: str) -> "datetime | None":
    """A time that somebody typed; if it is not in the ISO form, stderr says how it was read."""
    from memory_assets.operations.given import parse_time

    moment = parse_time(text, name)
    if moment is not None and text is not None and not text[:4].isdigit():
        say(f"memory: {name} {text} is read as {moment:%-d %B %Y, %H:%M} UTC.", err=True)
    return moment


def _at_hand(_context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> "Project | None":
    from memory_assets.sources.projects import project_at_hand

    return project_at_hand() if is_wanted else None


def _named(context: click.Context, _parameter: click.Parameter, name: str | None) -> "Tenant":
    from memory_assets.settings import Settings

    tenant = _open(name)
    is_chosen = chosen_tenant(name) is not None or tenant.name != Settings.model_fields["tenant"].default
    if is_chosen and not context.meta.get(_CREATE):
        tenant.must_exist()
    return tenant


def _open(name: str | None) -> "Tenant":
    from memory_assets.settings import load_settings
    from memory_assets.tenants import Tenant

    return Tenant(load_settings(), chosen_tenant(name))
