"""`memory show`."""

import click

from memory_assets.cli.options import common_options, max_tokens_option, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("show", epilog="Example: memory show 6557406875026657   (the first digits are enough)")
@click.argument("reference", metavar="ID")
@max_tokens_option
@timezone_option
@common_options
def command(reference: str, max_tokens: int | None, timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """Show everything about one memory."""
    from memory_assets.operations.show import show

    print_answer(show(tenant, reference), tenant, timezone, as_json=as_json, max_tokens=max_tokens)
