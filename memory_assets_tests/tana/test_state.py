"""The state that syncs keep, and what they remove from it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory_assets.errors import StoreError
from memory_assets.ingest.scans import refresh_source
from memory_assets.models import Source
from memory_assets.tana.schema import read_seed
from memory_assets.tana.state import Activity, SentEntry, SyncRecord, forget_entries
from memory_assets.tenants import Tenant
from memory_assets_tests.tana.seeds import TEST_FIRST, write_seed

TEXT = "Nobody may know that the spare key lies below the third stone."


def test_no_byte_stays_of_what_was_sent_of_an_entry_that_is_forgotten(tenant: Tenant) -> None:
    folder = tenant.folder / "tana"
    folder.mkdir(parents=True)
    (folder / "sync.sqlite3").write_text(TEXT)
    SyncRecord({"pat_0001": SentEntry("n1", "pai_learning", "d1", TEXT, {"Content": TEXT})}, {"pat_0001": "update"}).save(
        tenant.folder
    )
    assert SyncRecord.load(tenant.folder).sent["pat_0001"].name == TEXT
    forget_entries(tenant, ["pat_0001"])
    assert SyncRecord.load(tenant.folder) == SyncRecord()
    assert not [path for path in folder.iterdir() if TEXT.encode() in path.read_bytes()]


def test_the_ledger_of_the_release_before_is_taken_over_once(tmp_path: Path) -> None:
    former = tmp_path / "tana" / "sync.sqlite3"
    former.parent.mkdir()
    rows = {
        ("sent", "pat_0001"): {"node": "n1", "tag": "pai_learning", "digest": "d1", "name": TEXT, "shown": {"Content": "x"}},
        ("queue", "pat_0002"): "create",
        ("fact", "parent of w1"): "n0",
        ("fact", "mapped workspace"): "w1",
        ("fact", "people"): '{"Ines": "n7"}',
        ("node", "n7"): {"id": "n7"},
    }
    with closing(sqlite3.connect(former)) as ledger:
        ledger.execute("CREATE TABLE records (kind TEXT, id TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, id))")
        ledger.executemany("INSERT INTO records VALUES (?, ?, ?)", [(*key, json.dumps(value)) for key, value in rows.items()])
        ledger.commit()
    known = SyncRecord.load(tmp_path)
    sent = SentEntry("n1", "pai_learning", "d1", TEXT, shown={"Content": "x"})
    assert known == SyncRecord({"pat_0001": sent}, {"pat_0002": "create"}, {"w1": "n0"}, "w1", {"Ines": "n7"})
    known.save(tmp_path)
    assert not former.exists()
    assert SyncRecord.load(tmp_path) == known


@pytest.mark.parametrize(("kept", "name"), [(SyncRecord, "sync.json"), (Activity, "activity.json")])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, kept: type[SyncRecord | Activity], name: str) -> None:
    assert kept.load(tmp_path) == kept()
    assert not (tmp_path / "tana").exists()
    (tmp_path / "tana").mkdir()
    (tmp_path / "tana" / name).write_text('{"sent": 3, "nodes": 4}')
    with pytest.raises(StoreError, match=f"{name} cannot be used"):
        kept.load(tmp_path)


def test_a_seed_that_is_as_at_the_last_scan_is_not_read_again(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    write_seed(tenant.settings.pai_seed, [TEST_FIRST])
    read = read_seed(tenant)
    refresh_source(tenant, Source.PAI_SEED)
    monkeypatch.setattr("memory_assets.sources.scanning.read_source_file", lambda *_: pytest.fail("read again"))
    assert read_seed(tenant) == read
