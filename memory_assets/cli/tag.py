"""`memory tag`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("tag", epilog="Example: memory tag 65574068 billing --remove draft")
@click.argument("reference", metavar="ID")
@click.argument("add", metavar="[TAG]...", nargs=-1)
@click.option("--remove", multiple=True, metavar="TAG", help="Take this tag from it.")
@common_options
def command(reference: str, add: tuple[str, ...], remove: tuple[str, ...], tenant: Tenant, as_json: bool) -> None:
    """Give a memory tags, take some from it, or see those that it has."""
    from memory_assets.operations.tag import tag

    print_answer(tag(tenant, reference, add=add, remove=remove), tenant, as_json=as_json)
