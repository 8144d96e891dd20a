"""What all commands share: `--json`, `--tenant`, and opening the tenant they name."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from memory_assets.errors import InvalidInputError
from memory_assets.tenants import Tenant


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` (parameter `as_json`) and `--tenant` (parameter `tenant`, opened) to a command."""
    return tenant_option(click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function))


def tenant_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--tenant` (parameter `tenant`, opened) to a command."""
    return click.option("--tenant", callback=_open, metavar="NAME", help="Whose memory; default: MEMORY_TENANT, else main.")(
        function
    )


def _open(_context: click.Context, _parameter: click.Parameter, name: str | None) -> Tenant:
    from memory_assets.settings import load_settings

    return Tenant(load_settings(), name)


def parse_time(text: str | None, option: str) -> datetime | None:
    """An ISO 8601 date or time as aware UTC; one without an offset is taken as UTC.

    Raises:
        InvalidInputError: it is not ISO 8601.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{option} {text!r} is not a time; write it like 2026-03-14 or 2026-03-14T09:30+01:00."
        ) from error
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
