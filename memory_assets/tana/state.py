"""Which Tana node stands for which entry of seed.json, and what Tana got of it: the mapping file and the ledger, kept in step."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memory_assets.errors import StoreError
from memory_assets.sources.dating import utc_seconds, utc_time
from memory_assets.sources.files import RefusedFileError, read_source_file
from memory_assets.stores.files import replace_file
from memory_assets.tana.ledger import Ledger, Sent

if TYPE_CHECKING:
    from memory_assets.tenants import Tenant

VERSION = 1

_MOST_BYTES = 16 << 20


@dataclass(slots=True)
class Mapping:
    """The mapping file of seed 000, FR-18, with exactly its keys; `save` writes what changed."""

    path: Path
    workspace: str = ""
    """Name or id, as it was configured when it was first written."""
    last_sync: datetime | None = None
    nodes: dict[str, str] = field(default_factory=dict)
    """Seed entry id -> Tana node id."""

    @classmethod
    def load(cls, path: Path) -> "Mapping":
        """Read it."""
        try:
            said = json.loads(read_source_file(path, None, _MOST_BYTES))
        except FileNotFoundError:
            return cls(path)
        except (OSError, RefusedFileError, ValueError, RecursionError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); restore it, or move it away and run `memory pai sync`."
            ) from error
        nodes = said.get("mappings") if isinstance(said, dict) else None
        if not isinstance(nodes, dict) or not all(isinstance(node, str) for node in nodes.values()):
            raise StoreError(
                f"{path} has no `mappings` of texts to texts; restore it, or move it away and run `memory pai sync`."
            )
        if said.get("version") != VERSION:
            raise StoreError(f"{path} has `version` {said.get('version')!r}, and only {VERSION} is read; update memory_assets.")
        return cls(path, str(said.get("workspace") or ""), utc_time(str(said.get("lastSync") or "")), nodes)

    def save(self) -> None:
        """Replace the file in one step."""
        stamp = self.last_sync and utc_seconds(self.last_sync)
        said = {"version": VERSION, "workspace": self.workspace, "lastSync": stamp, "mappings": self.nodes}
        replace_file(self.path, json.dumps(said, ensure_ascii=False, indent=2) + "\n")


MAPPED_WORKSPACE = "mapped workspace"
_NEVER = Sent("", "", "")
"""Of what was never sent."""


class SyncState:
    """Mapping and ledger of a tenant; what is changed here is on the disk when the method returns."""

    def __init__(self, tenant: "Tenant") -> None:
        self.ledger = Ledger(tenant.folder)
        self.mapping = Mapping.load(tenant.settings.pai_mapping)
        self._sent = self.ledger.sent()
        if not self.mapping.path.exists():  # it was lost: the ledger knows which nodes were made
            self.mapping.nodes = {seed_id: sent.node for seed_id, sent in self._sent.items() if sent.node}
            self.mapping.workspace = self.ledger.fact(MAPPED_WORKSPACE) if self.mapping.nodes else ""
        self.trashed: set[str] = set()
        """Seed ids whose nodes are in the trash, once that was looked at."""

    def read_again(self) -> None:
        """Drop what was kept in memory."""
        self.mapping = Mapping.load(self.mapping.path)
        self._sent = self.ledger.sent()

    @property
    def nodes(self) -> dict[str, str]:
        """Seed id -> node."""
        return self.mapping.nodes

    def sent(self, seed_id: str) -> Sent:
        """An entry as Tana got it last."""
        return self._sent.get(seed_id, _NEVER)

    @property
    def all_sent(self) -> dict[str, Sent]:
        """Entries as Tana got them last, by seed id."""
        return self._sent

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
