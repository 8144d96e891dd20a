"""`memory init`."""

import click

from memory_assets.cli.options import common_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("init", epilog="Example: memory init --timezone Europe/Berlin")
@timezone_option
@common_options
def command(timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """Begin a session: the time, and what was remembered in the last day."""
    from memory_assets.operations.recent import init

    print_answer(init(tenant), tenant, timezone, as_json=as_json)
