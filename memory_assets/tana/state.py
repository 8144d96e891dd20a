"""State of syncs: each entry's node, what was sent, what is queued, and the last reading of Tana's activity.

pai-mapping.json maps entries to nodes (seed 000, FR-18). The rest is two files in the tenant's folder, each replaced as a whole:
`tana/sync.json`, which one sync at a time writes, and `tana/activity.json`.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from memory_assets.errors import StoreBusyError, StoreError
from memory_assets.sources.dating import utc_seconds, utc_time
from memory_assets.sources.files import RefusedFileError, read_source_file
from memory_assets.stores.catalog import Stamp
from memory_assets.stores.files import replace_file, stamp_files
from memory_assets.stores.locks import locked
from memory_assets.tenants import Tenant

VERSION = 1
NAME = "name"
_MAX_BYTES = 16 << 20
_SAVE_INTERVAL_SECONDS = 1.0
_OLD_FILE = "sync.sqlite3"
"""File of 0.1.0; the first sync imports and deletes it."""


@dataclass(frozen=True, slots=True)
class SentEntry:
    """An entry as it was last sent to Tana."""

    node: str = ""
    tag: str = ""
    digest: str = ""
    """Digest of the entry; empty if Tana's content is unknown."""
    name: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    """Field -> linked nodes."""
    unlinked: bool = False
    """Whether the lookup of mentioned people and projects failed."""
    shown: dict[str, str] | None = None
    """Field -> how Tana showed it after it was sent; None until that is read."""
    relinking: dict[str, list[str]] = field(default_factory=dict)
    """Field -> its links, also those to remove, while they are written one by one: the next sync completes what a kill interrupted."""


class _TenantFile:
    FILE: ClassVar[str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the file of the tenant in `folder`, or return an empty one; raise StoreError if it cannot be read."""
        path = folder / cls.FILE
        try:
            return _adapter(cls).validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be used ({error}); move it away, and the next sync recreates it.") from error

    @classmethod
    def stamp(cls, folder: Path) -> Stamp:
        return stamp_files(folder / cls.FILE)

    def save(self, folder: Path) -> None:
        replace_file(folder / self.FILE, _adapter(type(self)).dump_json(self) + b"\n")


@dataclass(slots=True)
class SyncRecord(_TenantFile):
    """Entries sent to Tana, and queued changes."""

    FILE = "tana/sync.json"

    sent: dict[str, SentEntry] = field(default_factory=dict)
    queue: dict[str, str] = field(default_factory=dict)
    """Seed id -> create, update, trash or archive."""
    parents: dict[str, str] = field(default_factory=dict)
    """Workspace -> parent node of the learnings."""
    workspace: str = ""
    """Workspace of the mapping, in case the mapping is lost."""
    people: dict[str, str] = field(default_factory=dict)
    """Name in pai-seed's relationships -> node."""

    @property
    def nodes(self) -> list[str]:
        """Return the nodes that syncs made: those of entries, and the parents of the learnings."""
        return [*(sent.node for sent in self.sent.values()), *self.parents.values()]

    @classmethod
    def load(cls, folder: Path) -> "SyncRecord":
        """Read the record of the tenant in `folder`, perhaps from the file of 0.1.0, or return an empty one before the first sync."""
        former = folder / "tana" / _OLD_FILE
        return (
            _import_old_file(former)
            if former.exists() and not (folder / cls.FILE).exists()
            else super(SyncRecord, cls).load(folder)
        )

    def save(self, folder: Path) -> None:
        _TenantFile.save(self, folder)
        for former in (folder / "tana").glob(f"{_OLD_FILE}*"):  # it may hold texts that are erased later
            former.unlink()


@dataclass(frozen=True, slots=True)
class LinkedNode:
    """A Tana node linked to learnings, as last read."""

    id: str
    name: str
    kind: str
    """Name of its tag, such as `project`."""
    active_at: datetime | None


@dataclass(frozen=True, slots=True)
class Activity(_TenantFile):
    """The nodes linked to learnings, as last read."""

    FILE = "tana/activity.json"

    nodes: dict[str, LinkedNode] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    """Seed id -> ids of nodes."""
    read_at: datetime | None = None
    links_read_at: datetime | None = None


@dataclass(slots=True)
class Mapping:
    """The mapping file of seed 000, FR-18, with exactly its keys."""

    path: Path
    workspace: str = ""
    """Name or id, as configured when the file was first written."""
    last_sync: datetime | None = None
    nodes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "Mapping":
        """Read the file, or return an empty mapping; raise StoreError if it cannot be read."""
        try:
            root = json.loads(read_source_file(path, None, _MAX_BYTES))
        except FileNotFoundError:
            return cls(path)
        except (OSError, RefusedFileError, ValueError, RecursionError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); restore it, or move it away and run `memory pai sync`."
            ) from error
        nodes = root.get("mappings") if isinstance(root, dict) else None
        if not isinstance(nodes, dict) or not all(isinstance(node, str) for node in nodes.values()):
            raise StoreError(
                f"{path} has no `mappings` of texts to texts; restore it, or move it away and run `memory pai sync`."
            )
        if root.get("version") != VERSION:
            raise StoreError(f"{path} has `version` {root.get('version')!r}, and only {VERSION} is read; update memory_assets.")
        return cls(path, str(root.get("workspace") or ""), utc_time(str(root.get("lastSync") or "")), nodes)

    def save(self) -> None:
        stamp = self.last_sync and utc_seconds(self.last_sync)
        root = {"version": VERSION, "workspace": self.workspace, "lastSync": stamp, "mappings": self.nodes}
        replace_file(self.path, json.dumps(root, ensure_ascii=False, indent=2) + "\n")


