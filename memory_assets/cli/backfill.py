"""`memory reembed`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json
from memory_assets.tenants import Tenant


@click.command("reembed", epilog="Example: MEMORY_EMBEDDER=ollama memory reembed")
@common_options
def command(tenant: Tenant, as_json: bool) -> None:
    """Move the memories to the embedder of the settings.

    The new vectors are made beside the live ones, in batches, and take their place in one step at the end. Search goes on
    meanwhile with the old embedder; a stopped run goes on where it was.
    """
    from memory_assets.cli.progress import progress_bar
    from memory_assets.ingest.reembedding import reembed

    with progress_bar("Embedding", shown=not as_json) as advance:
        outcome = reembed(tenant.memories, tenant.embedder, advance)
    if as_json:
        print_json({"embedder": tenant.embedder.name, "embedded": outcome})
    else:
        click.echo(f"{outcome} memories embedded; {tenant.embedder.name} is the live embedder.")
