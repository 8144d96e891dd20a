"""What a tenant's syncs know: what was sent, what is intended, what waits, and Tana's activity as last read.

A small SQLite file in the tenant's folder, outside the catalog, because it must outlive a rebuild and a kill. Every method is one
transaction. Which node stands for which entry is the mapping file's to say (`state.py`); a node here is what was last written there.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from memory_assets.errors import StoreError

_SCHEMA = "CREATE TABLE IF NOT EXISTS records (kind TEXT, id TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, id))"
"""A record is JSON. Kinds: fact, sent, queue, node, links, and an intent's kind behind `intent:`."""
_FROM_TABLES = """
    INSERT OR IGNORE INTO records SELECT 'fact', name, json_quote(value) FROM facts;
    INSERT OR IGNORE INTO records SELECT 'sent', seed_id, json_object(
        'node', node, 'tag', tag, 'digest', s.digest, 'name', name, 'fields', json(s.fields), 'links', json(links),
        'unlinked', unlinked, 'shown', json(w.fields)) FROM sent s LEFT JOIN shown w USING (seed_id, digest);
    INSERT OR IGNORE INTO records SELECT 'intent:' || kind, id, said FROM intents;
    INSERT OR IGNORE INTO records SELECT 'queue', seed_id, json_quote(change) FROM queue ORDER BY since, seed_id;
    INSERT OR IGNORE INTO records SELECT 'node', id, json_object('id', id, 'name', name, 'kind', kind, 'active_at', active_at) FROM nodes;
    INSERT OR IGNORE INTO records SELECT 'links', seed_id, json_group_array(node) FROM links GROUP BY seed_id;
    DROP TABLE facts; DROP TABLE sent; DROP TABLE shown; DROP TABLE intents; DROP TABLE queue; DROP TABLE nodes; DROP TABLE links
"""
"""Takes over the tables that releases before this one kept; `links` was the last that they made."""

NAME = "name"
"""Stands for the node's name among mirrored fields."""


@dataclass(frozen=True, slots=True)
class Sent:
    """An entry as Tana got it last."""

    node: str
    tag: str
    digest: str
    """Of the entry; empty where it is not known what Tana has."""
    name: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    """Field -> the nodes that were linked there."""
    unlinked: bool = False
    """Whether its mentions could not be looked up."""
    shown: dict[str, str] | None = None
    """Field -> how Tana showed it after it was sent; None before that was read."""


@dataclass(frozen=True, slots=True)
class LinkedNode:
    """A node of Tana that learnings are linked to, as last read."""

    id: str
    name: str
    kind: str
    """Name of its tag, such as `project`."""
    active_at: datetime | None


