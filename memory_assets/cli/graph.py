"""`memory graph`."""

from pathlib import Path

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_answer
from memory_assets.tenants import Tenant


@click.command("graph", epilog="Example: memory graph graph.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("graph.html"))
@click.option("--limit", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Most nodes that are drawn.")
@common_options
def command(file: Path, limit: int, tenant: Tenant, as_json: bool) -> None:
    """Draw memories, entities and clusters with their typed edges as one HTML file that works offline."""
    from memory_assets.operations.graph import draw_graph

    print_answer(draw_graph(tenant, file, limit), tenant, as_json=as_json)
