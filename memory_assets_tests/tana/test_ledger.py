"""The ledger of syncs: what it holds, and what it holds no longer."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory_assets.tana.ledger import Ledger, Sent

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