class Ledger:
    """One tenant's ledger; reading one that does not exist finds nothing and makes nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tana"
        self.path = self.folder / "sync.sqlite3"
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            with self._connected(write=write) as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path} cannot be used ({error}); move it away: the next sync makes it anew.") from error

    def _connected(self, *, write: bool) -> sqlite3.Connection:
        """The connection that stays open as soon as the file is there; before, one to nothing."""
        if self._connection is None:
            if write:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            there = write or self.path.exists()
            connection = sqlite3.connect(self.path if there else ":memory:", timeout=30)
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_SCHEMA)
            _take_over_tables(connection)
            if not there:
                return connection
            self._connection = connection
        return self._connection

    def _read(self, kind: str) -> dict[str, Any]:
        with self._open() as rows:
            found = rows.execute("SELECT id, value FROM records WHERE kind = ? ORDER BY rowid", [kind]).fetchall()
        return {name: json.loads(value) for name, value in found}

    def fact(self, name: str) -> str:
        """A fact that was kept; empty where none was."""
        return self._read("fact").get(name, "")

    def keep(self, **facts: str) -> None:
        """Keep facts by name."""
        with self._open(write=True) as rows:
            _put(rows, "fact", facts)

    def sent(self) -> dict[str, Sent]:
        """All entries that were sent, by seed id."""
        return {seed_id: Sent(**sent) for seed_id, sent in self._read("sent").items()}

    def record(self, seed_id: str, sent: Sent) -> None:
        """An entry is in Tana as it should be: nothing of it is intended or queued any more."""
        with self._open(write=True) as rows:
            _put(rows, "sent", {seed_id: asdict(sent)})
            rows.execute("DELETE FROM records WHERE id = ? AND kind IN ('intent:create', 'intent:links', 'queue')", [seed_id])

    def note_shown(self, sent: Mapping[str, Sent]) -> None:
        """Keep how Tana shows the mirrored fields of entries."""
        with self._open(write=True) as rows:
            _put(rows, "sent", {seed_id: asdict(each) for seed_id, each in sent.items()})

    def forget(self, seed_ids: Iterable[str]) -> None:
        """Entries that are no more in Tana; no byte of what was sent of them stays."""
        with self._open(write=True) as rows:
            rows.executemany(
                "DELETE FROM records WHERE id = ? AND kind IN ('sent', 'queue', 'links')", [(each,) for each in seed_ids]
            )
        with self._open(write=True) as rows:
            rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def intend(self, *intents: tuple[str, str, dict[str, str]]) -> None:
        """Write down what is about to be done: kind, id, and what is needed to find out whether it was."""
        with self._open(write=True) as rows:
            for kind, name, said in intents:
                _put(rows, f"intent:{kind}", {name: said})

    def intents(self, kind: str) -> dict[str, dict[str, str]]:
        """What was begun and not finished, by id."""
        return self._read(f"intent:{kind}")

    def done(self, kind: str, name: str) -> None:
        """Strike an intent out."""
        with self._open(write=True) as rows:
            rows.execute("DELETE FROM records WHERE kind = ? AND id = ?", [f"intent:{kind}", name])

    def queue(self, changes: dict[str, str]) -> None:
        """What waits for Tana, seed id -> create, update, trash or archive, in place of what waited."""
        with self._open(write=True) as rows:
            _replace(rows, "queue", changes)

    def queued(self) -> dict[str, str]:
        """What waits for Tana: seed id -> change."""
        return self._read("queue")

    def note_activity(self, nodes: Iterable[LinkedNode], links: Mapping[str, Iterable[str]], at: datetime) -> None:
        """Keep what was read of the nodes that learnings are linked to, in place of what was known."""
        with self._open(write=True) as rows:
            _replace(rows, "node", {node.id: asdict(node) for node in nodes})
            _replace(rows, "links", {seed_id: sorted(set(found)) for seed_id, found in links.items()})
            _put(rows, "fact", {"read_at": at.isoformat()})

    def activity(self) -> tuple[dict[str, LinkedNode], dict[str, list[str]]]:
        """The nodes that learnings are linked to, by id, and the links by seed id, as last read."""
        nodes = {
            node: LinkedNode(node, each["name"], each["kind"], each["active_at"] and datetime.fromisoformat(each["active_at"]))
            for node, each in self._read("node").items()
        }
        return nodes, self._read("links")


def _take_over_tables(connection: sqlite3.Connection) -> None:
    former = "SELECT 1 FROM sqlite_master WHERE name = 'links'"
    if connection.execute(former).fetchone():
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _FROM_TABLES.split(";") if connection.execute(former).fetchone() else ():
                connection.execute(statement)


def _put(rows: sqlite3.Connection, kind: str, values: Mapping[str, object]) -> None:
    rows.executemany(
        "INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
        [(kind, name, json.dumps(value, ensure_ascii=False, default=datetime.isoformat)) for name, value in values.items()],
    )


def _replace(rows: sqlite3.Connection, kind: Literal["queue", "node", "links"], values: Mapping[str, object]) -> None:
    rows.execute("DELETE FROM records WHERE kind = ?", [kind])
    _put(rows, kind, values)
