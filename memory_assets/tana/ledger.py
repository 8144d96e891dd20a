"""What a tenant's syncs know: what was sent, what is intended, what waits, and Tana's activity as last read.

A small SQLite file in the tenant's folder, outside the catalog, because it must outlive a rebuild and a kill. Every method is one
transaction. Which node stands for which entry is the mapping file's to say (`mapping.py`); a node here is what was last written there.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memory_assets.errors import StoreError

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS sent (
        seed_id TEXT PRIMARY KEY, node TEXT NOT NULL, tag TEXT NOT NULL, digest TEXT NOT NULL, name TEXT NOT NULL,
        fields TEXT NOT NULL, links TEXT NOT NULL, unlinked INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS shown (seed_id TEXT PRIMARY KEY, digest TEXT NOT NULL, fields TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS intents (kind TEXT, id TEXT, said TEXT NOT NULL, PRIMARY KEY (kind, id));
    CREATE TABLE IF NOT EXISTS queue (seed_id TEXT PRIMARY KEY, change TEXT NOT NULL, since TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS nodes (id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, active_at TEXT);
    CREATE TABLE IF NOT EXISTS links (seed_id TEXT, node TEXT, PRIMARY KEY (seed_id, node));
"""

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
            connection.executescript(_SCHEMA)  # a kill may have left a file without all of its tables
            if not there:
                return connection
            self._connection = connection
        return self._connection

    def fact(self, name: str) -> str:
        """A fact that was kept; empty where none was."""
        with self._open() as rows:
            found = rows.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
        return found[0] if found else ""

    def keep(self, **facts: str) -> None:
        """Keep facts by name."""
        with self._open(write=True) as rows:
            rows.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def sent(self) -> dict[str, Sent]:
        """All entries that were sent, by seed id."""
        with self._open() as rows:
            found = rows.execute("SELECT seed_id, node, tag, digest, name, fields, links, unlinked FROM sent").fetchall()
        return {
            seed_id: Sent(node, tag, digest, name, json.loads(fields), json.loads(links), bool(unlinked))
            for seed_id, node, tag, digest, name, fields, links, unlinked in found
        }

    def shown(self) -> dict[str, tuple[str, dict[str, str]]]:
        """How Tana showed mirrored fields after they were sent: seed id -> digest of the entry, and field -> text."""
        with self._open() as rows:
            found = rows.execute("SELECT seed_id, digest, fields FROM shown").fetchall()
        return {seed_id: (digest, json.loads(fields)) for seed_id, digest, fields in found}

    def note_shown(self, shown: dict[str, tuple[str, dict[str, str]]]) -> None:
        """Keep how Tana shows mirrored fields of entries."""
        with self._open(write=True) as rows:
            rows.executemany(
                "INSERT OR REPLACE INTO shown VALUES (?, ?, ?)",
                [(seed_id, digest, json.dumps(fields)) for seed_id, (digest, fields) in shown.items()],
            )

    def intend(self, *intents: tuple[str, str, dict[str, object]]) -> None:
        """Write down what is about to be done: kind, id, and what is needed to find out whether it was."""
        with self._open(write=True) as rows:
            rows.executemany(
                "INSERT OR REPLACE INTO intents VALUES (?, ?, ?)",
                [(kind, name, json.dumps(said)) for kind, name, said in intents],
            )

    def intents(self, kind: str) -> dict[str, dict[str, str]]:
        """What was begun and not finished, by id."""
        with self._open() as rows:
            found = rows.execute("SELECT id, said FROM intents WHERE kind = ?", [kind]).fetchall()
        return {name: json.loads(said) for name, said in found}

    def done(self, kind: str, name: str) -> None:
        """Strike an intent out."""
        with self._open(write=True) as rows:
            rows.execute("DELETE FROM intents WHERE kind = ? AND id = ?", [kind, name])

    def record(self, seed_id: str, sent: Sent) -> None:
        """An entry is in Tana as it should be: nothing of it is intended or queued any more."""
        with self._open(write=True) as rows:
            rows.execute(
                "INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    seed_id,
                    sent.node,
                    sent.tag,
                    sent.digest,
                    sent.name,
                    json.dumps(sent.fields),
                    json.dumps(sent.links),
                    sent.unlinked,
                ],
            )
            rows.execute("DELETE FROM intents WHERE id = ? AND kind IN ('create', 'links')", [seed_id])
            rows.execute("DELETE FROM shown WHERE seed_id = ?", [seed_id])
            rows.execute("DELETE FROM queue WHERE seed_id = ?", [seed_id])

    def forget(self, seed_ids: Iterable[str]) -> None:
        """Entries that are no more in Tana; no byte of what was sent of them stays."""
        listed = [(seed_id,) for seed_id in seed_ids]
        with self._open(write=True) as rows:
            for table in ("sent", "shown", "queue", "links"):
                rows.executemany(f"DELETE FROM {table} WHERE seed_id = ?", listed)
        with self._open(write=True) as rows:
            rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def queue(self, changes: dict[str, str]) -> None:
        """What waits for Tana, seed id -> change, in place of what waited; what waited already keeps its time."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._open(write=True) as rows:
            since = dict(rows.execute("SELECT seed_id, since FROM queue").fetchall())
            rows.execute("DELETE FROM queue")
            rows.executemany(
                "INSERT INTO queue VALUES (?, ?, ?)",
                [(seed_id, change, since.get(seed_id, now)) for seed_id, change in changes.items()],
            )

    def queued(self) -> dict[str, str]:
        """What waits for Tana: seed id -> create, update or trash."""
        with self._open() as rows:
            return dict(rows.execute("SELECT seed_id, change FROM queue ORDER BY since, seed_id").fetchall())

    def note_activity(self, nodes: Iterable[LinkedNode], links: dict[str, list[str]], at: datetime) -> None:
        """Keep what was read of the nodes that learnings are linked to, in place of what was known."""
        with self._open(write=True) as rows:
            rows.execute("DELETE FROM nodes")
            rows.execute("DELETE FROM links")
            rows.executemany(
                "INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?)",
                [(node.id, node.name, node.kind, node.active_at and node.active_at.isoformat()) for node in nodes],
            )
            rows.executemany(
                "INSERT OR IGNORE INTO links VALUES (?, ?)",
                [(seed_id, node) for seed_id, found in links.items() for node in found],
            )
            rows.execute("INSERT OR REPLACE INTO facts VALUES ('read_at', ?)", [at.isoformat()])

    def activity(self) -> tuple[dict[str, LinkedNode], dict[str, list[str]]]:
        """The nodes that learnings are linked to, by id, and the links by seed id, as last read."""
        with self._open() as rows:
            nodes = rows.execute("SELECT id, name, kind, active_at FROM nodes").fetchall()
            pairs = rows.execute("SELECT seed_id, node FROM links ORDER BY seed_id, node").fetchall()
        links: dict[str, list[str]] = {}
        for seed_id, node in pairs:
            links.setdefault(seed_id, []).append(node)
        return {
            node: LinkedNode(node, name, kind, datetime.fromisoformat(active_at) if active_at else None)
            for node, name, kind, active_at in nodes
        }, links
