"""The service as a process: its log, counters, limits, listening addresses and self-description."""

import asyncio
import fcntl
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from fastapi import Request

from memory_assets.api import app
from memory_assets.api.errors import answer_error
from memory_assets.api.middleware import Metrics
from memory_assets.errors import SettingsError
from memory_assets.ports import bind_port, listen
from memory_assets.settings import Settings
from memory_assets_tests.api.service import ROOT, Service, TenantClient, get
from memory_assets_tests.torture import zygote


def test_the_health_of_the_service_needs_no_key_and_says_nothing_of_tenants(service: Service, client: TenantClient) -> None:
    answer = get(f"{service.url}/api/v1/health")
    assert answer.json().keys() == {"status", "version"}
    assert answer.json()["status"] == "healthy"
    assert client.name not in answer.text


def test_a_probe_that_asks_for_the_head_of_health_is_no_error(service: Service) -> None:
    answer = httpx.head(f"{service.url}/api/v1/health", timeout=60)
    assert (answer.status_code, answer.content) == (200, b"")
    counted = get(f"{service.url}/metrics").text
    assert 'memory_requests_total{method="HEAD",route="/api/v1/health",status="200"}' in counted


def test_counters_are_prometheus_text_without_names_or_content(service: Service, client: TenantClient) -> None:
    client.store("Xylophones are not mentioned anywhere.")
    answer = get(f"{service.url}/metrics")
    assert re.search(r'memory_requests_total\{method="POST",route="/api/v1/\{tenant\}/store",status="200"\} \d', answer.text)
    assert "memory_request_seconds_bucket" in answer.text
    assert "process_resident_memory_bytes" in answer.text
    assert client.name not in answer.text
    assert "ylophone" not in answer.text


def test_every_log_line_is_json_with_a_request_id_and_none_holds_content_or_keys(service: Service, client: TenantClient) -> None:
    answer = client.post("/store", {"content": "Quokkas are not logged."})

    def logged() -> list[dict[str, Any]]:
        return [json.loads(line) for line in service.log_text().splitlines(keepends=True) if line[0] == "{" and line[-1] == "\n"]

    def of_the_answer() -> list[dict[str, Any]]:
        return [line for line in logged() if line["request_id"] == answer.headers["X-Request-ID"]]

    end = time.monotonic() + 30  # the line is written once the answer is sent
    while not of_the_answer() and time.monotonic() < end:
        time.sleep(0.02)
    lines, (mine,) = logged(), of_the_answer()
    assert (mine["route"], mine["status"], mine["method"]) == ("/api/v1/{tenant}/store", 200, "POST")
    assert all({"time", "level", "logger", "message", "request_id"} <= line.keys() for line in lines)
    assert "Quokka" not in service.log_text()
    assert client.key not in service.log_text()


