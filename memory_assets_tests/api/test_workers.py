"""Several worker processes of one service, as its clients see them."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_assets.errors import ConflictError
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant, delete_tenant
from memory_assets_tests.api.service import Service, TenantClient, get

_SECONDS = 30.0
_ESTABLISHED = "01"

Pair = tuple[TenantClient, TenantClient]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def workers_of(service: Service) -> list[int]:
    assert service.process
    return children(service.process.pid)


def process_of(client: TenantClient, workers: list[int]) -> int:
    """Return the worker that serves a client's only connection."""
    transport: Any = client.http._transport
    stream = transport._pool.connections[0]._connection._network_stream
    port = stream.get_extra_info("client_addr")[1]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[3] == _ESTABLISHED and int(row[2].rpartition(":")[2], 16) == port)
    return next(pid for pid in workers if f"socket:[{inode}]" in set(_open_files(pid)))


def _open_files(pid: int) -> Iterator[str]:
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            yield str(fd.readlink())


def one_client_each(service: Service, name: str) -> Pair:
    """Two clients of a tenant, whose connections lead to two workers."""
    tenant = Tenant(service.settings, name)
    with suppress(ConflictError):  # the one that watches the sources made it
        create_tenant(tenant)
    key = KeyStore(tenant.state).create()[1]
    found: dict[int, TenantClient] = {}
    deadline = time.monotonic() + _SECONDS
    while len(found) < 2:
        assert time.monotonic() < deadline
        client = service.client(name, key)
        assert client.post("/recent").status_code == 200
        found.setdefault(process_of(client, workers_of(service)), client)
    one, other = found.values()
    return one, other


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of two workers."""
    with Service(tmp_path_factory.mktemp("workers"), MEMORY_WORKERS="2", MEMORY_WATCH_SOURCES="off") as running:
        yield running


def found_by(client: TenantClient, query: str) -> list[int]:
    answer = client.post("/search", {"query": query, "all": True})
    assert answer.status_code == 200, answer.text
    return [memory["id"] for memory in answer.json()["memories"]]


def test_what_one_worker_did_every_worker_shows_at_once(service: Service) -> None:
    pair = one_client_each(service, "writes")
    deadline = time.monotonic() + 4  # from disk, and from the copy once it is made
    turn = 0
    while turn < 12 or time.monotonic() < deadline:
        writer, reader = pair[turn % 2], pair[1 - turn % 2]
        name = f"Quokka{turn}"
        stored = writer.store(f"{name} moved the billing export to shelf {turn}.")
        assert stored in found_by(reader, f"Where did {name} move the billing export?"), turn
        assert reader.http.get(f"/memories/{stored}").json()["content"].startswith(name)
        edited = reader.post(f"/memories/{stored}/edit", {"content": f"{name} sold shelf {turn}."}).json()["id"]
        assert edited in found_by(writer, f"What did {name} sell?"), turn
        assert writer.post(f"/memories/{edited}/forget").status_code == 200
        assert edited not in found_by(reader, f"What did {name} sell?"), turn
        turn += 1
    answers = [client.post("/store", {"content": "Gulls count versions."}) for client in pair]
    versions = [int(answer.headers["X-Memory-Version"]) for answer in answers]
    assert versions == sorted({answer.json()["version"] for answer in answers})
    assert pair[0].post("/recent", X_Memory_Version=str(versions[1])).json()["memories"][0]["id"] == answers[1].json()["id"]


def test_counters_speak_for_all_workers(service: Service) -> None:
    pair = one_client_each(service, "counted")

    def stores() -> float:
        text = pair[0].http.get(f"{service.url}/metrics").text
        found = re.search(r'memory_requests_total\{method="GET",route="/api/v1/\{tenant\}/conflicts",status="200"\} (\S+)', text)
        return float(found[1]) if found else 0.0

    for _ in range(3):
        for client in pair:
            assert client.http.get("/conflicts").status_code == 200
    wait_until(lambda: stores() == 6)  # a request is counted once its answer is sent
    text = pair[1].http.get(f"{service.url}/metrics").text
    assert "memory_requests_in_flight" in text
    assert "process_resident_memory_bytes" in text


def test_a_session_of_the_pages_is_one_session_in_every_worker(service: Service) -> None:
    one, other = one_client_each(service, "pages")
    page = one.http.get(f"{service.url}/ui/login").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf
    form = {"csrf": csrf[1], "tenant": "pages", "key": one.key}
    assert one.http.post(f"{service.url}/ui/login", data=form).status_code == 303
    other.http.cookies.update(one.http.cookies)
    start = other.http.get(f"{service.url}/ui/")
    assert start.status_code == 200
    csrf = re.search(r'name="csrf" value="([^"]+)"', start.text)
    assert csrf
    assert other.http.post(f"{service.url}/ui/logout", data={"csrf": csrf[1]}).status_code == 303
    assert one.http.get(f"{service.url}/ui/").headers["Location"] == "/ui/login"


def test_a_deleted_tenant_is_gone_from_every_worker_at_once(service: Service) -> None:
    pair = one_client_each(service, "gone")
    pair[0].store("Nobody keeps this.")
    assert all(found_by(client, "Who keeps this?") for client in pair)
    delete_tenant(Tenant(service.settings, "gone"))
    assert [client.post("/recent").status_code for client in pair] == [401, 401]
    again = service.new_tenant("gone")
    for client in pair:
        client.http.headers["X-API-Key"] = again.key
        assert found_by(client, "Who keeps this?") == []


def holder_of(folder: Path) -> int:
    """Return the process that holds the lock on a folder; 0 if none does."""
    wanted = folder.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        kind = line.split()
        if "->" not in kind and kind[1] == "FLOCK" and int(kind[5].rpartition(":")[2]) == wanted:
            return int(kind[4])
    return 0


def test_what_one_of_all_does_another_goes_on_with_if_it_is_killed(tmp_path: Path) -> None:
    silo = tmp_path / "projects/-home-ada-atlas/memory"
    silo.mkdir(parents=True)
    limits = {"MEMORY_WORKERS": "2", "MEMORY_TENANT": "main", "MEMORY_WATCH_SOURCES": "on", "MEMORY_RATE_LIMIT": "1000"}
    with Service(tmp_path, MEMORY_CLAUDE_PROJECTS_DIR=str(tmp_path / "projects"), **limits) as service:
        main = one_client_each(service, "main")
        workers, data = workers_of(service), service.settings.data_dir
        wait_until(lambda: holder_of(data) in workers)
        killed = holder_of(data)
        clients = {process_of(client, workers): client for client in main}
        other = next(client for pid, client in clients.items() if pid != killed)
        kept = [clients[killed].store(f"Acknowledged {number}.") for number in range(3)]
        os.kill(killed, signal.SIGKILL)
        assert {memory["id"] for memory in other.post("/recent").json()["memories"]} == set(kept)
        text = "---\nname: heron\ndescription: about herons\ntype: project\n---\n\nHerons nest in the belfry.\n"
        (silo / "heron.md").write_text(text)
        wait_until(lambda: set(found_by(other, "Where do herons nest?")) - set(kept))
        wait_until(lambda: len(workers_of(service)) == 2)
        assert killed not in workers_of(service)
        assert get(f"{service.url}/api/v1/health").status_code == 200
        workers = workers_of(service)
        wait_until(lambda: list(data.glob("main/cache/segment-*/rows.arrow")))
        assert service.process
        service.process.kill()
        wait_until(lambda: not any(map(is_running, workers)))
        assert list(data.glob("main/cache/segment-*"))
        service.start()
        assert not list(data.glob("main/cache/segment-*")), "erased texts would stay in copies that nobody reads"


def test_a_rate_holds_for_all_workers_and_all_end_together(tmp_path: Path) -> None:
    with Service(tmp_path, MEMORY_WORKERS="2", MEMORY_RATE_LIMIT="60") as service:
        pair = one_client_each(service, "limited")
        answered = sum(client.post("/recent").status_code == 200 for _ in range(60) for client in pair)
        assert 0 < answered < 90, "two workers that count alone would answer all 120"
        workers = workers_of(service)
        assert service.stop(signal.SIGTERM) == -signal.SIGTERM
        assert not any(map(is_running, workers))
        with pytest.raises(httpx.ConnectError):
            get(f"{service.url}/api/v1/health")


_HANGING = """
import os, signal, sys, time
from memory_assets.api import workers

