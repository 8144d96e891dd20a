"""`memory noted`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import answering

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.command("noted", epilog="Example: memory noted --store 3f2a91c0")
@click.option("--store", "outcome", flag_value="store", help="Store the sentences with these ids, or all.")
@click.option("--drop", "outcome", flag_value="drop", help="Drop them.")
@click.argument("ids", nargs=-1)
@answering()
def noted(tenant: "Tenant", outcome: str | None, ids: tuple[str, ...]) -> "Answer":
    """List sentences of earlier sessions that may be worth keeping; store or drop them.

    An id stays the same whatever else is stored or dropped, so each call may be repeated.
    """
    from memory_assets.operations.noted import drop_noted, noted, store_noted

    if ids and not outcome:
        raise click.UsageError("Add --store or --drop to say what to do with these ids.")
    steps = {"store": store_noted, "drop": drop_noted}
    return steps[outcome](tenant, ids) if outcome else noted(tenant)
