"""`memory search`."""

from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options, here_option, max_tokens_option, timezone_option
from memory_assets.cli.output import print_answer
from memory_assets.models import Kind, State
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.sources.projects import Project

_BRIDGES = 5


@click.command("search", epilog="Example: memory search 'why did we leave MongoDB' --explain --bridges")
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--bridges", is_flag=True, help="Show the paths that lead on from what was found, with the reason of each hop.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Only of this kind.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--entity", "entities", multiple=True, help="Only what names this person, project or thing, however it is spelt.")
@click.option("--action", "actions", multiple=True, help="Only with this verb, such as `decide`.")
@click.option("--project", default="", help="Only of this project; the last part of its folder is enough.")
@here_option
@click.option("--since", help="Only created at or after this date; also yesterday, 7d, last week.")
@click.option("--until", help="Only created before this date; the same forms.")
@click.option("--history", is_flag=True, help="Superseded memories too.")
@click.option("--archived", is_flag=True, help="Archived memories too.")
@click.option("--all", "everything", is_flag=True, help="What is nearest, even if nothing fits.")
@max_tokens_option
@timezone_option
@common_options
def command(
    query: tuple[str, ...],
    limit: int,
    explain: bool,
    bridges: bool,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    entities: tuple[str, ...],
    actions: tuple[str, ...],
    project: str,
    here: "Project | None",
    since: str | None,
    until: str | None,
    history: bool,
    archived: bool,
    everything: bool,
    max_tokens: int | None,
    timezone: str | None,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Find memories by meaning, by words and by what the graph knows of them."""
    from memory_assets.operations.given import Narrowing, parse_time
    from memory_assets.operations.search import search

    narrowed = Narrowing(
        kinds=[Kind(kind) for kind in kinds],
        tags=tags,
        entities=entities,
        actions=actions,
        project=project,
        here=here,
        since=parse_time(since, "--since"),
        until=parse_time(until, "--until"),
        states=[State.ACTIVE, *([State.SUPERSEDED] if history else []), *([State.ARCHIVED] if archived else [])],
    )
    found = search(
        tenant, " ".join(query), limit=limit, narrowed=narrowed, bridges=_BRIDGES if bridges else 0, everything=everything
    )
    print_answer(found, tenant, timezone, as_json=as_json, explain=explain, max_tokens=max_tokens)
