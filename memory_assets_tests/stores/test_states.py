"""A tenant's state in files and in PostgreSQL."""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memory_assets.errors import StoreBusyError, StoreError
from memory_assets.learn.noted import Noted, note
from memory_assets.learn.session_start import set_quiet
from memory_assets.settings import Settings
from memory_assets.sources.projects import Project
from memory_assets.stores import locks
from memory_assets.stores.keys import create_link, use_link
from memory_assets.stores.postgres import Database, PostgresStates
from memory_assets.stores.state import FileState, FileStates, TenantStates
from memory_assets.tenants import Tenant
from memory_assets_tests.services import ObjectStorage, PostgreSQL

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["files", "postgres"])
def states(request: pytest.FixtureRequest, tmp_path: Path) -> TenantStates:
    if request.param == "files":
        return FileStates(tmp_path)
    settings = request.getfixturevalue("elsewhere")
    return PostgresStates(Database(settings.state_uri, 5), str(settings.vectors_uri))


def test_of_several_who_compare_and_put_one_does(states: TenantStates) -> None:
    first, second = states.open("ann"), states.open("ann")
    assert (first.get("names.json"), first.exists, list(states.names())) == (None, False, [])
    assert [each.put("names.json", b"1", None) for each in (first, second)] == [True, False]
    assert [each.put("names.json", b"2", b"1") for each in (first, second)] == [True, False]
    assert second.get("names.json") == b"2"
    assert [each.put("names.json", None, b"2") for each in (first, second)] == [True, False]
    first.update("count", lambda held: str(int(held or b"0") + 1).encode())
    assert second.get("count") == b"1"
    second.append("access/1.log", b"one\n")
    first.append("access/1.log", b"two\n")
    assert (first.get("access/1.log"), first.get("access/1.log", 4)) == (b"one\ntwo\n", b"two\n")
    assert [tuple(entry) for entry in first.list("access/")] == [("access/1.log", 8)]


def test_a_connection_to_a_host_that_vanished_fails_in_half_a_minute(elsewhere: Settings) -> None:
    with (
        Database(str(elsewhere.state_uri), 5).connection() as connection,
        socket.socket(fileno=os.dup(connection.fileno())) as link,
    ):
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10


def test_a_lock_ends_soon_after_its_host_vanished_and_never_while_it_works(elsewhere: Settings) -> None:
    database = Database(str(elsewhere.state_uri), 5)
    for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
        database.execute(f"ALTER ROLE CURRENT_USER SET {limit} = '100ms'")
    try:
        database.close()
        with database.locked("a", "a", 5) as connection:
            ((idle, count),) = connection.execute(
                "SELECT current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_count') FROM pg_sleep(0.2)"
            )
            time.sleep(0.2)
            connection.execute("SELECT 1")
    finally:
        database.execute("ALTER ROLE CURRENT_USER RESET ALL")
    assert (idle, count) == ("10", "3")


def test_no_statement_is_prepared_for_another_client_of_a_pooler_to_find(elsewhere: Settings) -> None:
    database = Database(str(elsewhere.state_uri), 5)
    for _ in range(6):
        assert database.execute("SELECT count(*) FROM pg_prepared_statements WHERE name <> %(name)s", name="") == [(0,)]


def test_records_of_many_writers_never_mix(states: TenantStates) -> None:
    states.open("ann").put("names.json", b"[]")

    def write(writer: int) -> None:
        state = states.open("ann")
        for number in range(25):
            state.append("access/1.log", f"{writer} {number}\n".encode())

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    state = states.open("ann")
    log = state.get("access/1.log") or b""
    assert sorted(log.splitlines()) == sorted(f"{writer} {number}".encode() for writer in range(4) for number in range(25))
    assert state.get("access/1.log", 20) == log[20:]


def test_a_log_that_was_replaced_is_read_from_where_the_last_reading_ended(states: TenantStates) -> None:
    state = states.open("ann")
    state.append("access/1.log", b"lost\n")
    state.put("access/1.log", b"restored\n")
    state.append("access/1.log", b"new\n")
    assert [state.get("access/1.log", start) for start in (0, 4, 9, 13)] == [b"restored\nnew\n", b"ored\nnew\n", b"new\n", b""]


def test_a_state_of_a_deleted_tenant_takes_nothing(states: TenantStates) -> None:
    state = states.open("ann")
    state.claim()
    state.put("names.json", b"[]")
    late = states.open("ann")
    assert late.get("names.json") == b"[]"
    late.look()
    state.delete()
    for write in (lambda: late.put("names.json", b"[1]"), lambda: late.append("access/1.log", b"x"), late.claim):
        with pytest.raises(StoreError, match="deleted"):
            write()
    assert (list(states.names()), [left.tenant for left in states.deleted()]) == ([], ["ann"])


def test_a_link_opens_once(states: TenantStates) -> None:
    state = states.open("ann")
    token = create_link(state)
    assert [use_link(state, each) for each in (token, token, "another")] == [True, False, False]


def test_who_waits_for_postgresql_is_answered_as_soon_as_it_is_back(
    elsewhere: Settings, servers: tuple[ObjectStorage, PostgreSQL]
) -> None:
    _, database = servers
    state = Tenant(elsewhere).state
    state.claim()
    answers: list[float] = []
    waiting = threading.Thread(target=lambda: answers.append((state.read_id(), time.monotonic())[1]))
    database.kill()
    time.sleep(1)  # its backends end when they notice, and one of them would fail the statement
    waiting.start()
    time.sleep(7)
    database.start()
    back = time.monotonic()
    waiting.join(60)
    assert answers[0] - back < 4


def test_a_stopped_process_that_holds_the_folder_is_named_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "ada").mkdir()
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print('.', flush=True); input()"
    monkeypatch.setattr(locks, "_PATIENCE_SECONDS", 0.05)
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        for change in (
            lambda: FileState(folder).put("brief.json", b"{}"),
            lambda: note(folder, [Noted("Always lint.", "/alpha", "", "s1")]),
            lambda: set_quiet(folder, Project("/alpha", ()), quiet=True),
        ):
            with pytest.raises(
                StoreBusyError, match=rf"{folder} has been locked for .* by (process {holder.pid}|another process);"
            ):
                change()
        holder.communicate(b"\n")
    assert FileState(folder).put("brief.json", b"{}")


def test_a_process_that_holds_the_same_number_on_another_disk_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "ada").mkdir()
    other_disk = f"1: FLOCK  ADVISORY  WRITE 4711 fff:fff:{folder.stat().st_ino} 0 EOF\n"
    monkeypatch.setattr(locks, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: other_disk)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(StoreBusyError, match="by another process;"):
        FileState(folder).put("brief.json", b"{}")
    os.close(descriptor)
