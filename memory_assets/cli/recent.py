"""`memory recent`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options, here_option, max_tokens_option, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project


@click.command("recent", epilog="Example: memory recent --since yesterday --limit 5")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@click.option("--since", help="Only created at or after this date; also yesterday, 7d, last week.")
@click.option("--until", help="Only created before this date; the same forms.")
@here_option
@max_tokens_option
@timezone_option
@common_options
def command(
    limit: int,
    hours: float | None,
    since: str | None,
    until: str | None,
    here: "Project | None",
    max_tokens: int | None,
    timezone: str | None,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """List the newest memories."""
    from memory_assets.operations.given import Narrowing, parse_time
    from memory_assets.operations.recent import recent

    narrowed = Narrowing(here=here, since=parse_time(since, "--since"), until=parse_time(until, "--until"))
    newest = recent(tenant, limit=limit, hours=hours, narrowed=narrowed)
    print_answer(newest, tenant, timezone, as_json=as_json, max_tokens=max_tokens)