class SyncState:
    """Mapping and record during one sync. Methods save the mapping at once, and the record, which grows with every entry, once a second.

    An entry that is mapped but not recorded, as after a kill, is sent again. A dry run calls only `map`, which then saves nothing.
    """

    def __init__(self, tenant: Tenant, *, is_dry_run: bool = False) -> None:
        self.is_dry_run = is_dry_run
        self._folder = tenant.folder
        self.record = SyncRecord.load(tenant.folder)
        self.mapping = Mapping.load(tenant.settings.pai_mapping)
        if not self.mapping.path.exists():  # it was lost: restore it from the record
            self.nodes.update({seed_id: sent.node for seed_id, sent in self.record.sent.items() if sent.node})
            self.mapping.workspace = self.record.workspace if self.nodes else ""
        self.trashed: set[str] = set()
        """Seed ids whose nodes are in the trash, as found during the sync."""
        self._saved_at = time.monotonic()

    @property
    def nodes(self) -> dict[str, str]:
        return self.mapping.nodes

    def sent(self, seed_id: str) -> SentEntry:
        """Return an entry as it was last sent, empty if it never was."""
        return self.record.sent.get(seed_id, SentEntry())

    def save(self) -> None:
        self.record.save(self._folder)
        self._saved_at = time.monotonic()

    def map(self, seed_id: str, node: str) -> None:
        """Map an entry to a node, and save the mapping."""
        self.nodes[seed_id] = node
        self.trashed.discard(seed_id)
        if not self.is_dry_run:
            self.mapping.save()

    def drop(self, seed_ids: Sequence[str]) -> None:
        """Remove entries that are no longer in Tana from the mapping and the record."""
        if seed_ids:
            for seed_id in seed_ids:
                self.nodes.pop(seed_id, None)
                self.trashed.discard(seed_id)
            _remove_entries(self.record, seed_ids)
            self.mapping.save()
            self.save()

    def keep(self, seed_id: str, sent: SentEntry) -> None:
        """Record an entry as sent and remove it from the queue."""
        self.record.sent[seed_id] = sent
        self.record.queue.pop(seed_id, None)
        if time.monotonic() - self._saved_at > _SAVE_INTERVAL_SECONDS:
            self.save()


def forget_entries(tenant: Tenant, seed_ids: Collection[str]) -> None:
    """Remove entries from the record and its queue; the mapping keeps them. Raise StoreBusyError after the lock timeout."""
    if SyncRecord.load(tenant.folder).sent.keys() & set(seed_ids):
        with sync_lock(tenant):
            record = SyncRecord.load(tenant.folder)
            _remove_entries(record, seed_ids)
            record.save(tenant.folder)


def _remove_entries(record: SyncRecord, seed_ids: Collection[str]) -> None:
    for seed_id in seed_ids:
        record.sent.pop(seed_id, None)
        record.queue.pop(seed_id, None)


@contextmanager
def sync_lock(tenant: Tenant) -> Iterator[None]:
    """Lock the mapping's folder, as all tenants and processes share one mapping; raise StoreBusyError after the lock timeout."""
    folder = tenant.settings.pai_mapping.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, patience_seconds=tenant.settings.lock_timeout))
        except BlockingIOError:
            raise StoreBusyError("Another `memory pai sync` is running; run this one again when it has finished.") from None
        yield


def _import_old_file(path: Path) -> SyncRecord:
    """Import the ledger of 0.1.0; if it cannot be read, return an empty record, so that every entry is sent again."""
    import sqlite3

    kept: dict[str, dict[str, Any]] = {"sent": {}, "queue": {}, "fact": {}}
    try:
        with closing(sqlite3.connect(path)) as ledger:
            for kind, name, value in ledger.execute("SELECT kind, id, value FROM records ORDER BY rowid"):
                kept.get(kind, {})[name] = json.loads(value)
    except (sqlite3.Error, ValueError):
        return SyncRecord()
    facts: dict[str, str] = kept["fact"]
    return SyncRecord(
        {seed_id: SentEntry(**each) for seed_id, each in kept["sent"].items()},
        kept["queue"],
        {name.removeprefix("parent of "): node for name, node in facts.items() if name.startswith("parent of ")},
        facts.get("mapped workspace", ""),
        json.loads(facts.get("people", "{}")),
    )


_adapter = cache(TypeAdapter)
