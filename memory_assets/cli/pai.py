"""`memory pai`: mirror pai-seed's learnings in Tana; `memory tana`: read a workspace."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import command, dry_run_option, print_answer, say
from memory_assets.cli.progress import progress_bar

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant


@click.group(epilog="Example: memory pai sync --dry-run")
def pai() -> None:
    """Mirror pai-seed's learnings in Tana, and read their context there."""


@pai.group("schema", epilog="Example: memory pai schema init")
def schema() -> None:
    """Manage the supertags #pai_learning and #pai_proposal."""


@command("memory pai schema init --dry-run", group=schema)
@click.option("--dry-run", is_flag=True, help="Show what is missing, and make nothing.")
def init(tenant: "Tenant", dry_run: bool) -> "Answer":
    """Make the supertags and fields that the workspace lacks."""
    return operations.pai.schema_init(tenant, dry_run=dry_run)


@command("memory pai sync --dry-run", group=pai, prints=True)
@click.option("--seed-path", metavar="FILE", help="Another seed.json than MEMORY_PAI_SEED.")
@click.option("--workspace", "-w", metavar="NAME", help="Name or id of another workspace than MEMORY_TANA_WORKSPACE.")
@click.option("--entry", "only", metavar="ID", default="", help="Only this entry, as after its confirmation.")
@dry_run_option
@click.option("--force", is_flag=True, help="Send every entry, also those that were trashed in Tana.")
@click.option("--resync", is_flag=True, help="Make missing nodes anew, in a workspace that is new or was reset.")
@click.option("--yes", "take_out", is_flag=True, help="Remove the entries that left seed.json, however many.")
@click.pass_context
def sync(
    context: click.Context, seed_path: str | None, workspace: str | None, tenant: "Tenant", as_json: bool, **options: Any
) -> None:
    """Mirror seed.json in Tana: create, update and trash nodes. If Tana does not answer, the changes wait."""
    wanted = operations.pai.SyncOptions(**options)
    sync_wanted = partial(operations.pai.pai_sync, tenant, seed_path=seed_path, workspace=workspace)
    with progress_bar() as advance:
        answer = sync_wanted(wanted, progress=partial(advance, "Tana"))
    print_answer(answer, tenant, as_json=as_json)
    for warning in answer.warnings:
        say(f"memory: {warning}", err=True)
    is_held_back = answer.held_back and not wanted.dry_run
    if is_held_back and sys.stdin.isatty() and click.confirm("Take them out of Tana now?", err=True):
        answer = sync_wanted(replace(wanted, take_out=True))
        print_answer(answer, tenant, as_json=as_json)
    context.exit(1 if answer.is_failure else 0)


_type_option = click.option(
    "--type",
    "kind",
    type=click.Choice(["pattern", "insight", "self_knowledge"]),
    callback=lambda _context, _parameter, kind: kind or "",
    help="Only learnings of this type.",
)
_offline_option = click.option("--offline", is_flag=True, help="Do not ask Tana; use its last reading.")


@command("memory pai context 'project Atlas'", group=pai, prints=True)
@click.argument("topic", nargs=-1, required=True)
@click.option("--max-tokens", type=click.IntRange(1), default=2000, show_default=True, help="Limit of the text.")
@_type_option
@click.option("--format", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True)
@_offline_option
def context(
    topic: tuple[str, ...], max_tokens: int, kind: str, form: str, offline: bool, tenant: "Tenant", as_json: bool
) -> None:
    """Show the learnings about a topic, and the Tana nodes that they are linked to."""
    _read_tana_unless(offline, tenant)
    answer = operations.pai_context.pai_context(tenant, " ".join(topic), max_tokens=max_tokens, kind=kind)
    print_answer(answer, tenant, as_json=as_json or form == "json")


@command("memory pai freshness --threshold 30", group=pai)
@click.option("--threshold", type=click.IntRange(1), default=None, help="Days; default: MEMORY_FRESHNESS_DAYS (90).")
@_type_option
@_offline_option
def freshness(tenant: "Tenant", threshold: int | None, kind: str, offline: bool) -> "Answer":
    """Show how fresh each learning is; activity in Tana keeps it fresh."""
    _read_tana_unless(offline, tenant)
    return operations.pai_context.pai_freshness(tenant, threshold=threshold, kind=kind)


@command("memory pai session-start   (in pai-seed's session start hook)", group=pai, name="session-start")
@click.option("--project", default="", help="The project of the session; default: the name of the working folder.")
def session_start(tenant: "Tenant", project: str) -> "Answer":
    """Print the learnings for a session's start, from seed.json and the last reading of Tana; never waits for Tana."""
    return operations.pai_context.pai_session_start(tenant, project=project or Path.cwd().name)


@command("memory pai people --dry-run", group=pai)
@click.option("--dry-run", is_flag=True, help="Show the matches, and keep nothing.")
def people(tenant: "Tenant", dry_run: bool) -> "Answer":
    """Match pai-seed's relationships to #person nodes in Tana, for the links of learnings."""
    return operations.pai.pai_people(tenant, dry_run=dry_run)


@click.group()
def tana() -> None:
    """Read a workspace of Tana."""


@command("MEMORY_TANA_TOKEN=... memory tana read", group=tana)
@click.option("--most", type=click.IntRange(1), default=3000, show_default=True, help="Nodes to read; the next call continues.")
def read(tenant: "Tenant", most: int) -> "Answer":
    """Read the changes in the workspace MEMORY_TANA_WORKSPACE, for `memory context` and for times when Tana does not answer."""
    return operations.pai.read_tana(tenant, most)


def _read_tana_unless(offline: bool, tenant: "Tenant") -> None:
    from memory_assets.tana.activity import read_tana_activity

    if not offline and (why_not := read_tana_activity(tenant)):
        say(f"memory: From the last reading of Tana, because: {why_not}", err=True)
