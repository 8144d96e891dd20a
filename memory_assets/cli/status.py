"""`memory status`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer, say

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


def _line(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        from memory_assets.learn.status_line import status_line
        from memory_assets.places import read_places

        say(status_line(read_places()))
        context.exit()


@click.command("status", epilog="Example: memory status --refused")
@click.option("--refused", is_flag=True, help="List what was refused, passed over or guessed, file by file, with what mends it.")
@click.option(
    "--line", is_flag=True, is_eager=True, expose_value=False, callback=_line, help="One short line, within a tenth of a second."
)
@common_options
def command(refused: bool, tenant: "Tenant", as_json: bool) -> None:
    """Count what is remembered, and what became of every source file."""
    from memory_assets.operations.status import status

    print_answer(status(tenant), tenant, as_json=as_json, refused=refused)
