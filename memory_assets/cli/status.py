"""`memory status`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("status", epilog="Example: memory status --refused")
@click.option("--refused", is_flag=True, help="List what was refused, passed over or guessed, file by file, with what mends it.")
@common_options
def command(refused: bool, tenant: Tenant, as_json: bool) -> None:
    """Count what is remembered, and what became of every source file."""
    from memory_assets.operations.status import status

    print_answer(status(tenant), tenant, as_json=as_json, refused=refused)
