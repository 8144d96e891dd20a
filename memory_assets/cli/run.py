"""`memory run`, which runs the pipeline, and `memory consolidate`, which runs a sleep cycle."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_assets import operations
from memory_assets.cli.command import command, dry_run_option, print_answer, say
from memory_assets.cli.progress import StepProgress

if TYPE_CHECKING:
    from memory_assets.operations.answers import Answer
    from memory_assets.operations.run import StepReport
    from memory_assets.tenants import Tenant


@command("memory run   (then: memory search 'what did we decide about billing')", prints=True)
@click.option(
    "--gone",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Source folder or file that was removed for good: its memories leave recall. Otherwise they stay, and `status` names it.",
)
@click.option("--quick", is_flag=True, help="Only make changed texts searchable; graph and scores follow with the next run.")
def run(tenant: "Tenant", gone: tuple[Path, ...], quick: bool, as_json: bool) -> None:
    """Take in what changed: sources, features, memories, graph, scores. Safe to stop and run again at any time."""
    if quick:
        print_answer(operations.take_in.take_in(tenant), tenant, as_json=as_json)
        return
    try:
        with StepProgress(shown=not as_json) as progress:

            def report(step: "StepReport") -> None:
                if not as_json:
                    with progress.hidden():
                        print_answer(step, tenant, as_json=False)

            ran = operations.run.run(tenant, progress.tell, report, gone)
    except KeyboardInterrupt:
        say("memory: Stopped. `memory run` goes on from here.", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json or ran.unchanged_since or ran.is_empty:
        print_answer(ran, tenant, as_json=as_json)
    for check in ran.failed_checks:
        say(f"memory: {check.text()}", err=True)
    if ran.failed_checks:
        raise click.exceptions.Exit(1)


@click.group(epilog="Example: memory consolidate forget --dry-run")
def consolidate() -> None:
    """Run a sleep cycle now: decay, creative, cluster or forget. With --dry-run it only shows what it would do."""


def _add_cycle(name: str, about: str) -> None:
    @command(f"memory consolidate {name} --dry-run", group=consolidate, name=name, help=about)
    @dry_run_option
    def cycle(tenant: "Tenant", dry_run: bool) -> "Answer":
        return getattr(operations.consolidate, name)(tenant, dry_run=dry_run)


_add_cycle("decay", "Daily: score every memory as of now; archived memories that are relevant again return.")
_add_cycle("creative", "Weekly: connect similar memories that no edge connects.")
_add_cycle("cluster", "Monthly: cluster similar memories into patterns with a summary.")


@command("memory consolidate forget --dry-run", group=consolidate)
@dry_run_option
@click.option("--yes", is_flag=True, help="Even if these are more than MEMORY_FORGET_AT_MOST (a tenth) of the active memories.")
def forget(tenant: "Tenant", dry_run: bool, yes: bool) -> "Answer":
    """Quarterly: archive memories of low relevance; delete only if MEMORY_FORGET_DELETES is on."""
    return operations.consolidate.forget(tenant, dry_run=dry_run, however_many=yes)
