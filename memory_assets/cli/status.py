"""`memory status`."""

from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
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
    say(f"Tenant {status.tenant}", bold=True)
    say(f"  memories   {_counts(status.memories_by_state) or 'none yet'}")
    say(f"  of kind    {_counts(status.memories_by_kind)}")
    for source, kinds in status.items_by_source.items():
        say(f"  {source:<13}{_counts(kinds)}")
    for slug, kinds in status.items_by_silo.items():
        say(f"    {slug:<32} {_counts(kinds)}")
    say(f"  graph      {status.entities} entities, {status.edges} edges")
    if status.waiting:
        waiting, silos = sum(status.waiting.values()), len(status.waiting)
        say(f"  waiting    {waiting} un-ingested memories across {silos} silos; `memory run` takes them in")
    if status.refusals:
        reasons = Counter(refusal.reason.partition(":")[0] for refusal in status.refusals)
        say(f"  refused    {len(status.refusals)} ({_counts(dict(reasons))}); `memory status --refused` lists them")
    for path, kinds in status.masked.items():
        say(f"  masked     {_counts(kinds)} in {path}: take it out of that file, and change it where it is used")


def _print_refusals(refusals: Any) -> None:
    for refusal in refusals:
        where = f" ({refusal.location})" if refusal.location else ""
        say(f"{refusal.path}{where}")
        say(f"    {refusal.reason}")
        say(f"    mend: {refusal.mend}" if refusal.mend else "    passed over: nothing needs mending")
    say(f"{len(refusals)} refused or passed over; everything else is taken in.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
