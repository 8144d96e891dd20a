"""`memory export`."""

from pathlib import Path

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import say
from memory_assets.tenants import Tenant


@click.command("export", epilog="Example: memory export backup.jsonl   (`-` or nothing writes to standard output)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True), default=Path("-"))
@common_options
def command(file: Path, tenant: Tenant, as_json: bool) -> None:  # noqa: ARG001
    """Write all memories as JSON Lines, one a line, in every state; `memory import` takes them in again."""
    from memory_assets.stores.exchange import to_jsonl
    from memory_assets.stores.files import replace_file
    from memory_assets.stores.rows import COLUMNS, from_arrow

    memories = from_arrow(tenant.memories.scan(COLUMNS).sort_by([("created_at", "ascending"), ("id", "ascending")]))
    lines = to_jsonl(memories)
    if str(file) == "-":
        say(lines, nl=False)
        return
    replace_file(file, lines)
    say(f"{len(memories)} memories written to {file}", err=True)
