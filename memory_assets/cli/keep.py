"""Commands that copy memories out and in: backup, restore, export, import. Also backfill, which recomputes them."""

import os
import signal
import sys
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_assets import operations
from memory_assets.cli.command import TENANT, chosen_tenant, command, creating_option, open_tenant, say, time_option
from memory_assets.cli.progress import progress_bar

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.tenants import Tenant

_MOST_FAULTS = 10
_place = click.argument("place", metavar="[FOLDER|s3://...]", required=False)
_as_of = time_option("--as-of", metavar="TIME", help="Use the newest backup at or before TIME, such as 2026-03-14 or 7d.")

_new_tenant = click.Option(
    ["--tenant"],
    callback=open_tenant,
    metavar="NAME",
    help="New or empty tenant to restore into; default: MEMORY_TENANT, else main.",
)


def _find_settings_file(_context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> Path | None:
    """Return where the settings are restored to. If `MEMORY_CONFIG` names a new file, the command itself runs without one."""
    if not is_wanted:
        return None
    from memory_assets.settings import config_file

    file = config_file()
    if os.environ.get("MEMORY_CONFIG") and not os.path.lexists(file):
        os.environ["MEMORY_CONFIG"] = os.devnull
    return file


class _TakingGroup(click.Group):
    """Runs `take` if no subcommand is named: `memory backup FOLDER`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not (args and (args[0] in self.commands or args[0] in ctx.help_option_names)):
            args = ["take", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_TakingGroup, epilog="Example: memory backup /media/stick")
def backup() -> None:
    """Back up all data that cannot be derived: memories, relations, decisions, notes, keys, Tana's mapping, settings without secrets.

    Only changes since the last backup are written, compressed, and encrypted if MEMORY_BACKUP_RECIPIENT is set.
    """


@command("memory backup /media/stick", group=backup, hidden=True)
@_place
def take(tenant: "Tenant", place: str | None) -> "Answer":
    """Back up a tenant; other processes may write meanwhile."""
    return operations.backup.backup(tenant, place)


@command("memory backup list /media/stick", group=backup, name="list")
@_place
def list_backups(tenant: "Tenant", place: str | None) -> "Answer":
    """List the backups of all tenants in a place."""
    return operations.backup.list_backups(tenant.settings, place)


def _note_tenant(context: click.Context, parameter: click.Parameter, name: str | None) -> "Tenant":
    """Note the name for `chosen_tenant`; the tenant need not exist."""
    context.meta[TENANT] = chosen_tenant(name)
    return open_tenant(context, parameter, name)


@command(
    "memory backup verify /media/stick",
    group=backup,
    tenant=click.Option(
        ["--tenant"],
        callback=_note_tenant,
        metavar="NAME",
        help="Tenant whose backup is compared; default: every tenant in the place.",
    ),
)
@_place
@_as_of
def verify(tenant: "Tenant", place: str | None, as_of: datetime | None) -> "Answer":
    """Compare every byte and row of each tenant's newest backup with its digests. Exits with 1 if something is damaged."""
    return operations.backup.verify(tenant.settings, place, chosen_tenant(None), as_of)


@command("memory restore /media/stick", tenant=_new_tenant)
@_place
@click.option(
    "--from",
    "source",
    metavar="NAME",
    help="Tenant whose backup is restored; default: the same tenant, or the only one in the place.",
)
@_as_of
@click.option("--skip-damaged", is_flag=True, help="Restore the undamaged parts of a damaged backup.")
@click.option(
    "--with-settings",
    "settings_file",
    is_flag=True,
    is_eager=True,
    callback=_find_settings_file,
    help="Write the backup's memory.toml too, unless there is one.",
)
def restore(tenant: "Tenant", place: str | None, **wanted: Any) -> "Answer":
    """Restore a tenant from a backup, and compare every row. Exits with 1 if something damaged was left out."""
    return operations.backup.restore_backup(tenant, place, **wanted)


@command("memory export backup.jsonl   (`-` or nothing writes to standard output)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default=Path("-"))
def export(tenant: "Tenant", file: Path) -> "Answer | None":
    """Write all memories as JSON Lines, in every state, with their relations; `memory import` reads them.

    Lines are in the store's order, not by time, so that a store of any size needs little RAM. FILE is replaced when all are written.
    """
    if str(file) != "-":
        ending = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]  # as by nohup
        before = [signal.signal(number, lambda received, _: sys.exit(128 + received)) for number in ending]
        try:
            return operations.exchange.export(tenant, file)  # an exit removes the unfinished file
        finally:
            for number, handler in zip(ending, before, strict=True):
                signal.signal(number, handler)
    for lines in operations.exchange.export_lines(tenant):
        say(lines, nl=False)
    return None


@command('memory import memories.jsonl   (lines like {"content": "...", "tags": ["a"]})', name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True))
@click.option("--skip-invalid", is_flag=True, help="Import the valid lines of a file with invalid ones.")
@creating_option
def import_(tenant: "Tenant", file: Path, skip_invalid: bool) -> "Answer":
    """Import memories from a JSON Lines file. A known id is updated, so an import can be repeated.

    `created_at` is taken from the line. `updated_at` is the time at which this store wrote the memory, whatever the line says, so that
    programs that follow the store see the change. An unchanged memory is not written.
    """
    faults = count()

    def report(fault: str) -> None:
        if next(faults) < _MOST_FAULTS:
            say(f"memory: {fault}", err=True)

    with operations.exchange.open_lines(file) as lines, progress_bar() as advance:
        return operations.exchange.import_lines(
            tenant,
            str(file),
            lines,
            skip_invalid=skip_invalid,
            on_fault=report,
            on_progress=partial(advance, "Importing"),
            on_check=partial(advance, "Looking for secrets"),
        )


@command("MEMORY_EMBEDDER=ollama memory backfill")
def backfill(tenant: "Tenant") -> "Answer":
    """Recompute memories with the settings' embedder and language pipeline, and full text with this release.

    New vectors are made in batches and replace the live ones in one step at the end. Search uses the old embedder meanwhile;
    a stopped run continues where it was.
    """
    with progress_bar() as advance:
        return operations.run.backfill(tenant, partial(advance, "Analysing"), partial(advance, "Embedding"))
