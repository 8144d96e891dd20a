"""`memory tana`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.group("tana")
def command() -> None:
    """Know what Tana holds."""


@command.command("read", epilog="Example: MEMORY_TANA_TOKEN=... memory tana read")
@click.option("--most", type=click.IntRange(1), help="Ask for at most so many nodes; default: 3000. The next reading goes on.")
@common_options
def read(most: int | None, tenant: Tenant, as_json: bool) -> None:
    """Read what changed in the workspace of MEMORY_TANA_WORKSPACE, for `memory context` and when Tana is away."""
    from memory_assets.operations.tana import read_tana

    print_answer(read_tana(tenant, most=most), tenant, as_json=as_json)
