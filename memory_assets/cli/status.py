"""`memory status`."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json
from memory_assets.tenants import Tenant


@click.command("status", epilog="Example: memory status --refused")
@click.option("--refused", is_flag=True, help="List every refused file and entry with its reason and mend.")
@common_options
def command(refused: bool, tenant: Tenant, as_json: bool) -> None:
    """Count what is remembered, waiting and refused."""
    from memory_assets.ingest.status import tenant_status

    status = tenant_status(tenant)
    if as_json:
        print_json(asdict(status))
        return
    if refused:
        _print_refusals(status.refusals)
        return
    click.secho(f"Tenant {status.tenant}", bold=True)
    click.echo(f"  memories   {_counts(status.memories_by_state) or 'none yet'}")
    click.echo(f"  of kind    {_counts(status.memories_by_kind)}")
    for source, kinds in status.items_by_source.items():
        click.echo(f"  {source:<13}{_counts(kinds)}")
    for slug, kinds in status.items_by_silo.items():
        click.echo(f"    {slug:<32} {_counts(kinds)}")
    click.echo(f"  graph      {status.entities} entities, {status.edges} edges")
    if status.waiting:
        waiting, silos = sum(status.waiting.values()), len(status.waiting)
        click.echo(f"  waiting    {waiting} un-ingested memories across {silos} silos; `memory run` takes them in")
    if status.refusals:
        reasons = Counter(refusal.reason.partition(":")[0] for refusal in status.refusals)
        click.echo(f"  refused    {len(status.refusals)} ({_counts(dict(reasons))}); `memory status --refused` lists them")
    for path, kinds in status.masked.items():
        click.echo(f"  masked     {_counts(kinds)} in {path}: take it out of that file, and change it where it is used")


def _print_refusals(refusals: Any) -> None:
    for refusal in refusals:
        where = f" ({refusal.location})" if refusal.location else ""
        click.echo(f"{refusal.path}{where}")
        click.echo(f"    {refusal.reason}")
        click.echo(f"    mend: {refusal.mend}" if refusal.mend else "    passed over: nothing needs mending")
    click.echo(f"{len(refusals)} refused or passed over; everything else is taken in.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
