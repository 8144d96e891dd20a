"""`memory up` with real webserver, daemon, code location and service: killed processes are restarted, and none is left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import httpx
import pytest

from memory_assets.operations.search import search
from memory_assets.operations.status import status
from memory_assets.stores.records import instance_home
from memory_assets.supervisor import LOG, STATE, Part, _lock_state, _run_parts, find_port, find_running
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.conftest import IS_LONG, WriteSilo
from memory_assets_tests.defs.deployment import Deployment, is_alive, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
_PARTS = ["code location", "daemon", "UI", "HTTP service"]
_ASSET = """{ assetNodeOrError(assetKey: {path: ["memories"]}) { ... on AssetNode {
    groupName jobNames assetMaterializations(limit: 1) { partition metadataEntries { label
    ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue } } } } } }"""

_LAUNCH = """mutation ($of: ExecutionParams!) { launchPipelineExecution(executionParams: $of) {
    ... on LaunchRunSuccess { run { id } } } }"""
_RUN = """query ($id: ID!) { runOrError(runId: $id) { ... on Run { status tags { key value } } } }"""
_DECAY = {"repositoryLocationName": "memory_assets", "repositoryName": "__repository__", "pipelineName": "decay"}
_WITHOUT_PARTITION = {"selector": _DECAY, "mode": "default", "runConfigData": {}}


@pytest.fixture
def deployment(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("MEMORY_WATCH_SOURCES", "off")  # or the service takes the file in before the daemon's run
    create_tenant(tenant)
    made = Deployment()
    try:
        yield made
    finally:
        made.kill()


def test_a_dropped_file_is_found_after_parts_hung_and_died_and_all_ends_at_a_signal(
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

    launched = deployment.ask(_LAUNCH, of=_WITHOUT_PARTITION)["launchPipelineExecution"]["run"]["id"]
    wait_for("a run that names no tenant", lambda: deployment.ask(_RUN, id=launched)["runOrError"]["status"] == "SUCCESS")
    tags = deployment.ask(_RUN, id=launched)["runOrError"]["tags"]
    assert {"key": "dagster/partition", "value": "main"} in tags

    first_signal, ended = (signal.SIGSTOP, "hung") if IS_LONG else (signal.SIGKILL, "signal 9")  # a hang is noticed after minutes
    for part, number in zip(first.parts, (first_signal, first_signal, signal.SIGKILL, signal.SIGKILL), strict=True):
        os.kill(int(part["pid"] or 0), number)
    write_silo("rota", "Tomasz keeps the rota of the quarry.")
    wait_for("another run after all of them failed", lambda: len(deployment.runs("silo_files")) == 2)
    parts = {view.name: view for view in status(tenant).services}
    assert [(view.restarts, view.ended) for view in parts.values()] == [(1, ended)] * 2 + [(1, "signal 9")] * 2
    health = httpx.get(f"http://127.0.0.1:{deployment.port}/api/v1/health", timeout=60, trust_env=False)
    assert health.status_code == 200

    again = subprocess.run([sys.executable, "-m", "memory_assets.cli", "up"], capture_output=True, text=True, check=False)
    assert (again.returncode, "run already; `memory down` ends them" in again.stderr) == (1, True)
    assert deployment.running(), "the second one left the first one's state as it was"
    pids = [int(view.pid or 0) for view in parts.values()]
    os.kill(deployment.supervisor, signal.SIGINT)
    assert deployment.process.wait(120) == 0, deployment.log.read_text()
    assert not [pid for pid in pids if is_alive(pid)]
    assert find_running(tenant.settings) is None
    assert status(tenant).services == ()


def test_a_port_that_is_taken_is_told_before_anything_starts_and_any_is_one_that_is_free(tenant: Tenant) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = [sys.executable, "-m", "memory_assets.cli", "up", "--no-service", "--ui-port", str(taken.getsockname()[1])]
        told = subprocess.run(up, capture_output=True, text=True, check=False, timeout=60)
    assert (told.returncode, "name another with --ui-port" in told.stderr) == (1, True)
    assert find_running(tenant.settings) is None
    assert find_port("127.0.0.1", 0, "--port") > 0


def test_a_part_waits_while_its_port_is_taken_and_all_ends_if_the_data_folder_moves(tmp_path: Path) -> None:
    path, said = tmp_path / "data" / STATE, list[str]()
    path.parent.mkdir()

    def announce(line: str) -> None:
        said.append(line)
        if "--ui-port" in line:
            path.parent.rename(tmp_path / "moved")

    with socket.create_server(("127.0.0.1", 0)) as taken, _lock_state(path) as state:
        part = Part("UI", ["false"], Mock(), reserve=partial(find_port, "127.0.0.1", taken.getsockname()[1], "--ui-port"))
        (tmp_path / "workspace.yaml").touch()
        _run_parts([part], tmp_path, tmp_path / "door", state, Event(), announce)
    assert (part.process, part.ended, len(said)) == (None, "port taken", 2)
    assert str(path.parent) in said[1]


def test_all_ends_if_dagsters_folder_is_deleted_and_the_next_run_has_it_again(
    tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tenant(tenant)
    home = tmp_path / "home of dagster"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    deployment = Deployment("--no-ui", "--no-service")
    try:
        wait_for("the start", deployment.running)
        shutil.rmtree(home)
        (home / "history").mkdir(parents=True)  # as by a part that is about to be told
        assert deployment.process.wait(120) == 0
    finally:
        deployment.kill()
    assert f"Dagster's folder {home} was moved or deleted" in deployment.log.read_text()
    assert instance_home(tenant.settings) == home
    done = subprocess.run([sys.executable, "-m", "memory_assets.cli", "run"], capture_output=True, text=True, check=False)
    assert (done.returncode, "DAGSTER_HOME" in done.stderr) == (0, False), done.stderr


def test_no_part_outlives_a_supervisor_that_is_killed_and_down_ends_one(tenant: Tenant) -> None:
    create_tenant(tenant)
    killed = Deployment("--no-ui")  # its process is started like the others
    try:
        found = wait_for("the start", killed.running)
    finally:
        killed.kill()
    wait_for("the end of its parts", lambda: not any(is_alive(int(part["pid"] or 0)) for part in found.parts))
    assert find_running(tenant.settings) is None
    memory = [sys.executable, "-m", "memory_assets.cli"]
    options = ["--no-ui", "--no-service", "--detach"]
    told = subprocess.run([*memory, "up", *options], capture_output=True, text=True, check=False)
    assert (told.returncode, "daemon: process" in told.stdout) == (0, True), told.stderr
    log = tenant.settings.data_dir / LOG
    inode = log.stat().st_ino
    again = subprocess.run([*memory, "up", *options], capture_output=True, text=True, check=False)
    assert (again.returncode, "run already" in again.stderr, log.stat().st_ino) == (1, True, inode)
    done = subprocess.run([*memory, "down"], capture_output=True, text=True, check=True)
    assert done.stdout == "Everything has ended.\n"
    assert subprocess.run([*memory, "down"], capture_output=True, text=True, check=True).stdout == "Nothing runs.\n"
