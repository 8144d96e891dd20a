"""Commands that look at what is remembered, and whether the memory works; none of them changes a memory but `scan --mend`."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import command, here_option, max_tokens_option, say, time_option, timezone_option
from memory_assets.models import Kind, Source, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from memory_assets.operations.answers import Answer
    from memory_assets.operations.context import Format
    from memory_assets.sources.projects import Project
    from memory_assets.tenants import Tenant

_BRIDGES = 5
_limit_option = click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True)
_since_option = time_option("--since", help="Only created at or after this date; also yesterday, 7d, last week.")
_until_option = time_option("--until", help="Only created before this date; the same forms.")


def _narrowing(function: "Callable[..., Answer]") -> "Callable[..., Answer]":
    """Give a command the fields of a `Narrowing` as options."""
    kind = click.Choice([kind.value for kind in Kind])
    for option in (
        _until_option,
        _since_option,
        here_option,
        click.option("--project", default="", help="Only of this project; the last part of its folder is enough."),
        click.option("--action", "actions", multiple=True, help="Only with this verb, such as `decide`."),
        click.option("--entity", "entities", multiple=True, help="Only what names this person or thing, however it is spelt."),
        click.option("--tag", "tags", multiple=True, help="Only with this tag."),
        click.option("--kind", "kinds", multiple=True, type=kind, help="Only of this kind."),
    ):
        function = option(function)
    return function


@command("memory search 'why did we leave MongoDB' --explain --bridges", "explain", "max_tokens")
@click.argument("query", nargs=-1, required=True)
@_limit_option
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--bridges", is_flag=True, help="Show the paths that lead on from what was found, with the reason of each hop.")
@_narrowing
@click.option("--history", is_flag=True, help="Superseded memories too.")
@click.option("--archived", is_flag=True, help="Archived memories too.")
@click.option("--all", "everything", is_flag=True, help="What is nearest, even if nothing fits.")
@max_tokens_option
@timezone_option
def search(
    tenant: "Tenant",
    query: tuple[str, ...],
    limit: int,
    bridges: bool,
    history: bool,
    archived: bool,
    everything: bool,
    **narrowing: Any,
) -> "Answer":
    """Find memories by meaning, by words and by what the graph knows of them. Without words ('') it lists the newest."""
    narrowed = operations.given.Narrowing(
        states=[State.ACTIVE, *([State.SUPERSEDED] if history else []), *([State.ARCHIVED] if archived else [])],
        **narrowing,
    )
    paths = _BRIDGES if bridges else 0
    return operations.search.search(tenant, " ".join(query), limit=limit, narrowed=narrowed, bridges=paths, everything=everything)


@command("memory recent --since yesterday --limit 5", "max_tokens")
@_limit_option
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Only of the last so many hours.")
@_since_option
@_until_option
@click.option(
    "--changes", is_flag=True, help="What was changed last instead, files that `memory learn` deleted too, and who did it."
)
@here_option
@max_tokens_option
@timezone_option
def recent(tenant: "Tenant", limit: int, hours: float | None, changes: bool, **narrowing: Any) -> "Answer":
    """List the newest memories."""
    listed = operations.show.recent_changes if changes else operations.show.recent
    return listed(tenant, limit=limit, hours=hours, narrowed=operations.given.Narrowing(**narrowing))


@command("memory init --timezone Europe/Berlin", "max_tokens")
@here_option
@max_tokens_option
@timezone_option
def init(tenant: "Tenant", here: "Project | None") -> "Answer":
    """Begin a session: the time, and what was remembered in the last day."""
    return operations.show.init(tenant, here)


@command("memory show 6557406875026657   (the first digits are enough)", "max_tokens")
@click.argument("reference", metavar="ID")
@max_tokens_option
@timezone_option
def show(tenant: "Tenant", reference: str) -> "Answer":
    """Show everything about one memory, or a person, project or thing that memories name."""
    return operations.show.look_up(tenant, reference)


@command("memory conflicts   (and `memory conflicts --both-hold 6557 7342` decides one)")
@click.argument("reference", metavar="[ID]", required=False)
@click.option("--both-hold", nargs=2, metavar="ID ID", help="These two do not contradict each other.")
@timezone_option
def conflicts(tenant: "Tenant", reference: str | None, both_hold: tuple[str, str] | None) -> "Answer":
    """List the memories, or those of one, that contradict each other and are both held to be true."""
    if both_hold:
        return operations.conflicts.decide_both_hold(tenant, *both_hold, stated_by=Source.CLI)
    return operations.conflicts.conflicts(tenant, reference)


@command("memory names --type person   (and `memory names --merge 'Bob Miller' 'Robert Miller'` says that two are one)")
@click.argument("name", required=False)
@click.option("--type", "kind", default="", help="Only names of this type, such as person, project, tool.")
@click.option("--like", default="", metavar="TEXT", help="Only names that hold it in some spelling.")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--merge", nargs=2, metavar="NAME NAME", help="The first name means what the second means, from now on.")
@click.option("--split", nargs=2, metavar="NAME SPELLING", help="This spelling means something else than the name.")
@click.option("--decisions", is_flag=True, help="List what was decided about names.")
@click.option("--undo", metavar="DECISION", help="Take a decision back.")
def names(
    tenant: "Tenant",
    name: str | None,
    kind: str,
    like: str,
    limit: int,
    merge: tuple[str, str] | None,
    split: tuple[str, str] | None,
    decisions: bool,
    undo: str | None,
) -> "Answer":
    """List people, projects and things that memories name, or show one with its spellings and the names that may be the same.

    Every run respects what is decided with --merge and --split; --undo takes it back.
    """
    known = operations.names
    if merge:
        return known.merge_names(tenant, *(known.find_name(tenant, each) for each in merge))
    if split:
        return known.split_name(tenant, known.find_name(tenant, split[0]), split[1])
    if undo:
        return known.undo_decision(tenant, undo)
    if decisions:
        return known.list_decisions(tenant)
    if name:
        return known.show_name(tenant, known.find_name(tenant, name))
    return known.list_names(tenant, kind=kind.upper().replace("-", "_"), like=like, limit=limit)


@command("memory timeline --on 2026-03-01 --project billing")
@time_option("--on", zone="UTC", metavar="DAY", help="List what held at the end of this day, in UTC; also yesterday, 7d.")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True, help="With --on.")
@_narrowing
@timezone_option
def timeline(tenant: "Tenant", on: "datetime | None", limit: int, **narrowing: Any) -> "Answer":
    """Count the memories of each day, week, month or year; with --on, list those that held then."""
    narrowed = operations.given.Narrowing(**narrowing)
    return operations.timeline.timeline(tenant, on=on.date() if on else None, narrowed=narrowed, limit=limit)


@command("memory session ~/work/atlas   (and `memory session --off 6557` keeps a memory out of it)")
@click.argument("project", default="")
@click.option("--off", metavar="ID", help="No session begins with this memory; it stays in recall.")
@click.option("--on", metavar="ID", help="Sessions may begin with it again.")
def session(tenant: "Tenant", project: str, off: str | None, on: str | None) -> "Answer":
    """Show what a session in a project is told at its start, and what has no room or is switched off."""
    if reference := off or on:
        return operations.session.tell_at_start(tenant, reference, told=bool(on))
    with suppress(OSError, RuntimeError):  # a name that is too long, a home of nobody
        if project and (folder := Path(project).expanduser()).is_dir():
            project = str(folder.resolve())
    return operations.session.preview(tenant, project)


@command("memory context 'the billing export' --lens meeting-prep --max-tokens 2000", prints=True)
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
def context(topics: tuple[str, ...], form: "Format", tenant: "Tenant", as_json: bool, **wanted: Any) -> None:
    """Assemble everything relevant about a topic within a budget of tokens; several topics are blended."""
    found = operations.context.context(tenant, topics, form="json" if as_json else form, **wanted)
    say(found.document, nl=False)
    for warning in () if found.warned else found.warnings:
        say(f"memory: {warning}", err=True)


@command("memory graph graph.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("graph.html"))
@click.option("--limit", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Most nodes that are drawn.")
def graph(tenant: "Tenant", file: Path, limit: int) -> "Answer":
    """Draw memories, entities and clusters with their typed edges as one HTML file that works offline."""
    return operations.graph.draw_graph(tenant, file, limit)


@command("memory health --json")
@timezone_option
def health(tenant: "Tenant") -> "Answer":
    """Tell whether the memory works and how much it holds. Exits with 1 if it does not work."""
    return operations.health.health(tenant)


def _print_line(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from memory_assets.learn.brief import status_line
        from memory_assets.places import read_places

        say(status_line(read_places()))
        context.exit()


@command("memory status --refused", "refused")
@click.option("--refused", is_flag=True, help="List what was refused, passed over or guessed, file by file, with what mends it.")
@click.option(
    "--line",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_line,
    help="One short line, within a tenth of a second.",
)
def status(tenant: "Tenant") -> "Answer":
    """Count what is remembered, and what became of every source file."""
    return operations.status.status(tenant)


@command("memory doctor --settings")
@click.option("--mend", is_flag=True, help="Repair what can be repaired without a choice of yours, then look again.")
@click.option("--settings", "with_settings", is_flag=True, help="List every setting too, as it is set, and from where.")
def doctor(tenant: "Tenant", mend: bool, with_settings: bool) -> "Answer":
    """Check settings and stores, and say what mends them. Exits with 1 if something is broken."""
    return operations.health.diagnose(tenant, mend=mend, with_settings=with_settings)


@command("memory scan --mend")
@click.option(
    "--mend", "mends", is_flag=True, help="Mask what is found, in every file that is kept, and embed those memories anew."
)
def scan(tenant: "Tenant", mends: bool) -> "Answer":
    """Look for keys and passwords in what is already stored. Exits with 1 while any is there."""
    return (operations.scan.mend if mends else operations.scan.scan)(tenant)
