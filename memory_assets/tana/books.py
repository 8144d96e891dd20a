"""Which node stands for which entry, and what was sent of it: the mapping file and the ledger, kept in step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_assets.tana.ledger import Ledger, Sent
from memory_assets.tana.mapping import Mapping

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

_NEVER = Sent("", "", "")
"""Of what was never sent."""


class Books:
    """Mapping and ledger of a tenant; what is changed here is on the disk when the method returns."""

    def __init__(self, tenant: "Tenant") -> None:
        """Read both.

        Raises:
            StoreError: one of them cannot be used.
        """
        self.ledger = Ledger(tenant.folder)
        self.mapping = Mapping.load(tenant.settings.pai_mapping)
        self._sent = self.ledger.sent()
        self.trashed: set[str] = set()
        """Seed ids whose nodes are in the trash, once that was looked at."""

    def read_again(self) -> None:
        """Go by what is on the disk."""
        self.mapping = Mapping.load(self.mapping.path)
        self._sent = self.ledger.sent()

    @property
    def nodes(self) -> dict[str, str]:
        """Seed id -> node."""
        return self.mapping.nodes

    def sent(self, seed_id: str) -> Sent:
        """An entry as Tana got it last."""
        return self._sent.get(seed_id, _NEVER)

    def map(self, seed_id: str, node: str) -> None:
        """Let a node stand for an entry."""
        self.nodes[seed_id] = node
        self.mapping.save()

    def drop(self, seed_ids: Sequence[str]) -> None:
        """Forget which nodes stood for entries."""
        for seed_id in seed_ids:
            self.nodes.pop(seed_id, None)
            self._sent.pop(seed_id, None)
            self.trashed.discard(seed_id)
        if seed_ids:
            self.mapping.save()
            self.ledger.forget(seed_ids)

    def record(self, seed_id: str, sent: Sent) -> None:
        """Note that an entry is in Tana as it should be."""
        self._sent[seed_id] = sent
        self.trashed.discard(seed_id)
        self.ledger.record(seed_id, sent)
