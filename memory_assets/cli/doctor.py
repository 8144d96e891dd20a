"""`memory doctor`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("doctor", epilog="Example: memory doctor --settings")
@click.option("--mend", is_flag=True, help="Repair what can be repaired without a choice of yours, then look again.")
@click.option("--settings", "with_settings", is_flag=True, help="List every setting too, as it is set, and from where.")
@common_options
@click.pass_context
def command(context: click.Context, mend: bool, with_settings: bool, tenant: Tenant, as_json: bool) -> None:
    """Check settings and stores, and say what mends them. Exits with 1 if something is broken."""
    from memory_assets.operations.doctor import diagnose

    found = diagnose(tenant, mend=mend, with_settings=with_settings)
    print_answer(found, tenant, as_json=as_json)
    context.exit(1 if found.broken else 0)
