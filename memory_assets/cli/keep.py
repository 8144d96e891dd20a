"""Commands that copy memories out and in again: backup, restore, export, import; and backfill."""

from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import command, creating_option, open_tenant, say, time_option

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_MOST_FAULTS = 10
_place = click.argument("place", metavar="[FOLDER|s3://...]", required=False)
_as_of = time_option("--as-of", metavar="TIME", help="The newest backup at or before TIME, such as 2026-03-14 or 7d.")

_new_tenant = click.Option(
    ["--tenant"],
    callback=open_tenant,
    metavar="NAME",
    help="Who gets it: a tenant that is new or empty; default: MEMORY_TENANT, else main.",
)


class _TakingGroup(click.Group):
    """Takes a backup where no subcommand is named: `memory backup FOLDER`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not (args and (args[0] in self.commands or args[0] in ctx.help_option_names)):
            args = ["take", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_TakingGroup, epilog="Example: memory backup /media/stick")
def backup() -> None:
    """Copy all that is not derived: memories, relations, what was decided and noted, keys, Tana's mapping, settings without secrets.

    Only what changed since the last backup is written, compressed, and encrypted where MEMORY_BACKUP_RECIPIENT is set.
    """


@command("memory backup /media/stick", group=backup, hidden=True)
@_place
def take(tenant: "Tenant", place: str | None) -> "Answer":
    """Take a backup of a tenant; others may write meanwhile."""
    return operations.backup.backup(tenant, place)


@command("memory backup list /media/stick", group=backup, name="list")
@_place
def list_backups(tenant: "Tenant", place: str | None) -> "Answer":
    """List the backups of all tenants in a place."""
    return operations.backup.list_backups(tenant.settings, place)


@command("memory backup verify /media/stick", group=backup)
@_place
@_as_of
def verify(tenant: "Tenant", place: str | None, as_of: datetime | None) -> "Answer":
    """Compare every byte and row of the newest backup with its digests. Exits with 1 if something is damaged."""
    return operations.backup.verify(tenant, place, as_of)


@command("memory restore /media/stick", tenant=_new_tenant)
@_place
@click.option("--from", "source", metavar="NAME", help="Whose backup; default: that tenant's, or the only one there.")
@_as_of
@click.option("--skip-damaged", is_flag=True, help="Restore what is whole of a damaged backup.")
@click.option("--with-settings", is_flag=True, help="Write the backup's memory.toml too, unless there is one.")
def restore(tenant: "Tenant", place: str | None, **wanted: Any) -> "Answer":
    """Make a tenant of a backup, and compare every row. Exits with 1 if something damaged was left out."""
    return operations.backup.restore_backup(tenant, place, **wanted)


@command("memory export backup.jsonl   (`-` or nothing writes to standard output)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default=Path("-"))
def export(tenant: "Tenant", file: Path) -> "Answer | None":
    """Write all memories as JSON Lines, one a line, in every state, with their relations; `memory import` takes them in again.

    Lines come as the store holds them, not by time, so that a store of any size is written in little memory. FILE is replaced when
    all are written.
    """
    if str(file) != "-":
        return operations.exchange.export(tenant, file)
    for lines in operations.exchange.exported_lines(tenant):
        say(lines, nl=False)
    return None


@command('memory import memories.jsonl   (lines like {"content": "...", "tags": ["a"]})', name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True))
@click.option("--skip-invalid", is_flag=True, help="Take in the good lines of a file that has bad ones.")
@creating_option
def import_(tenant: "Tenant", file: Path, skip_invalid: bool) -> "Answer":
    """Take in memories from a JSON Lines file. An id that is already there is updated, so an import can be run again.

    `created_at` stays what the line states. `updated_at` says when this store wrote the memory, whatever the line states: what
    follows the store would miss an older time. An unchanged memory is not written, so its `updated_at` stays.
    """
    from memory_assets.cli.progress import progress_bar

    faults = count()

    def report(fault: str) -> None:
        if next(faults) < _MOST_FAULTS:
            say(f"memory: {fault}", err=True)

    with operations.exchange.open_lines(file) as lines, progress_bar() as advance:
        progress = partial(advance, "Importing")
        return operations.exchange.import_lines(
            tenant, str(file), lines, skip_invalid=skip_invalid, on_fault=report, on_progress=progress
        )


@command("MEMORY_EMBEDDER=ollama memory backfill")
def backfill(tenant: "Tenant") -> "Answer":
    """Move the memories to the embedder and the language pipeline of the settings, and full text to this release.

    New vectors are made beside the live ones, in batches, and take their place in one step at the end. Search goes on
    meanwhile with the old embedder; a stopped run goes on where it was.
    """
    from memory_assets.cli.progress import progress_bar

    with progress_bar() as advance:
        return operations.run.backfill(tenant, partial(advance, "Analysing"), partial(advance, "Embedding"))
