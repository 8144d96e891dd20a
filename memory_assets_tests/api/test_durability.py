"""Durability of the service: kills, restarts, other processes, many clients at once."""

import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from memory_assets.api.errors import describe_error
from memory_assets.errors import StoreError
from memory_assets.models import Memory
from memory_assets.stores.rows import COLUMNS, content_hash, from_arrow
from memory_assets_tests.api.service import Service, TenantClient
from memory_assets_tests.torture import zygote

CLIENTS = 8


def all_memories(client: TenantClient) -> dict[int, Memory]:
    store = client.tenant.memories
    return {memory.id: memory for memory in from_arrow(store.scan(COLUMNS))}


def assert_whole(client: TenantClient, memories: dict[int, Memory]) -> None:
    store = client.tenant.memories
    rows = store.scan(("id", str(store.columns.live)))
    vectors = dict(zip(rows["id"].to_pylist(), rows[str(store.columns.live)].to_pylist(), strict=True))
    assert rows.num_rows == len(memories)
    for number, memory in memories.items():
        assert memory.content_hash == content_hash(memory.content)
        assert memory.pipeline
        assert memory.tags
        assert abs(sum(value * value for value in vectors[number]) - 1) < 1e-3


def test_a_kill_loses_nothing_acknowledged_and_a_stop_finishes_what_was_accepted(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.new_tenant("claude")
        acknowledged: dict[int, str] = {}
        enough = threading.Event()

        def store(number: int) -> None:
            mine = service.client("claude", client.key)
            for turn in range(1_000):
                text = f"Client {number} stores note {turn} about Atlas."
                try:
                    acknowledged[mine.store(text)] = text
                except httpx.HTTPError:
                    return
                if len(acknowledged) >= 60:
                    enough.set()

        with ThreadPoolExecutor(CLIENTS) as threads:
            for number in range(CLIENTS):
                threads.submit(store, number)
            assert enough.wait(60)
            service.stop(signal.SIGKILL)
        memories = all_memories(client)
        assert acknowledged.items() <= {number: memory.content for number, memory in memories.items()}.items()
        assert len(memories) <= len(acknowledged) + CLIENTS
        assert_whole(client, memories)
        service.start()
        clients = [service.client("claude", client.key) for _ in range(CLIENTS)]
        for each in clients:  # connects, so that the stores below are sent at once
            assert each.http.get("/health").json()["memory_count"] == len(memories)
        answers: list[httpx.Response] = []

        def store_once(number: int) -> None:
            answers.append(clients[number].post("/store", {"content": f"Note {number}."}, Idempotency_Key=f"note-{number}"))

        threads = [threading.Thread(target=store_once, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while not answers and time.monotonic() < deadline:
            time.sleep(0.001)
        assert service.stop(signal.SIGTERM) in {0, -signal.SIGTERM}
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200] * CLIENTS
        ids = {answer.json()["id"] for answer in answers}
        assert set(all_memories(client)) - set(memories) == ids
        service.start()
        again = service.client("claude", client.key)
        retried = {
            again.post("/store", {"content": f"Note {n}."}, Idempotency_Key=f"note-{n}").json()["id"] for n in range(CLIENTS)
        }
        assert retried == ids
        assert set(all_memories(client)) - set(memories) == ids


def test_eight_clients_at_once_store_and_search_without_error(client: TenantClient) -> None:
    def work(number: int) -> list[int]:
        mine = client.service.client(client.name, client.key)
        ids = []
        for turn in range(6):
            ids.append(mine.store(f"Client {number} writes note {turn} on the export.", tags=[f"client {number}"]))
            found = mine.post(
                "/search", {"query": f"note {turn} on the export", "tags": [f"client {number}"], "limit": 50, "all": True}
            )
            assert set(ids) == {memory["id"] for memory in found.json()["memories"]}
        return ids

    with ThreadPoolExecutor(CLIENTS) as threads:
        stored = [number for ids in threads.map(work, range(CLIENTS)) for number in ids]
    memories = all_memories(client)
    assert len(stored) == len(set(stored)) == CLIENTS * 6
    assert set(memories) == set(stored)
    assert_whole(client, memories)


def test_one_idempotency_key_from_eight_clients_at_once_stores_one_memory(client: TenantClient) -> None:
    def store(number: int) -> tuple[int, int | None]:
        mine = client.service.client(client.name, client.key)
        answer = mine.post("/store", {"content": f"The winner is {number % 2}."}, Idempotency_Key="race")
        return answer.status_code, answer.json().get("id")

    with ThreadPoolExecutor(CLIENTS) as threads:
        outcomes = Counter(threads.map(store, range(CLIENTS)))
    assert len(client.tenant.memories) == 1
    (number,) = all_memories(client)
    assert outcomes[200, number] == CLIENTS / 2
    assert outcomes[409, None] == CLIENTS / 2


def test_what_another_process_commits_is_seen_within_a_second(client: TenantClient) -> None:
    client.store("The service has its handle open.")
    text = "Zebras graze beside the data centre."
    assert not zygote.shared().start(client.service.environment, "store", text, "--tenant", client.name).wait().code
    time.sleep(1)
    assert client.post("/recent").json()["memories"][0]["content"] == text
    found = client.post("/search", {"query": "zebras", "limit": 1}).json()["memories"]
    assert found[0]["content"] == text


def test_a_service_that_is_older_than_its_store_names_the_restart_instead_of_searching_without_the_graph(
    client: TenantClient,
) -> None:
    client.store("Alice moved the export to DuckDB.")
    with client.tenant.catalog.write() as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    asked = client.post("/search", {"query": "export"}), client.post("/recent"), client.http.get("/names")
    sentence = "store: a newer release wrote the memory store, and nothing was written; start the service again, or upgrade it."
    assert [(answer.status_code, answer.json()["error"]) for answer in asked] == [(503, sentence)] * 3
    health = client.http.get("/health")
    assert (health.status_code, "start again what began before an upgrade" in health.json()["error"]) == (503, True)


def test_an_embedder_that_is_away_stores_nothing_and_names_the_step(tmp_path: Path) -> None:
    with Service(tmp_path, MEMORY_EMBEDDER="ollama", OLLAMA_URL="http://127.0.0.1:9", LOG_FORMAT="json") as service:
        client = service.new_tenant("claude")
        answer = client.post("/store", {"content": "This cannot be embedded."})
        assert answer.status_code == 503
        assert answer.json()["error"].startswith("embedding: ")
        assert client.http.get("/health").status_code == 503
        assert len(client.tenant.memories) == 0
        assert answer.headers["X-Request-ID"] in service.log_text()


def test_a_client_is_told_what_mends_a_full_disk_but_not_where_it_is() -> None:
    said = 'lance error: LanceError(IO): No space left on device (os error 28) at path "/srv/main/vectors"'
    told = describe_error(StoreError(f"1 row(s) of 'memories' could not be written ({said}); nothing was written."))
    assert "make room" in told
    assert "/srv" not in told
    assert describe_error(StoreError("/srv/main cannot be read.")).endswith("try again.")
