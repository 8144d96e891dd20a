"""`memory backfill`."""

from functools import partial

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("backfill", epilog="Example: MEMORY_EMBEDDER=ollama memory backfill")
@common_options
def command(tenant: Tenant, as_json: bool) -> None:
    """Move the memories to the embedder and the language pipeline of the settings, and full text to this release.

    New vectors are made beside the live ones, in batches, and take their place in one step at the end. Search goes on
    meanwhile with the old embedder; a stopped run goes on where it was.
    """
    from memory_assets.cli.progress import progress_bar
    from memory_assets.operations.backfill import backfill

    with progress_bar(shown=not as_json) as advance:
        answer = backfill(tenant, partial(advance, "Analysing"), partial(advance, "Embedding"))
    print_answer(answer, tenant, as_json=as_json)
