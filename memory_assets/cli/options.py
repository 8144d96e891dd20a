"""What commands share: `--json`, `--tenant`, `--timezone`, `--here`, `--max-tokens`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

_CREATE = "memory_assets.create"
"""Where a command's context keeps `--create`."""


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` (parameter `as_json`) and `--tenant` (parameter `tenant`) to a command."""
    return tenant_option(click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function))


def tenant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--tenant` (parameter `tenant`) to a command; it exists, unless nobody chose it and it is the default."""
    return click.option("--tenant", callback=_named, metavar="NAME", help="Whose memory; default: MEMORY_TENANT, else main.")(
        function
    )


def creating_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`common_options`, and `--create` for a tenant that does not exist yet, on a command that writes."""
    return click.option(
        "--create",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_may_create,
        help="Make the tenant if there is none.",
    )(common_options(function))


def here_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--here` (parameter `here`, the `Project` of the working directory, or None) to a command that lists memories."""
    return click.option(
        "--here",
        is_flag=True,
        callback=_at_hand,
        help="Only of this directory's project, of none, or about the user.",
    )(function)


def max_tokens_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--max-tokens` (parameter `max_tokens`) to a command whose text can be shortened."""
    return click.option(
        "--max-tokens", type=click.IntRange(min=20), metavar="N", help="Shorten the text so that a model reads at most N tokens."
    )(function)


def timezone_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--timezone` (parameter `timezone`) to a command that shows times."""
    return click.option("--timezone", metavar="ZONE", help="Show times in it, such as Europe/Berlin; default: POND_TIMEZONE.")(
        function
    )


def _at_hand(_context: click.Context, _parameter: click.Parameter, given: bool) -> "Project | None":
    from memory_assets.sources.projects import project_at_hand

    return project_at_hand() if given else None


def _may_create(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    context.meta[_CREATE] = given


def _named(context: click.Context, _parameter: click.Parameter, name: str | None) -> "Tenant":
    from memory_assets.settings import Settings, load_settings
    from memory_assets.tenants import Tenant

    tenant = Tenant(load_settings(), name)
    chosen = name is not None or tenant.name != Settings.model_fields["tenant"].default
    if chosen and not context.meta.get(_CREATE):
        tenant.must_exist()
    return tenant
