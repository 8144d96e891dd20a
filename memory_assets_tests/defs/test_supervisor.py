"""`memory up` with real webserver, daemon, code location and service: killed processes are restarted, and none is left behind."""

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import httpx
import pytest

from memory_assets import supervisor
from memory_assets.defs.instance import open_instance
from memory_assets.errors import SettingsError
from memory_assets.operations.search import search
from memory_assets.operations.status import status
from memory_assets.probes import Probe
from memory_assets.settings import load_settings
from memory_assets.stores.records import instance_home
from memory_assets.supervisor import STATE, Part, _lock_state, _run_parts, find_port, find_running, supervise
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.conftest import IS_LONG, WriteSilo
from memory_assets_tests.defs.deployment import Deployment, is_alive, wait_for
from memory_assets_tests.torture import zygote

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


def test_a_dropped_file_is_found_after_parts_hung_and_died_and_none_outlives_a_supervisor_that_is_killed(
    deployment: Deployment, write_silo: WriteSilo, tenant: Tenant
) -> None:
    assert "daemon: process" in deployment.told
    first = wait_for("the start", deployment.running)
    assert [part["name"] for part in first.parts] == _PARTS
    answer = wait_for("an answer", lambda: deployment.ask(_LAUNCH, of=_WITHOUT_PARTITION)["launchPipelineExecution"])
    launched = answer["run"]["id"]
    wait_for("a run that names no tenant", lambda: deployment.ask(_RUN, id=launched)["runOrError"]["status"] == "SUCCESS", 2)
    tags = deployment.ask(_RUN, id=launched)["runOrError"]["tags"]
    assert {"key": "dagster/partition", "value": "main"} in tags

    first_signal, ended = (signal.SIGSTOP, "hung") if IS_LONG else (signal.SIGKILL, "signal 9")  # a hang is noticed after minutes
    code, daemon, _, service = (int(part["pid"] or 0) for part in first.parts)
    for pid, number in ((code, first_signal), (daemon, first_signal), (service, signal.SIGKILL)):
        os.kill(pid, number)
    write_silo("owner", "Priya owns the billing export.")
    wait_for("the run of the dropped file after they failed", lambda: deployment.runs("silo_files"), 2)
    (node,) = [deployment.ask(_ASSET)["assetNodeOrError"]]
    (made,) = node["assetMaterializations"]
    said = {entry["label"]: entry.get("intValue", entry.get("text")) for entry in made["metadataEntries"]}
    assert (node["groupName"], made["partition"], said["added"], said["last_change"]) == ("memory", "main", 1, "1 added")
    assert [each.content for each in search(Tenant(tenant.settings), "who owns the billing export").memories]
    parts = {view.name: view for view in status(tenant).services}
    assert [(view.restarts, view.ended) for view in parts.values()] == [(1, ended)] * 2 + [(0, ""), (1, "signal 9")]
    health = httpx.get(f"http://127.0.0.1:{deployment.port}/api/v1/health", timeout=60, trust_env=False)
    assert health.status_code == 200

    inode = deployment.log.stat().st_ino
    for how in ((), ("--detach",)):
        again = zygote.shared().memory("up", *how)
        assert (again.returncode, "run already; `memory down` ends them" in again.stderr) == (1, True)
    assert deployment.log.stat().st_ino == inode
    assert deployment.running(), "the others left the first one's state as it was"
    deployment.kill()
    wait_for("the end of its parts", lambda: not any(is_alive(int(view.pid or 0)) for view in parts.values()))
    assert find_running(tenant.settings) is None


def _supervise_sleep() -> None:
    """Supervise a process that starts another one; both do nothing."""
    part = Part("code location", ["sh", "-c", "sleep 600 & wait"], lambda: Probe(lambda: True))
    setattr(supervisor, "_make_parts", lambda *_: [part])  # noqa: B010 - this process does nothing else
    setattr(supervisor, "_set_up_instance", _set_up_instance)  # noqa: B010
    supervise(load_settings(), None, None, print)


def _set_up_instance() -> Path:
    with open_instance(load_settings()) as instance:
        return Path(instance.root_directory)


