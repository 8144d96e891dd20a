"""`memory import`."""

from functools import partial
from itertools import count
from pathlib import Path

import click

from memory_assets.cli.options import creating_options
from memory_assets.cli.output import print_answer, say
from memory_assets.tenants import Tenant

_MOST_SHOWN = 10


@click.command("import", epilog='Example: memory import memories.jsonl   (lines like {"content": "...", "tags": ["a"]})')
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True))
@click.option("--skip-invalid", is_flag=True, help="Take in the good lines of a file that has bad ones.")
@creating_options
def command(file: Path, skip_invalid: bool, tenant: Tenant, as_json: bool) -> None:
    """Take in memories from a JSON Lines file. An id that is already there is updated, so an import can be run again."""
    from memory_assets.cli.progress import progress_bar
    from memory_assets.operations.import_ import import_lines

    told = count()

    def tell(fault: str) -> None:
        if next(told) < _MOST_SHOWN:
            say(f"memory: {fault}", err=True)

    with click.open_file(str(file), "rb") as lines, progress_bar(shown=not as_json) as advance:
        answer = import_lines(
            tenant, str(file), lines, skip_invalid=skip_invalid, on_fault=tell, on_progress=partial(advance, "Importing")
        )
    print_answer(answer, tenant, as_json=as_json)
