"""Liveness probes: a stopped process is noticed, killed and restarted; a process that answers is left alone."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from memory_assets import probes, supervisor
from memory_assets.cli.main import cli
from memory_assets.operations.answers import LocalTime
from memory_assets.operations.status import ServiceView
from memory_assets.probes import Probe, grpc_probe, heartbeat_probe, http_probe
from memory_assets.settings import EXIT_SECONDS, FINISH_SECONDS, Settings
from memory_assets.supervisor import Part
from memory_assets_tests.ports import free_ports

_PATIENCE_SECONDS = 120.0
_SERVER = """
import http.server, sys
handler = http.server.SimpleHTTPRequestHandler
handler.log_message = lambda *given: None
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), handler).serve_forever()
"""


def wait_until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_in_a_data_folder_below_a_file_nothing_runs(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = settings.model_copy(update={"data_dir": tmp_path / "file" / "data"})
    assert supervisor.find_running(below) is None


def test_a_part_that_was_stopped_is_killed_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(probes, "_PAUSE_LOOKS", 2)
    monkeypatch.setattr(probes, "_PATIENCE_LOOKS", 100)
    told: list[str] = []
    command = [sys.executable, "-c", _SERVER, str(port)]
    part = Part("page", command, lambda: http_probe("127.0.0.1", port, "HEAD /"))
    stopping = Event()
    (tmp_path / "workspace.yaml").touch()
    with supervisor._lock_state(tmp_path / "state") as state:
        keeping = Thread(target=supervisor._run_parts, args=([part], tmp_path, tmp_path / "door", state, stopping, told.append))
        keeping.start()
        try:
            wait_until(lambda: part.probe and part.probe.has_answered)
            assert part.process
            os.kill(part.process.pid, signal.SIGSTOP)
            wait_until(lambda: part.restarts and part.probe and part.probe.has_answered)
        finally:
            stopping.set()
            keeping.join()
            supervisor._stop_parts([part], told.append)
    assert part.ended == "hung"
    assert told[0] == "The page gives no sign of life and is killed."


def test_each_part_has_its_own_time_to_end(tmp_path: Path) -> None:
    script = (
        "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(0.5), sys.exit())); print(flush=True); time.sleep(60)"
    )
    told: list[str] = []
    parts = [Part("first", ["sleep", "60"], lambda: Probe(bool))]
    for name, seconds in (("quick", 0.1), ("slow", 30.0)):
        ready = tmp_path / name
        command = ["sh", "-c", 'exec "$0" -c "$1" > "$2"', sys.executable, script, str(ready)]
        parts.append(Part(name, command, lambda: Probe(bool), stop_seconds=seconds))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # an earlier test may have let it be ignored
    for part in parts:
        supervisor._start_part(part, lambda _: None)
    wait_until(lambda: all((tmp_path / part.name).exists() and (tmp_path / part.name).stat().st_size for part in parts[1:]))
    supervisor._stop_parts(parts, told.append)
    assert told == ["The quick did not end within 0 s and was killed."]


def test_everybody_waits_for_the_requests_that_the_service_accepted(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    *_, service = supervisor._make_parts(settings, tmp_path, tmp_path / "door", None, 8000)
    assert service.stop_seconds > FINISH_SECONDS + EXIT_SECONDS
    local = Path(__file__).parents[1] / "deploy" / "local"
    for file, pattern in (
        ("memory.service", r"TimeoutStopSec=(\d+)"),
        ("org.memory-assets.plist", r"<key>ExitTimeOut</key>\s*<integer>(\d+)"),
    ):
        found = re.search(pattern, (local / file).read_text(encoding="utf-8"))
        assert found, file
        assert int(found[1]) >= supervisor.END_SECONDS, file


def test_a_slow_start_in_the_background_is_told_with_how_to_look_and_to_end_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def start_slowly(_: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(["sleep", "60"], **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_slowly)
    monkeypatch.setattr("memory_assets.cli.up._START_SECONDS", 0.1)
    told = CliRunner().invoke(cli, ["up", "--detach"])
    started[0].kill()
    started[0].wait()
    assert (told.exit_code, told.stdout) == (0, "")
    assert f"still starting (process {started[0].pid})" in told.stderr
    for named in ("`memory status`", "`memory down`", str(settings.data_dir / supervisor.LOG)):
        assert named in told.stderr


def test_a_part_that_never_ran_is_not_started_again() -> None:
    part, local = Part("daemon", [], lambda: Probe(bool)), LocalTime(UTC)
    assert ServiceView.model_validate(part.state()).text(local) == "  daemon        waits for its start"
    part.restarts, part.ended = 1, "exit 1"
    assert "is about to be started again" in ServiceView.model_validate(part.state()).text(local)


def test_a_part_hangs_after_as_many_looks_as_it_has_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PAUSE_LOOKS", 3)
    monkeypatch.setattr(probes, "_PATIENCE_LOOKS", 2)
    monkeypatch.setattr(probes, "_LOAD_LOOKS", 5)
    answers = iter([False] * 5 + [True] + [False, False, True] + [False] * 3)
    probe = Probe(lambda: next(answers))
    found = [probe.finds_hang() for _ in range(5 + 1 + 3 + 3 + 3 + 3)]
    assert found == [False] * 17 + [True]
    assert not list(answers)


@pytest.fixture
def code_server(tmp_path: Path) -> Iterator[Path]:
    """A gRPC server that answers a ping like Dagster's code server."""
    handler = grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")
    served = grpc.server(
        ThreadPoolExecutor(2), handlers=[grpc.method_handlers_generic_handler("api.DagsterApi", {"Ping": handler})]
    )
    served.add_insecure_port(f"unix:{tmp_path / 'code.sock'}")
    served.start()
    yield tmp_path / "code.sock"
    served.stop(None).wait()


