"""Commands that show memories and the state of the program. Few change anything: `conflicts`, `names`, `session`, `--mend`."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import (
    chosen_tenant,
    command,
    existing_tenant,
    here_option,
    max_tokens_option,
    say,
    time_option,
    timezone_option,
)
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
_since_option = time_option("--since", help="Only created at or after this time; also yesterday, 7d, last week.")
_until_option = time_option("--until", help="Only created before this time; the same forms.")


def _filter_options(function: "Callable[..., Answer]") -> "Callable[..., Answer]":
    kind = click.Choice([kind.value for kind in Kind])
    for option in (
        _until_option,
        _since_option,
        here_option,
        click.option("--project", default="", help="Only of this project; the last part of its folder is enough."),
        click.option("--action", "actions", multiple=True, help="Only with this verb, such as `decide`."),
        click.option("--entity", "entities", multiple=True, help="Only memories that name this person or thing in any spelling."),
        click.option("--tag", "tags", multiple=True, help="Only with this tag."),
        click.option("--kind", "kinds", multiple=True, type=kind, help="Only of this kind."),
    ):
        function = option(function)
    return function


@command("memory search 'why did we leave MongoDB' --explain --bridges", "explain", "max_tokens")
@click.argument("query", nargs=-1, required=True)
@_limit_option
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@click.option("--bridges", is_flag=True, help="Show paths from the hits to related memories, with the reason of each hop.")
@_filter_options
@click.option("--history", is_flag=True, help="Include superseded memories.")
@click.option("--archived", is_flag=True, help="Include archived memories.")
@click.option("--all", "everything", is_flag=True, help="Show the nearest memories even if nothing fits.")
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
    """Search memories by meaning, words and the graph. An empty query ('') lists the newest."""
    narrowed = operations.arguments.Narrowing(
        states=[State.ACTIVE, *([State.SUPERSEDED] if history else []), *([State.ARCHIVED] if archived else [])], **narrowing
    )
    paths = _BRIDGES if bridges else 0
    return operations.search.search(tenant, " ".join(query), limit=limit, narrowed=narrowed, bridges=paths, everything=everything)


@command("memory recent --since yesterday --limit 5", "max_tokens")
@_limit_option
@click.option("--hours", type=float, help="Only the last so many hours, at most 720.")
@_since_option
@_until_option
@click.option(
    "--changes", is_flag=True, help="List the last changes instead, with files that `memory learn` deleted and who did it."
)
@here_option
@max_tokens_option
@timezone_option
def recent(tenant: "Tenant", limit: int, hours: float | None, changes: bool, **narrowing: Any) -> "Answer":
    """List the newest memories."""
    listed = operations.show.recent_changes if changes else operations.show.recent
    return listed(tenant, limit=limit, hours=hours, narrowed=operations.arguments.Narrowing(**narrowing))


@command("memory init --timezone Europe/Berlin", "max_tokens")
@here_option
@max_tokens_option
@timezone_option
def init(tenant: "Tenant", here: "Project | None") -> "Answer":
    """Begin a session: show the time and the memories of the last day."""
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
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--both-hold", nargs=2, metavar="ID ID", help="These two do not contradict each other.")
@timezone_option
def conflicts(tenant: "Tenant", reference: str | None, limit: int, both_hold: tuple[str, str] | None) -> "Answer":
    """List pairs of active memories that contradict each other, the surest first, or those of one memory."""
    if both_hold:
        return operations.conflicts.decide_both_hold(tenant, *both_hold, stated_by=Source.CLI)
    return operations.conflicts.conflicts(tenant, reference, limit=limit)


@command("memory names --type person   (and `memory names --merge 'Bob Miller' 'Robert Miller'` says that two are one)")
@click.argument("name", required=False)
@click.option("--type", "kind", default="", help="Only names of this type, such as person, project, tool.")
@click.option("--like", default="", metavar="TEXT", help="Only names with a spelling that contains TEXT.")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--merge", nargs=2, metavar="NAME NAME", help="The first name means the same as the second.")
@click.option("--split", nargs=2, metavar="NAME SPELLING", help="This spelling means something else than the name.")
@click.option("--decisions", is_flag=True, help="List the decisions about names.")
@click.option("--undo", metavar="DECISION", help="Take back a decision.")
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
    """List people, projects and things that memories name, or show one with its spellings and similar names.

    Every run respects the decisions made with --merge and --split; --undo takes one back.
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
    return known.list_names(tenant, kind=kind, like=like, limit=limit)


@command("memory timeline --on 2026-03-01 --project billing")
@time_option("--on", metavar="DAY", help="List memories that held at the end of this day; also yesterday, 7d.")
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True, help="With --on.")
@_filter_options
@timezone_option
def timeline(tenant: "Tenant", on: "datetime | None", limit: int, **narrowing: Any) -> "Answer":
    """Count the memories of each day, week, month or year; with --on, list those that held on a day."""
    timezone = click.get_current_context().params["timezone"]
    day = operations.answers.LocalTime.of(tenant.settings, timezone).day(on) if on else None
    narrowed = operations.arguments.Narrowing(**narrowing)
    return operations.timeline.timeline(tenant, on=day, narrowed=narrowed, limit=limit, timezone=timezone)


