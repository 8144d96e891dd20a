"""`memory up` as it is used: real webserver, daemon, code location and service; what is killed comes back, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from memory_assets.operations.search import search
from memory_assets.operations.status import status
from memory_assets.settings import load_settings
from memory_assets.supervisor import Running, find_running
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.conftest import WriteSilo

pytestmark = pytest.mark.long
_PATIENCE_SECONDS = 240.0
_PARTS = ["code location", "daemon", "UI", "HTTP service"]
_RUNS = """{ runsOrError(limit: 20) { ... on Runs { results {
    pipelineName status tags { key value } assetMaterializations { assetKey { path } } } } } }"""
_ASSET = """{ assetNodeOrError(assetKey: {path: ["memories"]}) { ... on AssetNode {
    groupName jobNames assetMaterializations(limit: 1) { partition metadataEntries { label
    ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue } } } } } }"""
Found = TypeVar("Found")


def wait_for(what: str, look: Callable[[], Found | None]) -> Found:
    """What `look` returns as soon as it is true; slow machines get time, fast ones lose none."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    pytest.fail(f"{what} did not happen within {_PATIENCE_SECONDS:.0f} s")


def free_ports() -> tuple[int, int]:
    import socket

    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie that its parent has not asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Deployment:
    """`memory up` over the test's data folder."""

    def __init__(self) -> None:
        self.ui, self.port = free_ports()
        self.settings = load_settings()
        self.log = self.settings.data_dir.with_name("up.log")
        command = [sys.executable, "-m", "memory_assets.cli", "up", "--ui-port", str(self.ui), "--port", str(self.port)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def running(self) -> Running | None:
        """What runs, once all of it does."""
        assert self.process.poll() is None, self.log.read_text()
        found = find_running(self.settings)
        return found if found and found.parts and all(part["pid"] for part in found.parts) else None

    def pid(self, name: str) -> int:
        found = self.running()
        return next((int(part["pid"] or 0) for part in found.parts if part["name"] == name), 0) if found else 0

    def ask(self, query: str) -> dict[str, Any]:
        """What the webserver answers to a GraphQL query."""
        answer = httpx.post(f"http://127.0.0.1:{self.ui}/graphql", json={"query": query}, timeout=60, trust_env=False)
        return answer.raise_for_status().json()["data"]

    def runs(self, changed: str, state: str = "SUCCESS") -> list[dict[str, Any]]:
        return [
            each
            for each in self.ask(_RUNS)["runsOrError"]["results"]
            if each["status"] == state and {"key": "changed", "value": changed} in each["tags"]
        ]


@pytest.fixture
def deployment(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("MEMORY_WATCH_SOURCES", "off")  # or the service takes the file in before the daemon's run
    create_tenant(tenant)
    made = Deployment()
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def test_a_dropped_file_is_found_after_each_part_was_killed_and_all_ends_at_a_signal(
    deployment: Deployment, write_silo: WriteSilo, tenant: Tenant
) -> None:
    first = wait_for("the start", deployment.running)
    assert [part["name"] for part in first.parts] == _PARTS
    write_silo("owner", "Priya owns the billing export.")
    wait_for("the run of the dropped file", lambda: deployment.runs("silo_files"))
    (node,) = [deployment.ask(_ASSET)["assetNodeOrError"]]
    (made,) = node["assetMaterializations"]
    said = {entry["label"]: entry.get("intValue", entry.get("text")) for entry in made["metadataEntries"]}
    assert (node["groupName"], made["partition"], said["added"], said["last_change"]) == ("memory", "main", 1, "1 added")
    assert [each.content for each in search(Tenant(tenant.settings), "who owns the billing export").memories]

    for name in ("daemon", "code location"):
        os.kill(deployment.pid(name), signal.SIGKILL)
    write_silo("rota", "Tomasz keeps the rota of the quarry.")
    wait_for("another run after both were killed", lambda: len(deployment.runs("silo_files")) == 2)
    parts = {view.name: view for view in status(tenant).services}
    assert (parts["daemon"].restarts, parts["daemon"].ended) == (1, "signal 9")
    assert (parts["UI"].restarts, parts["UI"].pid) == (0, first.parts[2]["pid"])
    health = httpx.get(f"http://127.0.0.1:{deployment.port}/api/v1/health", timeout=60, trust_env=False)
    assert health.status_code == 200

    again = subprocess.run([sys.executable, "-m", "memory_assets.cli", "up"], capture_output=True, text=True, check=False)
    assert (again.returncode, "run already; `memory down` ends them" in again.stderr) == (1, True)
    assert deployment.running(), "the second one left the first one's state as it was"
    pids = [int(view.pid or 0) for view in parts.values()]
    deployment.process.send_signal(signal.SIGINT)
    assert deployment.process.wait(120) == 0, deployment.log.read_text()
    assert not [pid for pid in pids if is_alive(pid)]
    assert find_running(tenant.settings) is None
    assert status(tenant).services == ()


def test_no_part_outlives_a_supervisor_that_is_killed_and_down_ends_one(deployment: Deployment, tenant: Tenant) -> None:
    found = wait_for("the start", deployment.running)
    deployment.process.kill()
    deployment.process.wait()
    wait_for("the end of its parts", lambda: not any(is_alive(int(part["pid"] or 0)) for part in found.parts))
    assert find_running(tenant.settings) is None
    memory = [sys.executable, "-m", "memory_assets.cli"]
    options = ["--no-ui", "--no-service", "--detach"]
    told = subprocess.run([*memory, "up", *options], capture_output=True, text=True, check=False)
    assert (told.returncode, "daemon: process" in told.stdout) == (0, True), told.stderr
    done = subprocess.run([*memory, "down"], capture_output=True, text=True, check=True)
    assert done.stdout == "Everything has ended.\n"
    assert subprocess.run([*memory, "down"], capture_output=True, text=True, check=True).stdout == "Nothing runs.\n"
