"""`memory run`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer, say
from memory_assets.tenants import Tenant

if TYPE_CHECKING:
    from memory_assets.operations.run import StepReport


@click.command("run", epilog="Example: memory run   (then: memory search 'what did we decide about billing')")
@click.option(
    "--gone",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A source folder or file that is gone for good: its memories rest. Without it they stay, and `status` names it.",
)
@common_options
def run(gone: tuple[Path, ...], tenant: Tenant, as_json: bool) -> None:
    """Take in what changed: sources, features, memories, graph, scores. Safe to stop and run again at any time."""
    from memory_assets.cli.progress import StepProgress
    from memory_assets.operations.run import run

    try:
        with StepProgress(shown=not as_json) as progress:

            def report(step: "StepReport") -> None:
                if not as_json:
                    with progress.hidden():
                        print_answer(step, tenant, as_json=False)

            ran = run(tenant, progress.tell, report, gone)
    except KeyboardInterrupt:
        say("memory: Stopped. `memory run` goes on from here.", err=True)
        raise click.exceptions.Exit(130) from None
    if as_json or ran.unchanged_since or ran.is_empty:
        print_answer(ran, tenant, as_json=as_json)
    for check in ran.failed_checks:
        say(f"memory: {check.text()}", err=True)
    if ran.failed_checks:
        raise click.exceptions.Exit(1)
