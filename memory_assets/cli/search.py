"""`memory search`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from memory_assets.cli.options import common_options, parse_time
from memory_assets.cli.output import hit_json, print_hit, print_json
from memory_assets.models import Kind, State
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.recall.bridges import Bridge


@click.command("search", epilog="Example: memory search 'why did we leave MongoDB' --explain --bridges")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--bridges", is_flag=True, help="Show the paths that lead on from what was found, with the reason of each hop.")
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
    bridges: bool,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
    history: bool,
    archived: bool,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Find memories by meaning, by words and by what the graph knows of them."""
    from memory_assets.language.tags import normalise_tag
    from memory_assets.recall.bridges import bridge_json
    from memory_assets.recall.search import search_with_bridges
    from memory_assets.stores.access_log import AccessLog
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
    hits, paths = search_with_bridges(tenant, text, limit=limit, filters=filters, bridges=5 if bridges else 0)
    AccessLog(tenant.folder).record([hit.memory.id for hit in hits], datetime.now(UTC))
    if as_json:
        found: dict[str, Any] = {"query": text, "memories": [hit_json(hit) for hit in hits]}
        print_json(found | ({"bridges": [bridge_json(path) for path in paths]} if bridges else {}))
        return
    for number, hit in enumerate(hits, start=1):
        print_hit(number, hit, text, explain=explain)
    if not hits:
        click.echo("Nothing found; `memory status` says what is remembered.")
    if bridges and hits:
        click.echo("\nBridges" if paths else "\nNo bridges: nothing that was found leads on.")
        for path in paths:
            _print_bridge(path)


def _print_bridge(bridge: "Bridge") -> None:
    click.echo(f"{bridge.score:.2f}  {click.style(bridge.places[0].label, bold=True)}  {bridge.places[0].id}")
    for hop, place in zip(bridge.hops, bridge.places[1:], strict=True):
        click.echo(f"      {hop.type} ({hop.confidence:.2f}, {hop.reason})")
        click.echo(f"   -> {click.style(place.label, bold=True)}  {place.id}")
