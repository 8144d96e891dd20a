"""`memory backfill`."""

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
from memory_assets.tenants import Tenant


@click.command("backfill", epilog="Example: MEMORY_EMBEDDER=ollama memory backfill")
@common_options
def command(tenant: Tenant, as_json: bool) -> None:
    """Move the memories to the embedder and the language pipeline of the settings, and full text to this release.

    New vectors are made beside the live ones, in batches, and take their place in one step at the end. Search goes on
    meanwhile with the old embedder; a stopped run goes on where it was.
    """
    from memory_assets.cli.progress import progress_bar
    from memory_assets.ingest.backfill import reanalyse, reembed, reindex

    indexed = reindex(tenant.memories)
    with progress_bar("Analysing", shown=not as_json) as advance:
        analysed = reanalyse(tenant.memories, tenant.analyzer, advance)
    with progress_bar("Embedding", shown=not as_json) as advance:
        embedder = tenant.open_embedder(tenant.settings.embedder)
        embedded = reembed(tenant.memories, embedder, advance)
    if as_json:
        print_json(
            {
                "pipeline": tenant.analyzer.name,
                "analysed": analysed,
                "embedder": embedder.name,
                "embedded": embedded,
                "indexed": indexed,
            }
        )
    else:
        say(f"{analysed} memories analysed by {tenant.analyzer.name}, {embedded} embedded by {embedder.name}, {indexed} indexed.")
