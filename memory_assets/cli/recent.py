"""`memory recent`."""

from datetime import UTC, datetime, timedelta

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import memory_json, print_json, print_memory
from memory_assets.tenants import Tenant


@click.command("recent", epilog="Example: memory recent --hours 24 --limit 5")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@common_options
def command(limit: int, hours: float | None, tenant: Tenant, as_json: bool) -> None:
    """List the newest memories."""
    from memory_assets.stores.memories import Filters

    since = datetime.now(UTC) - timedelta(hours=hours) if hours else None
    memories = tenant.memories.recent(limit, Filters(since=since))
    if as_json:
        print_json({"memories": [memory_json(memory) for memory in memories], "count": len(memories)})
        return
    for memory in memories:
        print_memory(memory)
    if not memories:
        click.echo("Nothing is remembered yet; `memory store TEXT` or `memory run` begins.")