def test_down_ends_all(tenant: Tenant) -> None:
    create_tenant(tenant)
    supervising = zygote.shared().call(_supervise_sleep)
    wait_for("the start", lambda: (running := find_running(tenant.settings)) and running.has_begun, 0.05)
    pids = wait_for("both processes", lambda: found if len(found := zygote.descendants(supervising.pid)) == 2 else None, 0.05)
    assert zygote.shared().memory("down").stdout == "Everything has ended.\n"
    assert supervising.wait().code == 0
    assert not [pid for pid in pids if is_alive(pid)]
    assert find_running(tenant.settings) is None
    assert status(tenant).services == ()
    assert zygote.shared().memory("down").stdout == "Nothing runs.\n"


def test_a_data_folder_is_found_that_the_terminal_cannot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_DATA_DIR", str(tmp_path / "Grüße Ω"))
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    assert (tmp_path / "Grüße Ω") in supervisor._set_up_instance().parents


def test_a_port_that_is_taken_is_told_before_anything_starts_and_any_is_one_that_is_free(tenant: Tenant) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = zygote.shared().memory("up", "--no-service", "--ui-port", str(taken.getsockname()[1]))
    assert (told.returncode, "set --ui-port to a free one" in told.stderr) == (1, True)
    free = str(find_port("127.0.0.1", 0, "--port"))
    told = zygote.shared().memory("up", "--ui-port", free, "--port", free)
    assert (told.returncode, "set --port or --ui-port" in told.stderr) == (1, True)
    assert find_running(tenant.settings) is None
    for host in ("a..b", "\udcff"):
        with pytest.raises(SettingsError, match="set MEMORY_HOST to an address"):
            find_port(host, 0, "--port")
    with pytest.raises(SettingsError, match=r"of 8\.8\.8\.8 .*set MEMORY_HOST to an address of this machine"):
        find_port("8.8.8.8", 0, "--port")


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


Supervise = Callable[..., list[str]]


@pytest.fixture
def supervised(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervise]:
    """Return a function that supervises one process, calls a function with Dagster's folder, and returns the announcements."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    said: list[str] = []

    def supervise_and(happen: Callable[[Path], object], ui_port: int | None = None) -> list[str]:
        def watch() -> Probe:
            happen(instance_home(tenant.settings))
            return Probe(lambda: True)

        part = Part("code location", ["sleep", "600"], watch)
        monkeypatch.setattr(supervisor, "_make_parts", lambda *_: [part])
        supervise(tenant.settings, ui_port, None, said.append)
        assert (part.process, part.restarts, find_running(tenant.settings)) == (None, 0, None)
        return said

    monkeypatch.setattr(supervisor, "_set_up_instance", _set_up_instance)
    create_tenant(tenant)
    yield supervise_and
    for number, handler in before:
        signal.signal(number, handler)


def test_a_ui_that_is_not_installed_is_told_with_the_command_that_adds_it(
    supervised: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "find_spec", lambda _: None)
    (said,) = supervised(lambda _: signal.raise_signal(signal.SIGTERM), 1)
    assert "pip install '.[ui]'" in said


def test_all_ends_if_dagsters_folder_is_deleted_and_the_next_run_has_it_again(
    supervised: Supervise, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home of dagster"
    monkeypatch.setenv("DAGSTER_HOME", str(home))

    def delete(folder: Path) -> None:
        shutil.rmtree(folder)
        (folder / "history").mkdir(parents=True)  # as by a part that is about to be told

    (said,) = supervised(delete)
    assert f"Dagster's folder {home} was moved or deleted" in said
    assert instance_home(tenant.settings) == home
    with open_instance(tenant.settings) as instance:
        assert instance.root_directory == str(home)
    assert "DAGSTER_HOME" not in caplog.text


def test_all_ends_at_an_interrupt_that_a_shell_let_be_ignored_and_when_the_terminal_closes_unless_under_nohup(
    supervised: Supervise,
) -> None:
    def interrupt(number: int, home: Path) -> None:
        signal.raise_signal(number)
        shutil.rmtree(home)  # which ends it with an announcement if the signal does not

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        assert supervised(partial(interrupt, number)) == []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert len(supervised(partial(interrupt, signal.SIGHUP))) == 1
