"""`memory undo`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("undo", epilog="Example: memory undo 65574068")
@click.argument("reference", metavar="ID")
@common_options
def command(reference: str, tenant: Tenant, as_json: bool) -> None:
    """Take back what was last done to a memory: that it was stored, edited, superseded or forgotten."""
    from memory_assets.operations.undo import undo

    print_answer(undo(tenant, reference), tenant, as_json=as_json)
