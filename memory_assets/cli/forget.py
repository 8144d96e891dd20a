"""`memory forget`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("forget", epilog="Example: memory forget 65574068   (and --restore to bring it back)")
@click.argument("reference", metavar="ID")
@click.option("--restore", "back", is_flag=True, help="Bring it back into recall.")
@common_options
def command(reference: str, back: bool, tenant: Tenant, as_json: bool) -> None:
    """Take a memory out of recall. Its text stays until a cleaning deletes it, and --restore brings it back."""
    from memory_assets.operations.forget import forget, restore

    print_answer((restore if back else forget)(tenant, reference), tenant, as_json=as_json)
