"""`memory run`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say, say_folded
from memory_assets.ingest.scans import let_go
from memory_assets.tenants import Tenant

_SHOWN = {
    "silo_files": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "seed_entries": ("files_read", "files_unchanged", "refused"),
    "learning_entries": ("files_read", "files_unchanged", "files_vanished", "refused"),
    "memory_entries": ("added", "changed", "removed"),
    "extracted_features": ("analysed", "failed"),
    "memories": ("added", "updated", "superseded", "vanished", "returned", "embedded_anew"),
    "graph_edges": ("memories", "entities", "written"),
    "relevance_scores": ("below_archive_threshold",),
}
"""Step -> the figures of it that a person wants to see; those that are zero are left out."""


@click.command("run", epilog="Example: memory run   (then: memory search 'what did we decide about billing')")
@click.option(
    "--gone",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A source folder or file that is gone for good: its memories rest. Without it they stay, and `status` names it.",
)
@common_options
def command(gone: tuple[Path, ...], tenant: Tenant, as_json: bool) -> None:
    """Take in what changed: sources, features, memories, graph, scores. Safe to stop and run again at any time."""
    from memory_assets.cli.progress import StepProgress

    for path in gone:
        let_go(tenant.catalog, path)

    reports = {}
    with StepProgress(shown=not as_json) as progress:
        from memory_assets.defs.runner import StepReport, run_remember

        def report(step: StepReport) -> None:
            reports[step.asset] = step.metadata
            if as_json:
                return
            with progress.hidden():
                say_folded(f"{step.asset:<20}", _line(step.asset, step.metadata))
                if failure := step.metadata.get("analyzer", {}).get("failure"):
                    say_folded(f"{'chat model':<20}", f"{failure} The next run asks again.", fg="yellow")

        failed = run_remember(tenant, progress.tell, report)
    if as_json:
        print_json({"assets": reports, "failed_checks": [asdict(check) for check in failed]})
    for check in failed:
        say(f"memory: the check {check.name} of {check.asset} found {check.faults} fault(s): {check.mend}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _line(asset: str, metadata: dict[str, Any]) -> str:
    figures = [f"{metadata[name]} {name.replace('_', ' ')}" for name in _SHOWN.get(asset, ()) if metadata.get(name)]
    total = metadata.get("dagster/partition_row_count", 0)
    return f"{total:>6} rows  {metadata.get('seconds', 0):>7.2f} s  {', '.join(figures) or 'nothing new'}"
