"""`memory pai`: pai-seed's learnings in Tana."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer, say
from memory_assets.tenants import Tenant


@click.group("pai", epilog="Example: memory pai sync --dry-run")
def command() -> None:
    """Mirror pai-seed's learnings in Tana, and read what Tana knows of them."""


@command.group("schema", epilog="Example: memory pai schema init")
def schema() -> None:
    """The supertags #pai_learning and #pai_proposal."""


@schema.command("init", epilog="Example: memory pai schema init --dry-run")
@click.option("--dry-run", is_flag=True, help="Say what is missing, and make nothing.")
@common_options
def init(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Make what the workspace lacks of the supertags and their fields."""
    from memory_assets.operations.pai import schema_init

    print_answer(schema_init(tenant, dry_run=dry_run), tenant, as_json=as_json)


@command.command("sync", epilog="Example: memory pai sync --dry-run")
@click.option("--seed-path", metavar="FILE", help="Another seed.json than MEMORY_PAI_SEED.")
@click.option("--workspace", "-w", metavar="NAME", help="Name or id of another workspace than MEMORY_TANA_WORKSPACE.")
@click.option("--entry", "only", metavar="ID", default="", help="Only this entry, as after its confirmation.")
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Send everything, also what was trashed in Tana.")
@click.option("--resync", is_flag=True, help="Make anew what is gone from Tana: in a workspace that is new or was reset.")
@click.option(
    "--input-api", is_flag=True, help="Only create, through the cloud with MEMORY_TANA_INPUT_TOKEN: without the desktop app."
)
@click.option("--yes", is_flag=True, help="Take out of Tana however many entries left seed.json.")
@common_options
@click.pass_context
def sync(
    context: click.Context,
    seed_path: str | None,
    workspace: str | None,
    only: str,
    dry_run: bool,
    force: bool,
    resync: bool,
    input_api: bool,
    yes: bool,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Bring Tana to what seed.json says: create, update, trash. Where Tana is away the changes wait."""
    from memory_assets.cli.progress import progress_bar
    from memory_assets.operations.pai import pai_sync
    from memory_assets.tana.report import Wishes

    wishes = Wishes(dry_run=dry_run, force=force, resync=resync, take_out=yes, only=only)
    with progress_bar(shown=not as_json) as advance:
        progress = partial(advance, "Tana")
        answer = pai_sync(tenant, wishes, input_api=input_api, seed_path=seed_path, workspace=workspace, progress=progress)
    print_answer(answer, tenant, as_json=as_json)
    for warning in answer.warnings:
        say(f"memory: {warning}", err=True)
    if answer.held_back and not dry_run and sys.stdin.isatty() and click.confirm("Take them out of Tana now?", err=True):
        answer = pai_sync(tenant, replace(wishes, take_out=True), seed_path=seed_path, workspace=workspace)
        print_answer(answer, tenant, as_json=as_json)
    context.exit(1 if answer.failed or (answer.held_back and not dry_run) else 0)


_TYPES = click.Choice(["pattern", "insight", "self_knowledge"])


@command.command("context", epilog="Example: memory pai context 'project Atlas'")
@click.argument("topic", nargs=-1, required=True)
@click.option("--max-tokens", type=click.IntRange(1), default=2000, show_default=True, help="Tokens that the text may have.")
@click.option("--type", "kind", type=_TYPES, default=None, help="Only learnings of this type.")
@click.option("--format", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True)
@click.option("--offline", is_flag=True, help="From the last reading of Tana, without asking it.")
@common_options
def context(
    topic: tuple[str, ...], max_tokens: int, kind: str | None, form: str, offline: bool, tenant: Tenant, as_json: bool
) -> None:
    """What was learned about a topic, with what it is linked to in Tana."""
    from memory_assets.operations.pai_context import pai_context

    _read_unless(offline, tenant)
    answer = pai_context(tenant, " ".join(topic), max_tokens=max_tokens, kind=kind or "")
    print_answer(answer, tenant, as_json=as_json or form == "json")


@command.command("freshness", epilog="Example: memory pai freshness --threshold 30")
@click.option("--threshold", type=click.IntRange(1), default=None, help="Days; default: MEMORY_FRESHNESS_DAYS (90).")
@click.option("--type", "kind", type=_TYPES, default=None, help="Only learnings of this type.")
@click.option("--offline", is_flag=True, help="From the last reading of Tana, without asking it.")
@common_options
def freshness(threshold: int | None, kind: str | None, offline: bool, tenant: Tenant, as_json: bool) -> None:
    """How fresh each learning is: what is worked on in Tana keeps it so."""
    from memory_assets.operations.pai_context import pai_freshness

    _read_unless(offline, tenant)
    print_answer(pai_freshness(tenant, threshold=threshold, kind=kind or ""), tenant, as_json=as_json)


@command.command("session-start", epilog="Example: memory pai session-start   (in pai-seed's session start hook)")
@click.option("--project", default="", help="The project of the session; default: the name of the working folder.")
@common_options
def session_start(project: str, tenant: Tenant, as_json: bool) -> None:
    """What a session begins with, from seed.json and the last reading of Tana; never waits for Tana."""
    from memory_assets.operations.pai_context import pai_session_start

    print_answer(pai_session_start(tenant, project=project or Path.cwd().name), tenant, as_json=as_json)


@command.command("people", epilog="Example: memory pai people --dry-run")
@click.option("--dry-run", is_flag=True, help="Say whom the files mean, and keep nothing.")
@common_options
def people(dry_run: bool, tenant: Tenant, as_json: bool) -> None:
    """Find pai-seed's relationships among the #person nodes of Tana, for the links of learnings."""
    from memory_assets.operations.pai import pai_people

    print_answer(pai_people(tenant, dry_run=dry_run), tenant, as_json=as_json)


@command.command("graph", epilog="Example: memory pai graph learnings.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("learnings.html"))
@common_options
def graph(file: Path, tenant: Tenant, as_json: bool) -> None:
    """Draw the learnings with what they are linked to in Tana as one HTML file that works offline."""
    from memory_assets.operations.graph import draw_learnings

    print_answer(draw_learnings(tenant, file), tenant, as_json=as_json)


def _read_unless(offline: bool, tenant: Tenant) -> None:
    from memory_assets.operations.pai_context import read_tana_activity

    if not offline and (why_not := read_tana_activity(tenant)):
        say(f"memory: From the last reading of Tana, because: {why_not}", err=True)
