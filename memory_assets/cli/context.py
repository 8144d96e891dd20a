"""`memory context`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import say
from memory_assets.operations.context import Format
from memory_assets.tenants import Tenant


@click.command("context", epilog="Example: memory context 'the billing export' --lens meeting-prep --max-tokens 2000")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC-OR-ID...")
@click.option("--depth", type=click.IntRange(1, 5), default=2, show_default=True, help="Links to walk from what the topic names.")
@click.option("--max-tokens", type=click.IntRange(1, 1_000_000), default=4000, show_default=True, help="Never exceeded.")
@click.option("--include-fields/--no-include-fields", default=True, help="Tell field values.  [default: include-fields]")
@click.option("--format", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True)
@click.option(
    "--lens",
    default="general",
    show_default=True,
    help="general, writing, coding, planning, meeting-prep, or one of lenses.toml.",
)
@click.option("--history", is_flag=True, help="Tell older versions of what holds now, too.")
@click.option("--offline", is_flag=True, help="Do not ask Tana; tell it as it was last read.")
@click.option("--since-last", is_flag=True, help="Tell only what changed since these topics were assembled the last time.")
@common_options
def command(
    topics: tuple[str, ...],
    depth: int,
    max_tokens: int,
    include_fields: bool,
    form: Format,
    lens: str,
    history: bool,
    offline: bool,
    since_last: bool,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Assemble everything relevant about a topic within a budget of tokens; several topics are blended."""
    from memory_assets.operations.context import context

    found = context(
        tenant,
        topics,
        depth=depth,
        max_tokens=max_tokens,
        lens=lens,
        form="json" if as_json else form,
        include_fields=include_fields,
        history=history,
        offline=offline,
        since_last=since_last,
    )
    say(found.document, nl=False)
    for warning in () if found.warned else found.warnings:
        say(f"memory: {warning}", err=True)
