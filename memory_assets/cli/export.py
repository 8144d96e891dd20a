"""`memory export`."""

from pathlib import Path

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer, say
from memory_assets.tenants import Tenant


@click.command("export", epilog="Example: memory export backup.jsonl   (`-` or nothing writes to standard output)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default=Path("-"))
@common_options
def command(file: Path, tenant: Tenant, as_json: bool) -> None:
    """Write all memories as JSON Lines, one a line, in every state; `memory import` takes them in again.

    Lines come as the store holds them, not by time, so that a store of any size is written in little memory. FILE is replaced when
    all are written.
    """
    from memory_assets.operations.export import export
    from memory_assets.stores.exchange import to_jsonl

    if str(file) != "-":
        print_answer(export(tenant, file), tenant, as_json=as_json)
        return
    for memories in tenant.memories.batches():
        say(to_jsonl(memories), nl=False)
