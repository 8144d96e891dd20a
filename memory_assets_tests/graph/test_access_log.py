from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from memory_assets.stores.access_log import AccessLog, fold_accesses
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.state import FileState
from memory_assets_tests.torture import zygote

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def counts(catalog):
    with catalog.read() as connection:
        return dict(connection.execute("SELECT id, accesses FROM memory_access ORDER BY id").fetchall())


def test_what_was_recorded_is_read_back_with_its_time(tmp_path):
    log = AccessLog(FileState(tmp_path))
    log.record([1, 2], NOON)
    log.record([], NOON)
    log.record([2], NOON + timedelta(days=1))
    read = log.read_since({})
    assert read.rows.to_pylist() == [{"id": 1, "at": NOON}, {"id": 2, "at": NOON}, {"id": 2, "at": NOON + timedelta(days=1)}]
    assert log.read_since(read.offsets).rows.num_rows == 0


@given(cut=st.integers(min_value=1, max_value=40), rest=st.binary(max_size=20))
def test_a_torn_record_harms_nothing_but_itself(tmp_path_factory, cut, rest):
    folder = tmp_path_factory.mktemp("log")
    log = AccessLog(FileState(folder))
    log.record([1, 2], NOON)
    (segment,) = (folder / "access").iterdir()
    whole = segment.read_bytes()
    log.record([7, 8], NOON)
    segment.write_bytes(segment.read_bytes()[: len(whole) + cut] + rest.replace(b".", b""))
    log.record([3], NOON)
    found = log.read_since({}).rows["id"].to_pylist()
    assert found[:2] == [1, 2]
    assert found[-1] == 3
    assert found in ([1, 2, 3], [1, 2, 7, 8, 3])


def test_a_torn_end_is_read_once_it_is_followed_by_a_whole_record(tmp_path):
    log, catalog = AccessLog(FileState(tmp_path)), Catalog(str(tmp_path / "c.duckdb"), 5)
    log.record([1], NOON)
    (segment,) = (tmp_path / "access").iterdir()
    with segment.open("ab") as file:
        file.write(b"\n17803")
    assert fold_accesses(catalog, log, NOON) == 1
    log.record([2], NOON)
    assert fold_accesses(catalog, log, NOON) == 1
    assert counts(catalog) == {1: 1, 2: 1}


def _write(folder, first):
    log = AccessLog(FileState(folder))
    for number in range(200):
        log.record([first, 1000 + number], NOON)


def test_many_processes_append_without_losing_or_mixing_records(tmp_path):
    writers = [zygote.shared().call(_write, tmp_path, first) for first in range(1, 5)]
    assert [writer.wait().code for writer in writers] == [0] * 4
    ids = AccessLog(FileState(tmp_path)).read_since({}).rows["id"].to_pylist()
    assert len(ids) == 4 * 200 * 2
    assert all(ids.count(first) == 200 for first in range(1, 5))


def test_folding_counts_each_record_exactly_once(tmp_path):
    log, catalog = AccessLog(FileState(tmp_path)), Catalog(str(tmp_path / "c.duckdb"), 5)
    log.record([1, 2], NOON)
    assert fold_accesses(catalog, log, NOON) == 2
    assert fold_accesses(catalog, log, NOON) == 0
    log.record([1], NOON + timedelta(hours=1))
    assert fold_accesses(catalog, log, NOON) == 1
    assert counts(catalog) == {1: 2, 2: 1}


def test_a_disk_that_takes_no_recall_is_told_with_the_mend(tmp_path, monkeypatch, caplog):
    def append(*_):
        raise OSError(30, "Read-only file system", "access")

    monkeypatch.setattr(FileState, "append", append)
    AccessLog(FileState(tmp_path)).record([1], NOON)
    assert "(Read-only file system); it can only be read, so mount it for writing." in caplog.text


def test_a_fold_that_fails_before_its_commit_is_done_again(tmp_path, monkeypatch):
    log, catalog = AccessLog(FileState(tmp_path)), Catalog(str(tmp_path / "c.duckdb"), 5)
    log.record([1], NOON)
    write = catalog.write

    def killed():
        raise KeyboardInterrupt

    monkeypatch.setattr(catalog, "write", killed)
    try:
        fold_accesses(catalog, log, NOON)
    except KeyboardInterrupt:
        monkeypatch.setattr(catalog, "write", write)
    assert fold_accesses(catalog, log, NOON) == 1
    assert counts(catalog) == {1: 1}


def test_old_segments_go_once_they_are_read_and_their_counts_stay(tmp_path):
    log, catalog = AccessLog(FileState(tmp_path)), Catalog(str(tmp_path / "c.duckdb"), 5)
    log.record([1], NOON)
    (segment,) = (tmp_path / "access").iterdir()
    segment = segment.rename((tmp_path / "access") / "2026-06-01.log")
    fold_accesses(catalog, log, NOON)
    assert segment.exists()
    with segment.open("ab") as file:
        file.write(b"\n17803")
    fold_accesses(catalog, log, NOON + timedelta(days=40))
    assert segment.exists(), "its torn end is not read yet"
    segment.write_bytes(segment.read_bytes().removesuffix(b"17803"))
    fold_accesses(catalog, log, NOON + timedelta(days=40))
    assert not segment.exists()
    log.record([1], NOON)
    fold_accesses(catalog, log, NOON + timedelta(days=40))
    assert counts(catalog) == {1: 2}
