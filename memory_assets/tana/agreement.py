"""Whether the mapping and Tana agree: every mapped node is there, and no entry has two."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.tana.client import TanaClient
from memory_assets.tana.errors import TanaNotFoundError
from memory_assets.tana.ledger import Ledger
from memory_assets.tana.mapping import Mapping
from memory_assets.tana.markdown import read_node
from memory_assets.tana.schema import SEED_ID
from memory_assets.tana.workspaces import resolve_workspace

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What of the mapping does not hold in Tana, as seed ids."""

    lost: tuple[str, ...]
    """Mapped to nodes that Tana does not know."""
    twice: tuple[str, ...]
    """With more than one node."""


def disagreement(tenant: "Tenant", client: TanaClient) -> Disagreement:
    """Compare the mapping with what lies below the node that learnings go below, and with each mapped node that does not.

    Raises:
        TanaError: Tana cannot be asked.
        StoreError: mapping or ledger cannot be used.
    """
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    parent = tenant.settings.tana_parent or Ledger(tenant.folder).fact(f"parent of {workspace.id}")
    there = read_node(client.read(parent, depth=2).markdown).children if parent else []
    counts = Counter(seed_id for node in there for seed_id in node.texts(SEED_ID))
    known = {node.id for node in there}
    lost = [
        key for key, node in Mapping.load(tenant.settings.pai_mapping).nodes.items() if node not in known and _gone(client, node)
    ]
    return Disagreement(tuple(lost), tuple(key for key, count in counts.items() if count > 1))


def _gone(client: TanaClient, node: str) -> bool:
    try:
        client.read(node, depth=0)
    except TanaNotFoundError:
        return True
    return False
