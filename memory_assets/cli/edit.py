"""`memory edit`."""

import sys

import click

from memory_assets.cli.options import common_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.models import Source
from memory_assets.tenants import Tenant


@click.command("edit", epilog="Example: memory edit 65574068 'Priya owns the billing export since June'")
@click.argument("reference", metavar="ID")
@click.argument("text", required=False)
@timezone_option
@common_options
def command(reference: str, text: str | None, timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """Correct what a memory says. Without TEXT your editor opens; `-` reads standard input. The old version stays as history."""
    from memory_assets.operations.edit import edit
    from memory_assets.operations.given import find_memory

    if text is None:
        text = click.edit(find_memory(tenant, reference).content)
        if text is None:
            raise click.Abort
        text = text.removesuffix("\n")
    content = sys.stdin.read() if text == "-" else text
    print_answer(edit(tenant, reference, content, source=Source.CLI), tenant, timezone, as_json=as_json)