@command("memory session ~/work/atlas   (and `memory session --off 6557` keeps a memory out of it)")
@click.argument("project", default="")
@click.option("--off", metavar="ID", help="Exclude this memory from the start of sessions; it stays in recall.")
@click.option("--on", metavar="ID", help="Allow it again.")
def session(tenant: "Tenant", project: str, off: str | None, on: str | None) -> "Answer":
    """Preview the text that a session in a project gets at its start, and list lines that do not fit or are switched off."""
    from memory_assets.sources.projects import project_of

    if reference := off or on:
        return operations.session.tell_at_start(tenant, reference, told=bool(on))
    is_folder = False
    with suppress(OSError, RuntimeError):  # a name that is too long, a home of nobody
        is_folder = bool(project) and Path(project).expanduser().is_dir()
    if is_folder:
        return operations.session.preview_in(tenant, project_of(Path(project).expanduser()))
    return operations.session.preview(tenant, project)


@command("memory context 'the billing export' --lens meeting-prep --max-tokens 2000", prints=True)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC-OR-ID...")
@click.option("--depth", type=click.IntRange(1, 5), default=2, show_default=True, help="Links to follow from the topic.")
@click.option("--max-tokens", type=click.IntRange(1, 1_000_000), default=4000, show_default=True, help="Limit of the document.")
@click.option("--include-fields/--no-include-fields", default=True, help="Include field values.  [default: include-fields]")
@click.option("--format", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True)
@click.option(
    "--lens",
    default="general",
    show_default=True,
    help="general, writing, coding, planning, meeting-prep, or one of lenses.toml.",
)
@click.option("--history", is_flag=True, help="Include older versions.")
@click.option("--offline", is_flag=True, help="Do not ask Tana; use its last reading.")
def context(topics: tuple[str, ...], form: "Format", tenant: "Tenant", as_json: bool, **wanted: Any) -> None:
    """Assemble everything relevant about a topic within a budget of tokens; several topics are blended."""
    found = operations.context.context(tenant, topics, form="json" if as_json else form, **wanted)
    say(found.document, nl=False)
    for warning in () if found.warned else found.warnings:
        say(f"memory: {warning}", err=True)


@command("memory graph graph.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("graph.html"))
@click.option("--limit", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Largest number of nodes.")
def graph(tenant: "Tenant", file: Path, limit: int) -> "Answer":
    """Draw memories, entities and clusters with their typed edges as one HTML file that works offline."""
    return operations.graph.draw_graph(tenant, file, limit)


@command("memory health --json")
@timezone_option
def health(tenant: "Tenant") -> "Answer":
    """Check whether the memory works, and show how much it holds. Exits with 1 if it does not work."""
    return operations.health.health(tenant)


_LINE = "memory_assets.line"
"""Key in click's context of `--line`."""


def _open_or_print_line(context: click.Context, parameter: click.Parameter, name: str | None) -> "Tenant":
    """Open the tenant. With `--line` print the line instead, without heavy imports, and exit."""
    if context.meta[_LINE]:
        from memory_assets.hook_settings import read_hook_settings, read_settings_file
        from memory_assets.learn.brief import status_line

        read_settings_file()  # for its error: hooks hide it
        say(status_line(read_hook_settings(chosen_tenant(name))))
        context.exit()
    return existing_tenant(context, parameter, name)


@command(
    "memory status --refused",
    "refused",
    tenant=click.Option(
        ["--tenant"], callback=_open_or_print_line, metavar="NAME", help="Tenant to use; default: MEMORY_TENANT, else main."
    ),
)
@click.option("--refused", is_flag=True, help="List the files that were refused, passed over or guessed, and how to mend them.")
@click.option(
    "--line",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, is_wanted: context.meta.update({_LINE: is_wanted}),
    help="Print one short line, within a tenth of a second.",
)
def status(tenant: "Tenant") -> "Answer":
    """Count memories, and source files by outcome."""
    return operations.status.status(tenant)


@command("memory doctor --settings")
@click.option("--mend", is_flag=True, help="Repair everything that needs no decision of yours, then check again.")
@click.option("--settings", "with_settings", is_flag=True, help="Also list every setting with its value and origin.")
def doctor(tenant: "Tenant", mend: bool, with_settings: bool) -> "Answer":
    """Check settings and stores, and say how to mend faults. Exits with 1 if there is a fault."""
    return operations.health.diagnose(tenant, mend=mend, with_settings=with_settings)


@command("memory scan --mend")
@click.option("--mend", "mends", is_flag=True, help="Mask them in every file of the data folder, and embed those memories again.")
def scan(tenant: "Tenant", mends: bool) -> "Answer":
    """Find keys and passwords in stored texts. Exits with 1 if there are any."""
    return (operations.scan.mend if mends else operations.scan.scan)(tenant)
