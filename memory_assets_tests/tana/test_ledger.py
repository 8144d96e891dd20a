"""The ledger of syncs: what it holds, and what it holds no longer."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_assets.tana.ledger import Ledger, LinkedNode, Sent

TEXT = "Nobody may know that the spare key lies below the third stone."


@pytest.mark.parametrize("read_first", [True, False])
def test_no_byte_stays_of_what_was_sent_of_an_entry_that_is_gone(tmp_path: Path, read_first: bool) -> None:
    Ledger(tmp_path).record("pat_0001", Sent("n1", "pai_learning", "d1", TEXT, {"Content": TEXT}))
    ledger = Ledger(tmp_path)
    if read_first:
        assert ledger.sent()["pat_0001"].name == TEXT
    ledger.forget(["pat_0001"])
    assert ledger.sent() == {}
    assert not [path for path in ledger.folder.iterdir() if TEXT.encode() in path.read_bytes()]


FORMER = """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE sent (
        seed_id TEXT PRIMARY KEY, node TEXT NOT NULL, tag TEXT NOT NULL, digest TEXT NOT NULL, name TEXT NOT NULL,
        fields TEXT NOT NULL, links TEXT NOT NULL, unlinked INTEGER NOT NULL
    );
    CREATE TABLE shown (seed_id TEXT PRIMARY KEY, digest TEXT NOT NULL, fields TEXT NOT NULL);
    CREATE TABLE intents (kind TEXT, id TEXT, said TEXT NOT NULL, PRIMARY KEY (kind, id));
    CREATE TABLE queue (seed_id TEXT PRIMARY KEY, change TEXT NOT NULL, since TEXT NOT NULL);
    CREATE TABLE nodes (id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, active_at TEXT);
    CREATE TABLE links (seed_id TEXT, node TEXT, PRIMARY KEY (seed_id, node));
"""
"""The tables of c805af4."""


def test_the_tables_of_an_earlier_release_are_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "tana"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "sync.sqlite3")) as former:
        former.executescript(FORMER)
        former.executescript(
            """
            INSERT INTO facts VALUES ('parent of w1', 'n0');
            INSERT INTO sent VALUES ('a', 'n1', 'pai_learning', 'd1', 'A', '{"Content": "A"}', '{"Related People": ["p1"]}', 1);
            INSERT INTO sent VALUES ('b', 'n2', 'pai_proposal', 'd2', 'B', '{}', '{}', 0);
            INSERT INTO shown VALUES ('a', 'd1', '{"name": "A"}'), ('b', 'older', '{}');
            INSERT INTO intents VALUES ('create', 'c', '{"name": "C", "before": ""}');
            INSERT INTO queue VALUES ('b', 'update', '2026-02-01'), ('c', 'create', '2026-01-01');
            INSERT INTO nodes VALUES ('p1', 'Priya', 'person', '2026-01-02T03:04:05+00:00'), ('p2', 'Sam', 'person', NULL);
            INSERT INTO links VALUES ('a', 'p1'), ('a', 'p2');
            """
        )
    for ledger in (Ledger(tmp_path), Ledger(tmp_path)):
        assert ledger.fact("parent of w1") == "n0"
        assert ledger.sent() == {
            "a": Sent("n1", "pai_learning", "d1", "A", {"Content": "A"}, {"Related People": ["p1"]}, True, {"name": "A"}),
            "b": Sent("n2", "pai_proposal", "d2", "B"),
        }
        assert ledger.intents("create") == {"c": {"name": "C", "before": ""}}
        assert list(ledger.queued().items()) == [("c", "create"), ("b", "update")]
        nodes, links = ledger.activity()
        assert nodes["p1"] == LinkedNode("p1", "Priya", "person", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
        assert (nodes["p2"].active_at, links) == (None, {"a": ["p1", "p2"]})


@pytest.mark.parametrize("made", ["", "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"])
def test_a_ledger_whose_making_was_killed_is_made_whole(tmp_path: Path, made: str) -> None:
    ledger = Ledger(tmp_path)
    ledger.folder.mkdir()
    with closing(sqlite3.connect(ledger.path)) as cut_short:
        cut_short.executescript(made)
    ledger.path.touch()
    assert (ledger.sent(), ledger.queued()) == ({}, {})
    ledger.record("pat_0001", Sent("n1", "pai_learning", "d1"))
    assert Ledger(tmp_path).sent()["pat_0001"].node == "n1"
