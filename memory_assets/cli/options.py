"""What commands share: `--json`, `--tenant`, `--timezone`, and how times are written on the command line."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from memory_assets.errors import InvalidInputError
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


def timezone_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--timezone` (parameter `timezone`) to a command that shows times."""
    return click.option("--timezone", metavar="ZONE", help="Show times in it, such as Europe/Berlin; default: POND_TIMEZONE.")(
        function
    )


def _may_create(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    context.meta[_CREATE] = given


def _named(context: click.Context, _parameter: click.Parameter, name: str | None) -> Tenant:
    from memory_assets.settings import Settings, load_settings

    tenant = Tenant(load_settings(), name)
    chosen = name is not None or tenant.name != Settings.model_fields["tenant"].default
    if chosen and not context.meta.get(_CREATE):
        tenant.must_exist()
    return tenant


def parse_time(text: str | None, option: str) -> datetime | None:
    """A time that somebody typed, as aware UTC.

    It is an ISO 8601 date or time, in UTC where it has no offset; or where a length before now or a named time begins ("7d",
    "2 hrs", "yesterday", "last week"), on the calendar of the person's zone.

    Raises:
        InvalidInputError: it is neither.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _named_time(text, option)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _named_time(text: str, option: str) -> datetime:
    from memory_assets.language.intervals import find_interval
    from memory_assets.language.times import display_zone
    from memory_assets.settings import load_settings

    interval = find_interval(text.strip(), datetime.now(UTC), display_zone(None, configured=load_settings().timezone))
    if interval is None or interval.span != (0, len(text.strip())):
        raise InvalidInputError(
            f"{option} {text!r} is not a time; write it like 2026-03-14, 2026-03-14T09:30+01:00, yesterday or 7d."
        )
    return interval.start