def test_the_log_names_no_watched_file(tmp_path: Path) -> None:
    watch = (
        "import sys, threading; from pathlib import Path; from watchfiles import watch\n"
        "from memory_assets.api.logs import configure_logging\n"
        "configure_logging('DEBUG', 'json')\n"
        "threading.Timer(1, Path(sys.argv[1], 'quokka.md').touch).start()\n"
        "print(next(watch(sys.argv[1], rust_timeout=20_000, yield_on_timeout=True)))"
    )
    done = subprocess.run([sys.executable, "-c", watch, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "quokka" in done.stdout
    assert "quokka" not in done.stderr


def test_limits_and_tokens_hold_where_they_are_set(tmp_path: Path) -> None:
    limits = {
        "MEMORY_RATE_LIMIT": "5",
        "MEMORY_METRICS_TOKEN": "open-sesame",
        "LOG_FORMAT": "pretty",
        "MEMORY_MAX_BODY_BYTES": "2000",
    }
    with Service(tmp_path, **limits) as service:
        client, other = service.new_tenant("one"), service.new_tenant("two")
        answers = [client.post("/recent") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert other.post("/recent").status_code == 200
        assert other.post("/store", {"content": "x" * 2_000}).status_code == 413
        assert get(f"{service.url}/metrics").status_code == 401
        assert get(f"{service.url}/metrics", headers={"Authorization": "Bearer open-sesame"}).status_code == 200
        assert answers[0].headers["X-Request-ID"] in service.log_text()
        assert not [line for line in service.log_text().splitlines() if line.startswith("{")]
        away = service.settings.data_dir.rename(tmp_path / "away")
        lost = other.post("/recent")
        assert (lost.status_code, "data folder cannot be read" in lost.json()["error"]) == (503, True)
        away.rename(service.settings.data_dir)
        assert other.post("/recent").status_code == 200


def test_several_workers_count_in_a_private_folder_that_the_next_service_removes_if_they_are_killed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, several, made = settings.data_dir / "tmp", settings.model_copy(update={"workers": 2}), list[str]()

    def make(**given: Any) -> TemporaryDirectory[str]:
        folder = TemporaryDirectory(**given)
        if not made:  # a service that starts at the same time takes it for one that was left
            Path(folder.name).rmdir()
        made.append(folder.name)
        return folder

    monkeypatch.setattr(app, "TemporaryDirectory", make)
    with app._open_counts(settings.model_copy(update={"workers": 1})) as none:
        assert none is None
    for left in ("killed", "running"):
        (place / f"memory-metrics-{left}").mkdir(parents=True)
    running = os.open(place / "memory-metrics-running", os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_EX)
    with app._open_counts(several) as folder:
        assert folder and stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {*place.iterdir()} == {folder, place / "memory-metrics-running"}
    os.close(running)
    assert not folder.exists()


def _count_without(gone: Path, folder: Path) -> None:
    metrics = Metrics(folder)
    shutil.rmtree(gone)
    metrics.requests.labels("GET", "/", 200).inc()
    assert (b"memory_requests_total{" in metrics.exposition()) == (gone == folder)


def test_a_worker_counts_even_if_the_folder_of_the_counts_is_gone(tmp_path: Path) -> None:
    for gone in ("tmp/counts", "tmp"):
        (folder := tmp_path / "tmp" / "counts").mkdir(parents=True, exist_ok=True)
        assert zygote.shared().call(_count_without, tmp_path / gone, folder).wait().code == 0


def test_with_a_hung_embedder_health_is_red_and_what_needs_none_is_answered(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hung = {
            "MEMORY_EMBEDDER": "ollama",
            "OLLAMA_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "EMBEDDING_TIMEOUT": "50",
        }
        with Service(tmp_path, **hung) as service:
            client = service.new_tenant("one")
            with ThreadPoolExecutor(12) as threads:
                stores = [threads.submit(client.post, "/store", {"content": f"Note {number}."}) for number in range(12)]
                time.sleep(0.5)
                red = get(f"{service.url}/api/v1/health")
                assert (red.status_code, red.json()["error"]) == (503, "embedding: it did not answer within 5 s.")
                assert httpx.head(f"{service.url}/api/v1/health", timeout=4).status_code == 200, "it does not ask the embedder"
                assert client.post("/recent").status_code == 200
                assert not any(store.done() for store in stores), "they wait, and the list above did not wait for them"
                silent.close()
                answers = [store.result() for store in stores]
            assert {answer.status_code for answer in answers} == {503}
            assert {answer.json()["error"].partition(":")[0] for answer in answers} == {"embedding"}


def test_it_does_not_listen_beyond_this_machine_without_a_key(tmp_path: Path) -> None:
    environment = Service(tmp_path).environment
    done = zygote.shared().start(environment, "serve", "--host", "0.0.0.0", "--port", "0").wait()
    assert done.code == 1
    assert "memory key create" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_port_that_is_taken_is_one_clear_sentence(service: Service) -> None:
    port = service.url.rpartition(":")[2]
    done = zygote.shared().start(service.environment, "serve", "--port", port).wait()
    assert done.code == 1
    assert port in done.err
    assert len(done.err.splitlines()) == 1


def test_a_port_on_which_another_service_begins_to_listen_meanwhile_is_one_clear_sentence() -> None:
    with bind_port("127.0.0.1", 0, "HOST", "PORT") as first:
        port = first.getsockname()[1]
        with bind_port("127.0.0.1", port, "HOST", "PORT") as second:
            listen(first, 1, "PORT")
            with pytest.raises(
                SettingsError, match=rf"^Port {port} of 127.0.0.1 cannot be used \(Address already in use\); set PORT"
            ):
                listen(second, 1, "PORT")


def test_the_documentation_is_served_and_promises_400_rather_than_422(service: Service) -> None:
    page = get(f"{service.url}/docs").text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) >= 3
    for path in loaded:
        assert get(f"{service.url}{path}").status_code == 200, "the page loads what this service has, and nothing else"
    schema = get(f"{service.url}/openapi.json").json()
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert len(operations) == 34
    assert all("422" not in operation["responses"] for operation in operations)
    tenants = [operation for path, each in schema["paths"].items() if "{tenant}" in path for operation in each.values()]
    for operation in tenants:
        assert {"200", "400", "401", "413", "503"} <= operation["responses"].keys()
        assert operation["security"] == [{"APIKeyHeader": []}]


@pytest.mark.long
def test_schemathesis_finds_nothing(service: Service, client: TenantClient, tmp_path: Path) -> None:
    schema = get(f"{service.url}/openapi.json").json()
    client.store("A memory to be found.")
    paths = {}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["parameters"] = [each for each in operation.get("parameters", []) if each["name"] != "tenant"]
        paths[path.replace("{tenant}", client.name)] = operations
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(schema | {"paths": paths}), encoding="utf-8")
    command = [
        *(
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            str(file),
            "--url",
            service.url,
            "-H",
            f"X-API-Key: {client.key}",
        ),
        *(
            "--max-examples",
            "4",
            "--exclude-checks",
            "positive_data_acceptance",  # a schema says nothing of blank texts and control characters; test_bad_input does
            "--phases",
            "examples,coverage,fuzzing,stateful",
            "--seed",
            "1",
            "--exclude-path-regex",
            "/import$",  # it cannot write JSON Lines
            "--warnings",
            "off",
            "--request-timeout",
            "60",  # a machine with other work answers late
            "--max-time",
            "12",
        ),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-6_000:]
    assert str(ROOT) not in done.stdout


def test_a_request_that_needs_a_part_of_a_replaced_program_is_told_to_start_the_service_again() -> None:
    missing = ModuleNotFoundError("No module named 'memory_assets.recall'", name="memory_assets.recall")
    answer = asyncio.run(answer_error(Request({"type": "http"}), missing))
    assert (answer.status_code, json.loads(bytes(answer.body))["error"]) == (
        503,
        "The program was replaced or removed since the service began; start the service again.",
    )
