"""Draw the graph, or what was learned and Tana knows of it, as one HTML file that works offline."""

from pathlib import Path

from memory_assets.display import counted
from memory_assets.graph.picture import Picture, draw, read_picture
from memory_assets.operations.answers import Answer, LocalTime
from memory_assets.stores.files import writing
from memory_assets.tana.freshness import learning_network
from memory_assets.tenants import Tenant


class Drawn(Answer):
    """A picture that was written."""

    file: Path
    nodes: int
    edges: int

    def text(self, local: LocalTime) -> str:
        drawn = f"{counted(self.nodes, 'node', 'nodes')} and {counted(self.edges, 'edge', 'edges')} drawn to {self.file}"
        return drawn if self.nodes else f"{drawn}\nThe graph is empty; `memory run` builds it."


def draw_graph(tenant: Tenant, file: Path, limit: int) -> Drawn:
    """Draw memories, entities and clusters with their typed edges, at most `limit` nodes, the most relevant first.

    Raises:
        OSError: the file cannot be written; what was there stays.
    """
    return _drawn(read_picture(tenant.catalog, limit), file, f"Memory of {tenant.name}")


def draw_learnings(tenant: Tenant, file: Path) -> Drawn:
    """Draw the learnings of seed.json with what they are linked to in Tana, as it was last read.

    Raises:
        OSError: the file cannot be written; what was there stays.
    """
    tenant.must_own_sources()
    return _drawn(learning_network(tenant), file, "What was learned")


def _drawn(picture: Picture, file: Path, title: str) -> Drawn:
    with writing(file) as page:
        page.write(draw(picture, title).encode("utf-8"))
    return Drawn(file=file.absolute(), nodes=len(picture.ids), edges=len(picture.edges))
