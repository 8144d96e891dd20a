"""A process's copy of what contexts read of a tenant's catalog: entities, patterns, their names, and Tana as it was last read.

Opening the catalog costs more than a walk, so it is read only when its file has changed, and then as a whole. `memory_assets.recall.view`
keeps the links between memories.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from memory_assets.context.names import Names
from memory_assets.context.tana_graph import TanaGraph, read_tana_graph
from memory_assets.errors import StoreBusyError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from memory_assets.stores.catalog import Catalog, Stamp
    from memory_assets.tenants import Tenant

_THINGS = """
    SELECT n.id, n.kind, coalesce(n.label, '') AS label, coalesce(n.type, '') AS type, coalesce(c.summary, '') AS summary,
           coalesce(c.size, 0) AS size
    FROM graph_nodes n LEFT JOIN clusters c ON c.id = n.id WHERE n.kind <> 'memory' ORDER BY n.id
"""
_NAMES = """
    WITH known AS (
        SELECT n.id, a."text" AS name, coalesce(n.type, '') AS type, n.kind = 'entity' AS entity
        FROM graph_aliases a JOIN graph_nodes n ON n.id = a.entity_id
        UNION SELECT id, label, coalesce(type, ''), kind = 'entity' FROM graph_nodes WHERE kind IN ('entity', 'pattern')
        UNION ALL SELECT id, title, '', false FROM graph_memories WHERE live AND title <> ''
    )
    SELECT *, lower(name) AS folded FROM known WHERE name IS NOT NULL ORDER BY id, name
"""


@dataclass(frozen=True)
class CatalogCache:
    """The catalog as it was when it had this stamp."""

    stamp: "Stamp"
    things: "pa.Table"
    """Entities and patterns by `id`: `kind`, `label`, `type`, and `summary` and `size` of a pattern."""
    named: "pa.Table"
    """Spellings of entities, labels of patterns, titles of memories: `id`, `name`, `type`, and whether it is an `entity`."""
    tana: TanaGraph

    @cached_property
    def names(self) -> Names:
        return Names(self.named["folded"].combine_chunks())

    @cached_property
    def thing_ids(self) -> "npt.NDArray[np.int64]":
        return self.things["id"].to_numpy()


_known: "WeakKeyDictionary[Tenant, CatalogCache]" = WeakKeyDictionary()


def current_catalog(tenant: "Tenant") -> CatalogCache:
    """What the catalog says now; while another process writes it, what it said before, or StoreBusyError if it was not read yet."""
    catalog, known = tenant.catalog, _known.get(tenant)
    stamp = catalog.stamp
    if known is None or known.stamp != stamp:
        try:
            known = _read(catalog.interactive, stamp)
        except StoreBusyError:
            if known is None:
                raise
        _known[tenant] = known
    return known


def no_catalog(tenant: "Tenant") -> CatalogCache:
    """The cache of an empty catalog."""
    from memory_assets.stores.catalog import Catalog

    return _read(Catalog(f"{tenant.catalog.path}.absent", 0), ())


def _read(catalog: "Catalog", stamp: "Stamp") -> CatalogCache:
    with catalog.read() as connection:
        things, named = (connection.execute(query).to_arrow_table() for query in (_THINGS, _NAMES))
        return CatalogCache(stamp, things, named, read_tana_graph(connection))
