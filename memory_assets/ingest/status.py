"""What a tenant holds, what waits to be taken in, and what is refused."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.ingest.scans import known_stamps, refusals
from memory_assets.models import Refusal, Source
from memory_assets.sources import claude_silos

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


_SILOS = """
    SELECT split_part(split_part(key, ':', 2), '/', 1) AS slug, kind, count(*)
    FROM source_items WHERE source = 'claude_silo' GROUP BY ALL
    UNION ALL
    SELECT regexp_extract(path, '([^/]+)/memory(/|$)', 1) AS slug, if(mend = '', 'passed over', 'refused'), count(*)
    FROM source_refusals WHERE source = 'claude_silo' GROUP BY ALL
    ORDER BY ALL
"""
_MASKED = r"""
    SELECT path, kind, count(*)
    FROM (SELECT path, unnest(regexp_extract_all(held, '\[secret: ([a-z0-9 ]{1,30})\]', 1)) AS kind
          FROM (SELECT path, i::VARCHAR AS held FROM source_items i UNION ALL SELECT path, hook FROM source_hooks)
          WHERE contains(held, '[secret: '))
    GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """Counts of one tenant."""

    tenant: str
    memories_by_state: dict[str, int]
    memories_by_kind: dict[str, int]
    """Active ones only."""
    items_by_source: dict[str, dict[str, int]]
    """Source -> kind -> items known from files, remembered or not."""
    items_by_silo: dict[str, dict[str, int]]
    """Claude Code silo (slug) -> kind -> files; `refused` among the kinds."""
    entities: int
    edges: int
    waiting: dict[str, int]
    """Silo folder -> files that are new or changed since the last run."""
    refusals: tuple[Refusal, ...]
    masked: dict[str, dict[str, int]]
    """Source file -> kind -> keys and passwords in it that were masked; the file still holds them."""


def tenant_status(tenant: "Tenant") -> TenantStatus:
    """Count what the tenant's stores hold; silo files are compared by `stat`, and only new ones are read.

    Raises:
        StoreError: a store cannot be read.
    """
    rows = tenant.memories.scan(("state", "kind"))
    states = Counter(rows["state"].to_pylist())
    kinds = Counter(
        kind for kind, state in zip(rows["kind"].to_pylist(), rows["state"].to_pylist(), strict=True) if state == "active"
    )
    with tenant.catalog.read() as connection:
        items: dict[str, dict[str, int]] = {}
        for source, kind, count in connection.execute(
            "SELECT source, kind, count(*) FROM source_items GROUP BY ALL ORDER BY ALL"
        ).fetchall():
            items.setdefault(source, {})[kind] = count
        silos: dict[str, dict[str, int]] = {}
        for slug, kind, count in connection.execute(_SILOS).fetchall():
            silos.setdefault(slug, {})[kind] = count
        masked: dict[str, dict[str, int]] = {}
        for path, kind, count in connection.execute(_MASKED).fetchall():
            masked.setdefault(path, {})[kind] = count
        entities, edges = connection.execute(
            "SELECT (SELECT count(*) FROM graph_nodes WHERE kind = 'entity'), (SELECT count(*) FROM graph_edges)"
        ).fetchone() or (0, 0)
    return TenantStatus(
        tenant.name,
        dict(states),
        dict(kinds),
        items,
        silos,
        entities,
        edges,
        _waiting(tenant),
        refusals(tenant.catalog),
        masked,
    )


def _waiting(tenant: "Tenant") -> dict[str, int]:
    if tenant.name != tenant.settings.tenant:
        return {}
    known = known_stamps(tenant.catalog, Source.CLAUDE_SILO)
    scan = claude_silos.scan(tenant.settings.claude_projects_dir, known)
    return dict(Counter(str(Path(file.path).parent) for file in scan.changed if file.items))
