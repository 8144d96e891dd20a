"""`memory noted`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("noted", epilog="Example: memory noted --store 2 5")
@click.option("--store", "outcome", flag_value="store", help="Remember the sentences of these numbers, or all.")
@click.option("--drop", "outcome", flag_value="drop", help="Note them no longer.")
@click.argument("numbers", nargs=-1, type=click.IntRange(min=1))
@common_options
def command(outcome: str | None, numbers: tuple[int, ...], tenant: Tenant, as_json: bool) -> None:
    """List what the user said in sessions that should perhaps last; store it, or drop it."""
    from memory_assets.operations.noted import drop_noted, noted, store_noted

    if numbers and not outcome:
        raise click.UsageError("Say with --store or --drop what is to become of these numbers.")
    steps = {"store": store_noted, "drop": drop_noted}
    print_answer(steps[outcome](tenant, numbers) if outcome else noted(tenant), tenant, as_json=as_json)
