"""`memory forget`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import memory_json, print_json
from memory_assets.models import State
from memory_assets.tenants import Tenant


@click.command("forget", epilog="Example: memory forget 65574068   (and --restore to bring it back)")
@click.argument("reference", metavar="ID")
@click.option("--restore", is_flag=True, help="Bring it back into recall.")
@common_options
def command(reference: str, restore: bool, tenant: Tenant, as_json: bool) -> None:
    """Take a memory out of recall. Its text stays until a cleaning deletes it, and --restore brings it back."""
    memory = tenant.memories.resolve(reference)
    tenant.memories.set_state([memory.id], State.ACTIVE if restore else State.FORGOTTEN)
    changed = tenant.memories.resolve(str(memory.id))
    if as_json:
        print_json(memory_json(changed))
    else:
        click.echo(f"{'Restored' if restore else 'Forgotten'}: {changed.title or changed.content[:60]} ({changed.id})")
