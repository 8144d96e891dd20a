import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from memory_assets.errors import StoreBusyError, StoreError
from memory_assets.stores.catalog import MIGRATIONS, Catalog

HOLD = """
import sys, time, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def _holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path / "main" / "catalog.duckdb"), lock_timeout=20)
    with made.write():
        pass
    return made


def test_a_fresh_catalog_has_the_newest_schema(catalog: Catalog) -> None:
    with catalog.read() as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchall() == [(len(MIGRATIONS),)]
        assert connection.execute("SELECT count(*) FROM memory_entries").fetchone() == (0,)


def test_an_older_catalog_is_migrated_by_writing_and_read_without(tmp_path: Path) -> None:
    path = tmp_path / "catalog.duckdb"
    with duckdb.connect(path) as older:
        older.execute("CREATE TABLE kept AS SELECT 7 AS number")
    before = path.read_bytes()
    catalog = Catalog(str(path), 1)
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM source_items").fetchone() == (0,)
        assert connection.execute("FROM kept").fetchone() == (7,)
    assert path.read_bytes() == before
    with catalog.write() as connection:
        assert connection.execute("SELECT count(*) FROM source_items").fetchone() == (0,)
    assert catalog.log_path.exists()


def test_reading_a_catalog_that_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    with Catalog(str(tmp_path / "main" / "catalog.duckdb"), 1).read() as connection:
        assert connection.execute("SELECT count(*) FROM memory_entries").fetchone() == (0,)
    assert not (tmp_path / "main").exists()


def test_a_newer_catalog_is_refused_and_left_alone(catalog: Catalog) -> None:
    with catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(StoreError, match=r"version 99.*upgrade"), catalog.read():
        pass


def test_an_error_inside_a_write_leaves_the_catalog_as_it_was(catalog: Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (1, 'memory', 'x')")
        raise ZeroDivisionError
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


def test_a_kill_inside_a_write_leaves_the_catalog_as_it_was(catalog: Catalog) -> None:
    code = (
        "import os, signal, sys; from memory_assets.stores.catalog import Catalog\n"
        "with Catalog(sys.argv[1], 1).write() as c:\n"
        "    c.execute(\"INSERT INTO graph_nodes (id, kind, label) SELECT range, 'memory', 'x' FROM range(50000)\")\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(catalog.path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


def test_a_reader_waits_for_a_writer_in_another_process(catalog: Catalog) -> None:
    with _holder(catalog.path, 0.7):
        started = time.monotonic()
        with catalog.read() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - started > 0.3


def test_a_lock_held_too_long_is_reported_with_its_holder(catalog: Catalog) -> None:
    with _holder(catalog.path, 30) as holder:
        try:
            with (
                pytest.raises(StoreBusyError, match=rf"locked for 0.3 s by .*PID {holder.pid}"),
                Catalog(str(catalog.path), lock_timeout=0.3).read(),
            ):
                pass
        finally:
            holder.kill()


def test_a_file_that_is_no_database_is_named_with_its_mend(tmp_path: Path) -> None:
    path = tmp_path / "catalog.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match=r"catalog\.duckdb cannot be opened.*memory run"), Catalog(str(path), 1).read():
        pass


def test_a_small_change_does_not_rewrite_the_file_and_a_large_one_leaves_no_log(tmp_path: Path):
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 5)
    with catalog.write() as connection:
        connection.execute(
            "INSERT INTO graph_nodes (id, kind, label) SELECT range, 'memory', md5(range::VARCHAR) FROM range(100000)"
        )
    assert not catalog.log_path.exists()
    before = catalog.path.read_bytes()
    with catalog.write() as connection:
        connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (-1, 'memory', 'x')")
    assert catalog.path.read_bytes() == before
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (100_001,)


def test_the_log_of_a_catalog_that_was_moved_away_is_not_read_into_a_new_one(tmp_path: Path):
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 5)
    for number in (1, 2):
        with catalog.write() as connection:
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (?, 'memory', 'x')", [number])
    assert catalog.log_path.exists()
    catalog.path.unlink()
    with catalog.write() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


def test_the_log_that_every_opening_plays_again_stays_short(catalog: Catalog) -> None:
    for number in range(40):
        with catalog.write() as connection:
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (?, 'memory', ?)", [number, "x" * 1_000])
        assert not catalog.log_path.exists() or catalog.log_path.stat().st_size < 20_000
