"""Commands that look at what is remembered, and whether the memory works; none of them changes a memory but `scan --mend`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets.cli.options import (
    answering,
    common_options,
    here_option,
    max_tokens_option,
    say_time,
    timezone_option,
)
from memory_assets.cli.output import say
from memory_assets.models import Kind, State

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.operations.context import Format
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

_BRIDGES = 5
_limit_option = click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
_since_option = click.option("--since", help="Only created at or after this date; also yesterday, 7d, last week.")
_until_option = click.option("--until", help="Only created before this date; the same forms.")


@click.command("search", epilog="Example: memory search 'why did we leave MongoDB' --explain --bridges")
@click.argument("query", nargs=-1, required=True)
@_limit_option
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--bridges", is_flag=True, help="Show the paths that lead on from what was found, with the reason of each hop.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Only of this kind.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag.")
@click.option("--entity", "entities", multiple=True, help="Only what names this person, project or thing, however it is spelt.")
@click.option("--action", "actions", multiple=True, help="Only with this verb, such as `decide`.")
@click.option("--project", default="", help="Only of this project; the last part of its folder is enough.")
@here_option
@_since_option
@_until_option
@click.option("--history", is_flag=True, help="Superseded memories too.")
@click.option("--archived", is_flag=True, help="Archived memories too.")
@click.option("--all", "everything", is_flag=True, help="What is nearest, even if nothing fits.")
@max_tokens_option
@timezone_option
@answering("explain", "max_tokens")
def search(
    tenant: "Tenant",
    query: tuple[str, ...],
    limit: int,
    bridges: bool,
    kinds: tuple[str, ...],
    since: str | None,
    until: str | None,
    history: bool,
    archived: bool,
    everything: bool,
    **narrowing: Any,
) -> "Answer":
    """Find memories by meaning, by words and by what the graph knows of them. Without words ('') it lists the newest."""
    from memory_assets.operations.given import Narrowing
    from memory_assets.operations.search import search

    narrowed = Narrowing(
        kinds=[Kind(kind) for kind in kinds],
        since=say_time(since, "--since"),
        until=say_time(until, "--until"),
        states=[State.ACTIVE, *([State.SUPERSEDED] if history else []), *([State.ARCHIVED] if archived else [])],
        **narrowing,
    )
    paths = _BRIDGES if bridges else 0
    return search(tenant, " ".join(query), limit=limit, narrowed=narrowed, bridges=paths, everything=everything)


@click.command("recent", epilog="Example: memory recent --since yesterday --limit 5")
@_limit_option
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@_since_option
@_until_option
@here_option
@max_tokens_option
@timezone_option
@answering("max_tokens")
def recent(
    tenant: "Tenant", limit: int, hours: float | None, since: str | None, until: str | None, here: "Project | None"
) -> "Answer":
    """List the newest memories."""
    from memory_assets.operations.given import Narrowing
    from memory_assets.operations.show import recent

    narrowed = Narrowing(here=here, since=say_time(since, "--since"), until=say_time(until, "--until"))
    return recent(tenant, limit=limit, hours=hours, narrowed=narrowed)


@click.command("init", epilog="Example: memory init --timezone Europe/Berlin")
@here_option
@max_tokens_option
@timezone_option
@answering("max_tokens")
def init(tenant: "Tenant", here: "Project | None") -> "Answer":
    """Begin a session: the time, and what was remembered in the last day."""
    from memory_assets.operations.show import init

    return init(tenant, here)


@click.command("show", epilog="Example: memory show 6557406875026657   (the first digits are enough)")
@click.argument("reference", metavar="ID")
@max_tokens_option
@timezone_option
@answering("max_tokens")
def show(tenant: "Tenant", reference: str) -> "Answer":
    """Show everything about one memory."""
    from memory_assets.operations.show import show

    return show(tenant, reference)


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
def context(topics: tuple[str, ...], form: "Format", tenant: "Tenant", as_json: bool, **wanted: Any) -> None:
    """Assemble everything relevant about a topic within a budget of tokens; several topics are blended."""
    from memory_assets.operations.context import context

    found = context(tenant, topics, form="json" if as_json else form, **wanted)
    say(found.document, nl=False)
    for warning in () if found.warned else found.warnings:
        say(f"memory: {warning}", err=True)


@click.command("graph", epilog="Example: memory graph graph.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("graph.html"))
@click.option("--limit", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Most nodes that are drawn.")
@answering()
def graph(tenant: "Tenant", file: Path, limit: int) -> "Answer":
    """Draw memories, entities and clusters with their typed edges as one HTML file that works offline."""
    from memory_assets.operations.graph import draw_graph

    return draw_graph(tenant, file, limit)


@click.command("health", epilog="Example: memory health --json")
@timezone_option
@answering()
def health(tenant: "Tenant") -> "Answer":
    """Tell whether the memory works and how much it holds. Exits with 1 if it does not work."""
    from memory_assets.operations.health import health

    return health(tenant)


def _print_line(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from memory_assets.learn.brief import status_line
        from memory_assets.places import read_places

        say(status_line(read_places()))
        context.exit()


@click.command("status", epilog="Example: memory status --refused")
@click.option("--refused", is_flag=True, help="List what was refused, passed over or guessed, file by file, with what mends it.")
@click.option(
    "--line",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_line,
    help="One short line, within a tenth of a second.",
)
@answering("refused")
def status(tenant: "Tenant") -> "Answer":
    """Count what is remembered, and what became of every source file."""
    from memory_assets.operations.status import status

    return status(tenant)


@click.command("doctor", epilog="Example: memory doctor --settings")
@click.option("--mend", is_flag=True, help="Repair what can be repaired without a choice of yours, then look again.")
@click.option("--settings", "with_settings", is_flag=True, help="List every setting too, as it is set, and from where.")
@answering()
def doctor(tenant: "Tenant", mend: bool, with_settings: bool) -> "Answer":
    """Check settings and stores, and say what mends them. Exits with 1 if something is broken."""
    from memory_assets.operations.health import diagnose

    return diagnose(tenant, mend=mend, with_settings=with_settings)


@click.command("scan", epilog="Example: memory scan --mend")
@click.option(
    "--mend", "mends", is_flag=True, help="Mask what is found, in every file that is kept, and embed those memories anew."
)
@answering()
def scan(tenant: "Tenant", mends: bool) -> "Answer":
    """Look for keys and passwords in what is already stored. Exits with 1 while any is there."""
    from memory_assets.operations.scan import mend, scan

    return (mend if mends else scan)(tenant)
