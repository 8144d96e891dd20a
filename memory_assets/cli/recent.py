"""`memory recent`."""

import click

from memory_assets.cli.options import common_options, parse_time, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("recent", epilog="Example: memory recent --since yesterday --limit 5")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@click.option("--since", help="Only created at or after this date; also yesterday, 7d, last week.")
@click.option("--until", help="Only created before this date; the same forms.")
@timezone_option
@common_options
def command(
    limit: int,
    hours: float | None,
    since: str | None,
    until: str | None,
    timezone: str | None,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """List the newest memories."""
    from memory_assets.operations.given import Narrowing
    from memory_assets.operations.recent import recent

    narrowed = Narrowing(since=parse_time(since, "--since"), until=parse_time(until, "--until"))
    print_answer(recent(tenant, limit=limit, hours=hours, narrowed=narrowed), tenant, timezone, as_json=as_json)
