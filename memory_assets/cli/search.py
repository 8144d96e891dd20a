"""`memory search`."""

import click

from memory_assets.cli.options import common_options, parse_time
from memory_assets.cli.output import hit_json, print_hit, print_json
from memory_assets.models import Kind, State
from memory_assets.tenants import Tenant


@click.command("search", epilog="Example: memory search 'why did we leave MongoDB' --explain")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Only of this kind.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--since", help="Only created at or after this ISO date.")
@click.option("--until", help="Only created before this ISO date.")
@click.option("--history", is_flag=True, help="Superseded memories too.")
@click.option("--archived", is_flag=True, help="Archived memories too.")
@common_options
def command(
    query: tuple[str, ...],
    limit: int,
    explain: bool,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
    history: bool,
    archived: bool,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Find memories by meaning and by words."""
    from memory_assets.language.tags import normalise_tag
    from memory_assets.recall.search import search
    from memory_assets.stores.memories import Filters

    text = " ".join(query)
    states = [State.ACTIVE, *([State.SUPERSEDED] if history else []), *([State.ARCHIVED] if archived else [])]
    filters = Filters(
        kinds=[Kind(kind) for kind in kinds],
        tags=[normalise_tag(tag) for tag in tags],
        since=parse_time(since, "--since"),
        until=parse_time(until, "--until"),
        states=states,
    )
    hits = search(tenant, text, limit=limit, filters=filters)
    if as_json:
        print_json({"query": text, "memories": [hit_json(hit) for hit in hits]})
        return
    for number, hit in enumerate(hits, start=1):
        print_hit(number, hit, explain=explain)
    if not hits:
        click.echo("Nothing found; `memory status` says what is remembered.")
