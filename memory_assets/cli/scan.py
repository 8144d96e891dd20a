"""`memory scan`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("scan", epilog="Example: memory scan --mend")
@click.option(
    "--mend", "mends", is_flag=True, help="Mask what is found, in every file that is kept, and embed those memories anew."
)
@common_options
@click.pass_context
def command(context: click.Context, mends: bool, tenant: Tenant, as_json: bool) -> None:
    """Look for keys and passwords in what is already stored. Exits with 1 while any is there."""
    from memory_assets.operations.scan import mend, scan

    answer = (mend if mends else scan)(tenant)
    print_answer(answer, tenant, as_json=as_json)
    if answer.remains or (answer.leaks and not answer.masked):
        context.exit(1)
