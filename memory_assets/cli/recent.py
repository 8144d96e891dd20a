"""`memory recent`."""

import click

from memory_assets.cli.options import common_options, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("recent", epilog="Example: memory recent --hours 24 --limit 5")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@timezone_option
@common_options
def command(limit: int, hours: float | None, timezone: str | None, tenant: Tenant, as_json: bool) -> None:
    """List the newest memories."""
    from memory_assets.operations.recent import recent

    print_answer(recent(tenant, limit=limit, hours=hours), tenant, timezone, as_json=as_json)