workers._HUNG_SECONDS = 1.0

def work(beat):
    print(os.getpid(), flush=True)
    for _ in range(5):
        beat()
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGSTOP)

workers.Workers(1, work, lambda pid: print("ended", pid, flush=True), patience=1).run()
"""


def test_a_worker_that_hangs_is_killed_and_started_again() -> None:
    with subprocess.Popen([sys.executable, "-c", _HANGING], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout
            first, ended, second = (parent.stdout.readline().split() for _ in range(3))
        finally:
            parent.kill()
    assert ended == ["ended", *first]
    assert second != first


_STOPPED = """
import os, time
from memory_assets.api import workers

workers._HUNG_SECONDS, workers._HANG_CHECK_SECONDS = 3.0, 0.5

def work(beat):
    print(os.getpid(), flush=True)
    beats = 0
    while True:
        beat()
        time.sleep(0.1)
        beats += 1
        if beats in (10, 40):
            print(os.getpid(), flush=True)

workers.Workers(1, work, lambda pid: print("ended", pid, flush=True), patience=1).run()
"""


def test_a_worker_that_was_stopped_with_its_parent_goes_on() -> None:
    program = [sys.executable, "-c", _STOPPED]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        try:
            assert parent.stdout
            started, before = (parent.stdout.readline() for _ in range(2))
            os.killpg(parent.pid, signal.SIGSTOP)
            time.sleep(4)
            os.kill(parent.pid, signal.SIGCONT)
            time.sleep(0.5)
            os.kill(int(started), signal.SIGCONT)
            after = parent.stdout.readline()
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
    assert started == before == after
