"""`memory status`."""

import sys
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say, say_folded
from memory_assets.display import visible
from memory_assets.models import Source
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.ingest.status import FolderStatus, TenantStatus

_PIPE_WIDTH = 200
"""Characters of a line that goes to no terminal, so that no name is folded."""
_COLUMNS = ("entries", "taken_in", "guessed", "refused", "passed_over", "waiting", "kept")


@click.command("status", epilog="Example: memory status --refused")
@click.option("--refused", is_flag=True, help="List what was refused, passed over or guessed, file by file, with what mends it.")
@common_options
def command(refused: bool, tenant: Tenant, as_json: bool) -> None:
    """Count what is remembered, and what became of every source file."""
    from memory_assets.ingest.status import tenant_status

    status = tenant_status(tenant)
    if as_json:
        print_json(asdict(status))
    elif refused:
        _print_files(status)
    else:
        _print_counts(status)


def _print_counts(status: "TenantStatus") -> None:
    say(f"Tenant {status.tenant}", bold=True)
    say(f"  memories      {_counts(status.memories_by_state) or 'none yet'}")
    if status.memories_by_kind:
        say_folded("  of kind       ", _counts(status.memories_by_kind))
    for source, kinds in status.items_by_source.items():
        say_folded(f"  {source:<14}", _counts(kinds))
    say(f"  graph         {status.entities} entities, {status.edges} edges")
    if status.unfinished:
        say_folded("  last run      ", f"did not finish: {status.unfinished} texts wait to become memories; `memory run` goes on")
    if failed := status.chat_model:
        say_folded(
            "  chat model    ",
            f"failed on {failed.memories} memories, which it is asked about again in the next runs; last: {failed.last}",
        )
    for path, kinds in status.masked.items():
        say_folded("  masked        ", f"{_counts(kinds)} in {path}: take it out of that file, and change it where it is used")
    if status.folders:
        say("")
        _print_table(status.folders)
    if waiting := sum(folder.waiting for folder in status.folders):
        say_folded("", f"{waiting} files wait; `memory run` takes them in.")
    if status.refusals or status.guessed or status.remarks:
        say_folded("", "`memory status --refused` names what was refused, passed over or guessed, and what mends it.")


def _print_table(folders: "tuple[FolderStatus, ...]") -> None:
    """A line a folder; columns that are zero throughout are left out."""
    from rich.console import Console
    from rich.table import Table

    shown = [name for name in _COLUMNS if name == "entries" or any(getattr(folder, name) for folder in folders)]
    table = Table(box=None, pad_edge=False, show_footer=len(folders) > 1, header_style="bold", footer_style="bold")
    table.add_column("folder", footer="in all", overflow="fold")
    for name in shown:
        total = sum(getattr(folder, name) for folder in folders)
        table.add_column(name.replace("_", " "), footer=str(total), justify="right", no_wrap=True)
    for folder in folders:
        table.add_row(visible(_name(folder)), *(str(getattr(folder, name) or "·") for name in shown))
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def _name(folder: "FolderStatus") -> str:
    """A silo's slug; the last two parts of another folder's path."""
    path = PurePath(folder.folder)
    return path.parent.name if folder.source is Source.CLAUDE_SILO else "/".join(path.parts[-2:])


def _print_files(status: "TenantStatus") -> None:
    for refusal in sorted(status.refusals, key=lambda refusal: refusal.passed_over):
        where = f" ({refusal.location})" if refusal.location else ""
        say(f"{refusal.path}{where}")
        say_folded("    ", f"{'passed over: ' if refusal.passed_over else ''}{refusal.reason}")
        if refusal.mend:
            say_folded("    mend: ", refusal.mend)
    for path, fields in status.guessed.items():
        say(path)
        say(f"    guessed: {', '.join('time' if field == 'created_at' else field for field in fields)}")
    for remark in status.remarks:
        say_folded("", remark)
    sums = {name.replace("_", " "): sum(getattr(folder, name) for folder in status.folders) for name in _COLUMNS}
    entries, guessed, kept = sums.pop("entries"), sums.pop("guessed"), sums.pop("kept")
    say_folded("", f"Of {entries} files: {_counts(sums)}; of those taken in, {guessed} with a guessed kind or time.")
    if kept:
        say(f"{kept} more are known from folders that are gone or closed, and what is remembered from them stays.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
