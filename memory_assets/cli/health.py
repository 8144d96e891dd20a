"""`memory health`."""

import click

from memory_assets.cli.options import common_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("health", epilog="Example: memory health --json")
@timezone_option
@common_options
@click.pass_context
def command(context: click.Context, timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """Tell whether the memory works and how much it holds. Exits with 1 if it does not work."""
    from memory_assets.operations.health import health

    found = health(tenant)
    print_answer(found, tenant, timezone, as_json=as_json)
    if found.status != "healthy":
        context.exit(1)
