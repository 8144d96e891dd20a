"""`memory pai`: pai-seed's learnings in Tana."""

import sys
from dataclasses import replace

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
    yes: bool,
    tenant: Tenant,
    as_json: bool,
) -> None:
    """Bring Tana to what seed.json says: create, update, trash. Where Tana is away the changes wait."""
    from memory_assets.cli.progress import progress_bar
    from memory_assets.operations.pai import pai_sync
    from memory_assets.tana.sync import Wishes

    wishes = Wishes(dry_run=dry_run, force=force, resync=resync, take_out=yes, only=only)
    with progress_bar("Tana", shown=not as_json) as progress:
        answer = pai_sync(tenant, wishes, seed_path=seed_path, workspace=workspace, progress=progress)
    print_answer(answer, tenant, as_json=as_json)
    for warning in answer.warnings:
        say(f"memory: {warning}", err=True)
    if answer.held_back and not dry_run and sys.stdin.isatty() and click.confirm("Take them out of Tana now?", err=True):
        answer = pai_sync(tenant, replace(wishes, take_out=True), seed_path=seed_path, workspace=workspace)
        print_answer(answer, tenant, as_json=as_json)
    context.exit(1 if answer.failed or (answer.held_back and not dry_run) else 0)