def test_a_code_server_answers_again_and_again(code_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PAUSE_LOOKS", 0)
    probe = grpc_probe(code_server)
    for _ in range(3):
        wait_until(probe.is_alive)


def test_a_server_that_only_accepts_does_not_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "code.sock"))
        silent.listen()
        probe = grpc_probe(tmp_path / "code.sock")
        assert not any(probe.is_alive() for _ in range(5))
        settings_only, _ = silent.accept()
        settings_only.sendall(probes._encode_frame(4, 0, 0, bytes(6)))
        time.sleep(0.1)
        assert not probe.is_alive()
        settings_only.close()
        probe.close()


def test_nothing_there_is_no_answer(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert not http_probe("127.0.0.1", port, "HEAD /").is_alive()
    assert not grpc_probe(tmp_path / "code.sock").is_alive()


def test_a_heartbeat_is_a_sign_of_life_once(tmp_path: Path) -> None:
    records = tmp_path / "runs.db"
    assert heartbeat_probe(records).is_alive(), "without records nothing can be told"
    connection = sqlite3.connect(records)
    connection.execute("CREATE TABLE daemon_heartbeats (daemon_type TEXT, timestamp TIMESTAMP)")

    def beat(moment: str) -> None:
        connection.execute("INSERT INTO daemon_heartbeats VALUES ('SENSOR', ?)", [moment])
        connection.commit()

    beat("2026-11-23 13:52:29.1")
    probe = heartbeat_probe(records)
    assert probe.is_alive(), "old records of another daemon say nothing"
    beat("2026-11-23 13:53:29.1")
    assert [probe.is_alive() for _ in range(3)] == [True, False, False]
    beat("2026-11-23 13:53:59.1")
    assert [probe.is_alive() for _ in range(2)] == [True, False]
    connection.close()


def test_a_log_that_is_written_to_keeps_its_newest_lines(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from memory_assets import supervisor
supervisor._MOST_LOG_BYTES = 1000
log = Path(sys.argv[1])
for number in range(200):
    os.write(2, f"line {number}\\n".encode())
    supervisor._shorten_log(log)
    supervisor._shorten_log(log.with_name("absent.log"))
    supervisor._shorten_log(log.with_name("other.log"))
"""
    log, other = tmp_path / "supervisor.log", tmp_path / "other.log"
    other.write_bytes(bytes(2000))
    with log.open("ab") as written:
        subprocess.run([sys.executable, "-c", script, str(log)], stderr=written, check=True)
    lines = log.read_text().splitlines()
    first = int(lines[0].split()[1])
    assert lines == [f"line {number}" for number in range(first, 200)]
    assert 50 <= len(lines) <= 100
    assert other.stat().st_size == 2000
