"""`memory supersede`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("supersede", epilog="Example: memory supersede 65574068 71203345   (and `memory undo 65574068` takes it back)")
@click.argument("old", metavar="OLD_ID")
@click.argument("new", metavar="NEW_ID")
@common_options
def command(old: str, new: str, tenant: Tenant, as_json: bool) -> None:
    """Let the memory NEW_ID take the place of OLD_ID, which no longer holds and stays as history."""
    from memory_assets.operations.supersede import supersede

    print_answer(supersede(tenant, old, new), tenant, as_json=as_json)
