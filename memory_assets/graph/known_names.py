"""The names that the graph knows, for the analyzer: projects and people, so that they are found in any casing.

They are kept in a small file beside the catalog, which the graph asset replaces when they change; reading it costs next to
nothing and opens no store. They take part in the analysis of texts that are new or changed. Texts that are analysed already are
not analysed again for their sake: an analyzer's name does not depend on them, so a new name never starts the whole store over.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.language.entity_types import EntityType
from memory_assets.stores.files import replace_file

if TYPE_CHECKING:
    from memory_assets.stores.catalog import Catalog
    from memory_assets.tenants import Tenant

FILE_NAME = "known_names.json"
_LEAST_MENTIONS = 2
"""Memories that must mention a person: a single mention may be a mistake, and a mistake must not confirm itself."""
_HOME = re.compile(
    r"^(?:/(?:home|Users)/[^/]+|/root|[A-Za-z]:[\\/]Users[\\/][^\\/]+)(?:[\\/](?:Desktop|Documents|Downloads))?[\\/]?$"
)
_LAST_PART = re.compile(r"[\\/]([^\\/]+)[\\/]?$")
_MOST_SEED_BYTES = 10_000_000


def project_name(project: str) -> str:
    """The lower-case name of the project that a working directory belongs to: its last part; none for a home folder or a slug."""
    found = None if _HOME.match(project) else _LAST_PART.search(project)
    return found[1].lower() if found else ""


def known_names(tenant: "Tenant") -> Mapping[str, str]:
    """Names that the graph knows -> their entity type, as of its last build; none before the first."""
    path = tenant.folder / FILE_NAME
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return names if isinstance(names, dict) else {}


def refresh_known_names(tenant: "Tenant") -> bool:
    """Write the names down if they changed.

    Returns:
        Whether they did.

    Raises:
        StoreError: the catalog cannot be read.
    """
    names = _people_and_projects(tenant.catalog)
    if tenant.name == tenant.settings.tenant:
        names |= dict.fromkeys(_active_projects(tenant.settings.pai_seed), EntityType.PROJECT.value)
    if names == known_names(tenant):
        return False
    replace_file(tenant.folder / FILE_NAME, json.dumps(names, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    return True


def _people_and_projects(catalog: "Catalog") -> dict[str, str]:
    with catalog.read() as connection:
        rows = connection.execute(
            """
            SELECT label, type FROM graph_nodes n JOIN graph_mentions m ON m.entity_id = n.id
            WHERE n.kind = 'entity' AND type = 'PERSON' AND contains(label, ' ') AND label <> upper(label)
            GROUP BY n.id, label, type HAVING count(*) >= $1
            UNION ALL
            SELECT DISTINCT project_name, 'PROJECT' FROM graph_memories WHERE live AND length(project_name) >= 3
            """,
            [_LEAST_MENTIONS],
        ).fetchall()
    return dict(rows)


def _active_projects(seed: Path) -> list[str]:
    """`state.activeProjects` of pai-seed's file; none where it cannot be read."""
    try:
        if seed.stat().st_size > _MOST_SEED_BYTES:
            return []
        state = json.loads(seed.read_text(encoding="utf-8-sig")).get("state")
    except (OSError, ValueError, AttributeError):
        return []
    active = state.get("activeProjects") if isinstance(state, dict) else None
    return [name.strip() for name in active if isinstance(name, str) and name.strip()] if isinstance(active, list) else []
