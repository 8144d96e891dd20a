import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest

from memory_assets.errors import DamagedError, StoreBusyError, StoreError
from memory_assets.settings import Settings
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.schema_differences import catalog_differences
from memory_assets.tenants import Tenant

HOLD = """
import sys, time, duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def _holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(str(tmp_path / "main" / "catalog.duckdb"), lock_timeout=20)
    with made.write():
        pass
    return made


def test_a_fresh_catalog_has_the_newest_schema(catalog: Catalog) -> None:
    with catalog.read() as connection:
        assert not catalog_differences(connection)
        assert connection.execute("SELECT count(*) FROM memory_entries").fetchone() == (0,)
    assert not catalog.waiting_migrations()


@pytest.mark.parametrize("version", range(10, 13))
def test_a_catalog_of_every_earlier_version_can_be_read_and_written(tmp_path: Path, version: int) -> None:
    catalog = Catalog(str(tmp_path / "catalog.duckdb"), 1)
    with catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = ?", [version])
    for opened in (catalog.read, catalog.write):
        with opened() as connection:
            assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


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
    assert path.read_bytes() != before


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
    done = threading.Event()

    def read() -> None:
        with catalog.read() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        done.set()

    reader = threading.Thread(target=read)
    with _holder(catalog.path):
        reader.start()
        assert not done.wait(0.3)
    reader.join()
    assert done.is_set()


def test_a_lock_held_too_long_is_reported_with_its_holder(catalog: Catalog) -> None:
    with (
        _holder(catalog.path) as holder,
        pytest.raises(StoreBusyError, match=rf"locked for 0.3 s by .*PID {holder.pid}"),
        Catalog(str(catalog.path), lock_timeout=0.3).read(),
    ):
        pass


def test_nobody_is_advised_to_stop_the_process_that_answers(catalog: Catalog) -> None:
    with catalog.write(), pytest.raises(StoreBusyError, match=r"by this process; try again\.$"), catalog.within(0.1).read():
        pass


def test_a_read_beside_a_write_in_one_process_waits_for_it(catalog: Catalog) -> None:
    writing = threading.Event()

    def write() -> None:
        with catalog.write() as connection:
            writing.set()
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (1, 'memory', 'x')")
            time.sleep(0.3)

    thread = threading.Thread(target=write)
    thread.start()
    assert writing.wait(120)
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (1,)
    thread.join()
    assert not catalog.damaged_path.exists()


def test_who_waits_for_an_answer_waits_a_second_for_a_lock(catalog: Catalog) -> None:
    with _holder(catalog.path), pytest.raises(StoreBusyError, match="for 1 s"), catalog.interactive.read():
        pass


def filled(catalog: Catalog) -> bytes:
    """Return the bytes of a catalog of several megabytes, written in several transactions."""
    for start in range(0, 60_000, 20_000):
        with catalog.write() as connection:
            connection.execute(
                "INSERT INTO graph_nodes (id, kind, label) SELECT range, 'memory', md5(range::VARCHAR) FROM range($1, $2)",
                [start, start + 20_000],
            )
    assert not catalog.log_path.exists()
    return catalog.path.read_bytes()


@pytest.mark.parametrize("part", [0.9, 2 / 3, 0.5, 0.1, 0.0])
def test_a_catalog_cut_short_is_set_aside_by_a_read_and_reads_as_an_empty_one(
    catalog: Catalog, part: float, caplog: pytest.LogCaptureFixture
) -> None:
    whole = filled(catalog)
    catalog.path.write_bytes(whole[: int(len(whole) * part)])
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*), max(label) FROM graph_nodes").fetchone() == (0, None)
    assert not catalog.exists
    assert catalog.damaged_path.stat().st_size == int(len(whole) * part)
    assert "set aside as catalog.duckdb.damaged; `memory run` rebuilds it." in caplog.text
    with catalog.write() as connection:
        assert not catalog_differences(connection)


def test_a_catalog_cut_between_two_blocks_is_set_aside_by_whatever_misses_one(catalog: Catalog) -> None:
    whole = filled(catalog)
    blocks = (len(whole) - 12_288) // 262_144
    catalog.path.write_bytes(whole[: 12_288 + (blocks - 2) * 262_144])
    with suppress(DamagedError):
        for start in (60_000, 90_000):
            with catalog.write() as connection:
                connection.execute(
                    "INSERT INTO graph_nodes (id, kind, label) SELECT range, 'memory', 'x' FROM range($1, $1 + 30000)", [start]
                )
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() in {(0,), (120_000,)}


def test_a_write_to_a_damaged_catalog_sets_it_aside_and_writes_nothing(catalog: Catalog) -> None:
    catalog.path.write_bytes(filled(catalog)[:400_000])
    with pytest.raises(DamagedError, match="set aside"), catalog.write():
        raise AssertionError
    assert not catalog.exists
    with catalog.write() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


def test_a_catalog_that_is_found_damaged_while_it_is_read_is_set_aside_in_one_sentence(catalog: Catalog) -> None:
    whole = bytearray(filled(catalog))
    for block in range(12_288 + 262_144, len(whole), 262_144):
        whole[block + 1_000 : block + 200_000] = b"\xff" * 199_000
    catalog.path.write_bytes(whole)
    assert catalog.find_damage()
    try:
        with catalog.read() as connection:
            assert connection.execute("SELECT max(label) FROM graph_nodes").fetchone() == (None,)
    except DamagedError as error:
        assert "set aside" in str(error)
    assert not catalog.exists
    assert catalog.damaged_path.exists()


def test_a_catalog_that_has_shrunk_is_whole(catalog: Catalog) -> None:
    filled(catalog)
    with catalog.write() as connection:
        connection.execute("DELETE FROM graph_nodes")
    with catalog.write() as connection:
        connection.execute("CHECKPOINT")
    with catalog.read() as connection:
        (counted,) = connection.execute(
            "SELECT total_blocks * block_size FROM pragma_database_size() WHERE database_name = current_database()"
        ).fetchone() or (0,)
    assert counted > catalog.path.stat().st_size
    assert not catalog.damaged_path.exists()


def test_a_failing_query_does_not_set_a_whole_catalog_aside(catalog: Catalog) -> None:
    with pytest.raises(duckdb.IOException), catalog.read() as connection:
        connection.execute("FROM read_csv('/nonexistent.csv')")
    assert catalog.exists


@pytest.mark.parametrize(
    "error",
    [
        duckdb.IOException('IO Error: Cannot open file "catalog.duckdb.wal": Too many open files'),
        duckdb.OutOfMemoryException("Out of Memory Error: Allocation failure"),
        duckdb.TransactionException("TransactionContext Error: Failed to commit: Failed to allocate block (bad allocation)"),
        duckdb.TransactionException("TransactionContext Error: Failed to commit: Could not write file: File too large"),
    ],
)
@pytest.mark.parametrize("place", ["opening", "query"])
def test_what_the_machine_lacks_is_no_damage(
    catalog: Catalog, error: duckdb.Error, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(catalog)

    def attach(*_: object) -> object:
        raise error

    with monkeypatch.context() as patched, pytest.raises(StoreError, match="ulimit") as told:
        if place == "opening":
            patched.setattr(Catalog, "_attach_file", attach)
        with catalog.read():
            raise error
    assert not isinstance(told.value, DamagedError)
    assert catalog.exists and not catalog.damaged_path.exists()
    assert not catalog.find_damage()


def test_a_catalog_that_lacks_a_table_is_told_with_its_mend_and_a_wrong_query_is_not(catalog: Catalog) -> None:
    with pytest.raises(duckdb.CatalogException), catalog.read() as connection:
        connection.execute("FROM clustres")
    with catalog.write() as connection:
        connection.execute("DROP TABLE clusters")
    for query in ("FROM clusters", "SELECT wrong FROM graph_nodes"):
        with (
            pytest.raises(
                StoreError, match=r"\(The table clusters is missing\); run `memory doctor --mend`, then `memory run`\.$"
            ),
            catalog.read() as connection,
        ):
            connection.execute(query)
    assert catalog.exists


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


def test_the_log_of_a_catalog_that_was_moved_away_is_not_read_into_a_new_one(catalog: Catalog):
    filled(catalog)
    with catalog.write() as connection:
        connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (-1, 'memory', 'x')")
    assert catalog.log_path.exists()
    catalog.path.unlink()
    with catalog.write() as connection:
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)


def test_the_log_that_every_opening_plays_again_stays_short(catalog: Catalog) -> None:
    for number in range(40):
        with catalog.write() as connection:
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (?, 'memory', ?)", [number, "x" * 1_000])
        assert not catalog.log_path.exists() or catalog.log_path.stat().st_size * 4_000 < catalog.path.stat().st_size


def test_a_read_that_ends_leaves_the_lock_to_another_that_goes_on(catalog: Catalog) -> None:
    code = "import sys; from memory_assets.stores.catalog import Catalog\nwith Catalog(sys.argv[1], 0.2).write(): pass"
    write = [sys.executable, "-c", code, str(catalog.path)]
    with catalog.read() as connection:
        with catalog.read():
            pass
        done = subprocess.run(write, check=False, capture_output=True, text=True)
        assert "StoreBusyError" in done.stderr
        assert connection.execute("SELECT count(*) FROM graph_nodes").fetchone() == (0,)
    subprocess.run(write, check=True)


def test_writes_of_two_threads_wait_for_each_other(catalog: Catalog) -> None:
    def count_up() -> None:
        for _ in range(20):
            with catalog.write() as connection:
                connection.execute("INSERT INTO memory_first_seen SELECT count(*), now() FROM memory_first_seen")

    threads = [threading.Thread(target=count_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with catalog.read() as connection:
        assert connection.execute("SELECT count(*), max(id) FROM memory_first_seen").fetchone() == (40, 39)


def test_a_write_gets_its_turn_among_reads_that_never_pause(catalog: Catalog) -> None:
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            with catalog.read() as connection, catalog.read():
                connection.execute("SELECT count(*) FROM range(1000000)").fetchall()

    threads = [threading.Thread(target=poll) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with catalog.within(10).write():
                pass
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


FORK = """
import os, sys
from memory_assets.stores.catalog import Catalog
from memory_assets.stores.engine import name_of
catalog = Catalog(sys.argv[1], 5)
with catalog.read():
    child = os.fork()
    if not child:
        with catalog.read() as connection:
            os._exit(connection.execute("SELECT count(*) FROM graph_nodes").fetchone() != (0,))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_opens_a_catalog_for_itself(catalog: Catalog) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(catalog.path)], check=True, timeout=60)


