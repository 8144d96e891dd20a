"""`memory graph`."""

from pathlib import Path

import click

from memory_assets.cli.options import common_options
from memory_assets.cli.output import print_json, say
from memory_assets.tenants import Tenant


@click.command("graph", epilog="Example: memory graph graph.html   (then open the file in a browser)")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("graph.html"))
@click.option("--limit", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Most nodes that are drawn.")
@common_options
def command(file: Path, limit: int, tenant: Tenant, as_json: bool) -> None:
    """Draw memories, entities and clusters with their typed edges as one HTML file that works offline."""
    from memory_assets.graph.picture import draw, read_picture
    from memory_assets.stores.files import replace_file

    picture = read_picture(tenant.catalog, limit)
    replace_file(file.absolute(), draw(picture, f"Memory of {tenant.name}"))
    if as_json:
        print_json({"file": str(file.absolute()), "nodes": len(picture.ids), "edges": len(picture.edges)})
    else:
        say(f"{len(picture.ids)} nodes and {len(picture.edges)} edges drawn to {file}")
        if not picture.ids:
            say("The graph is empty; `memory run` builds it.")
