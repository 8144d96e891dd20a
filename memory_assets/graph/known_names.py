"""Names that text analysis learns from the graph: people that several memories mention, and projects."""

import re
from typing import TYPE_CHECKING

from memory_assets.ingest.scans import active_projects
from memory_assets.language.entity_types import EntityType
from memory_assets.stores.layout import write_known_names

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_MIN_MENTIONS = 2
"""Memories that must mention a person. A single mention may be a mistake, which must not confirm itself."""
_MAX_PEOPLE = 10_000
"""People kept, the most mentioned first; every process that analyses texts loads them."""
_HOME = re.compile(
    r"^(?:/(?:home|Users)/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)(?:[\\/](?:Desktop|Documents|Downloads))?[\\/]?$"
)
_LAST_PART = re.compile(r"[\\/]([^\\/]+)[\\/]?$")


def project_name(project: str) -> str:
    """Return a working directory's project: its last part in lower case, or "" for a home folder or a slug."""
    found = None if _HOME.match(project) else _LAST_PART.search(project)
    return found[1].lower() if found else ""


def refresh_known_names(tenant: "Tenant") -> bool:
    """Write the known names if they changed; return whether they did."""
    with tenant.catalog.read() as connection:
        rows = connection.execute(
            """
            (
                SELECT label, type FROM graph_nodes
                JOIN (SELECT entity_id AS id, count(*) AS memories FROM graph_mentions GROUP BY ALL HAVING memories >= $1) USING (id)
                WHERE kind = 'entity' AND type = 'PERSON' AND contains(label, ' ') AND label <> upper(label)
                ORDER BY memories DESC, label LIMIT $2
            )
            UNION ALL
            SELECT DISTINCT project_name, 'PROJECT' FROM graph_memories WHERE live AND length(project_name) >= 3
            """,
            [_MIN_MENTIONS, _MAX_PEOPLE],
        ).fetchall()
    names = dict(rows)
    if tenant.is_sources_tenant:
        names |= dict.fromkeys(active_projects(tenant.catalog), EntityType.PROJECT.value)
    return write_known_names(tenant.state, names)