def test_a_catalog_that_duckdb_gives_up_is_opened_again_and_others_stay_open(catalog: Catalog, tmp_path: Path) -> None:
    other = Catalog(str(tmp_path / "other" / "catalog.duckdb"), lock_timeout=20)
    with other.write():
        pass
    with pytest.raises(duckdb.IOException, match="invalidated"), catalog.write() as connection:
        connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (1, 'memory', 'x')")
        connection.commit()
        connection.execute("SET debug_checkpoint_abort = 'before_truncate'")
        connection.execute("FORCE CHECKPOINT")
    assert not catalog.damaged_path.exists()
    for each in (other, catalog):
        with each.write() as connection:
            connection.execute("SET debug_checkpoint_abort = 'none'")
            connection.execute("INSERT INTO graph_nodes (id, kind, label) VALUES (2, 'memory', 'x')")
    with catalog.read() as connection:
        assert connection.execute("SELECT id FROM graph_nodes ORDER BY id").fetchall() == [(1,), (2,)]


def test_a_catalog_elsewhere_that_is_empty_spills_into_the_data_folder(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_assets.stores.engine._ENGINES", {})
    elsewhere = settings.model_copy(update={"catalog_uri": "ducklake:postgres:dbname=none"})
    with Tenant(elsewhere, "ann").catalog.read() as connection:
        ((scratch,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert scratch == str(settings.data_dir / "tmp")
