"""Compares Tana with mapping and ledger: nodes that are lost or there twice, and mirrored fields that a person changed (FR-17)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_assets.tana.client import TanaClient
from memory_assets.tana.config import resolve_workspace
from memory_assets.tana.errors import TanaNotFoundError
from memory_assets.tana.formats import Outline
from memory_assets.tana.ledger import NAME, Ledger, Sent
from memory_assets.tana.schema import SEED_ID, plain
from memory_assets.tana.state import Mapping

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant


def find_edits(ledger: Ledger, held: Iterable[Outline], *, keep: bool = True) -> dict[str, list[str]]:
    """The mirrored fields of each entry that Tana shows otherwise than after they were sent: seed id -> names of fields.

    `held` are nodes as Tana shows them now. With `keep` the ledger notes how a field is shown for the first time after it was sent.
    """
    by_node = {outline.id: outline for outline in held}
    known = ledger.shown()
    edits: dict[str, list[str]] = {}
    first: dict[str, tuple[str, dict[str, str]]] = {}
    for seed_id, sent in ledger.sent().items():
        if sent.node not in by_node or not sent.digest:
            continue
        now = _shown(by_node[sent.node], sent)
        digest, before = known.get(seed_id, ("", {}))
        if digest != sent.digest:
            first[seed_id] = sent.digest, now
        elif changed := [name for name, value in now.items() if before.get(name, value) != value]:
            edits[seed_id] = changed
    if keep and first:
        ledger.note_shown(first)
    return edits


def _shown(held: Outline, sent: Sent) -> dict[str, str]:
    values = {plain(name): "\n".join(held.texts(name)) for name in held.fields}
    return {NAME: held.name} | {name: values.get(plain(name), "") for name in sent.fields}


@dataclass(frozen=True, slots=True)
class MappingFaults:
    """What of the mapping does not hold in Tana, as seed ids."""

    lost: tuple[str, ...]
    """Mapped to nodes that Tana does not know."""
    duplicated: tuple[str, ...]
    """With more than one node."""


def compare_mapping(tenant: "Tenant", client: TanaClient) -> MappingFaults:
    """Compare the mapping with what lies below the node that learnings go below, and with each mapped node that does not."""
    workspace = resolve_workspace(tenant.settings, client.workspaces())
    parent = tenant.settings.tana_parent or Ledger(tenant.folder).fact(f"parent of {workspace.id}")
    there = client.read(parent, depth=2).children if parent else []
    counts = Counter(seed_id for node in there for seed_id in node.texts(SEED_ID))
    known = {node.id for node in there}
    lost = [
        key for key, node in Mapping.load(tenant.settings.pai_mapping).nodes.items() if node not in known and _gone(client, node)
    ]
    return MappingFaults(tuple(lost), tuple(key for key, count in counts.items() if count > 1))


def _gone(client: TanaClient, node: str) -> bool:
    try:
        client.read(node, depth=0)
    except TanaNotFoundError:
        return True
    return False
