"""Supervisor of a local deployment: code location, daemon, UI and HTTP service. It imports no Dagster and stays small.

A data folder has one supervisor. It locks `supervisor.json` in that folder and writes the state of its parts into it. It restarts a
part that ends, with a growing pause if the part ends soon; it kills a part that hangs. No part outlives the supervisor.
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from threading import Event

from memory_assets.errors import SettingsError, StoreError
from memory_assets.ports import bind_port
from memory_assets.probes import Probe, grpc_probe, heartbeat_probe, http_probe
from memory_assets.settings import EXIT_SECONDS, FINISH_SECONDS, Settings
from memory_assets.stores.files import replace_file

STATE = "supervisor.json"
LOG = "supervisor.log"
"""Messages of a supervisor in the background and of its parts. They append, so that the file can be shortened meanwhile."""
_MOST_LOG_BYTES = 4 << 20
_HOSTS_OF_UI = frozenset({"127.0.0.1", "localhost", "0.0.0.0", "::"})  # noqa: S104
"""Hosts on which a service takes a port of Dagster's UI."""
_DAEMON = "daemon"
_WORKSPACE = "workspace.yaml"
"""File in Dagster's folder that names the code location."""
RUNS_ALREADY = "The services of this data folder run already; `memory down` ends them."
_LOOK_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_STABLE_SECONDS = 60.0
"""A part that ran for so long is restarted after the shortest pause."""
_STOP_SECONDS = 30.0
_SERVICE_STOP_SECONDS = FINISH_SECONDS + 2.0 * EXIT_SECONDS
"""Its workers exit first, then their parent."""
END_SECONDS = _SERVICE_STOP_SECONDS + _STOP_SECONDS + EXIT_SECONDS
"""Time for a supervisor to end, as it ends the code location last."""
_LOAD_SECONDS = 120.0
_CLOCK_SLACK_SECONDS = 300.0
"""Most that the clock may lie behind its highest value without a restart of the daemon; its records may be so far ahead."""
_LONGEST_SOCKET = 100
"""Longest path of a socket, in bytes; systems allow 104 to 108."""
_ON_LINUX = sys.platform == "linux"
_GROUP = 0 if _ON_LINUX else -1
"""Process group of the parts on Linux: their own, so that Ctrl-C reaches the supervisor alone."""
_DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""

Announce = Callable[[str], None]


@dataclass(slots=True)
class Part:
    """One supervised process."""

    name: str
    command: Sequence[str]
    watch: Callable[[], Probe]
    """Makes the probe of a new process."""
    url: str = ""
    reserve: Callable[[], object] = lambda: None
    """Raises a SettingsError if the part's port is taken."""
    stop_seconds: float = _STOP_SECONDS
    """Time to end after a signal; then it is killed."""
    probe: Probe | None = None
    hangs: bool = False
    """Whether it was killed because it gave no sign of life."""
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    due: float = 0.0
    """When to start it, in seconds of the monotonic clock."""
    pause: float = _FIRST_PAUSE_SECONDS
    restarts: int = 0
    ended: str = ""

    def state(self) -> dict[str, str | int | float | None]:
        """Return the state that `memory status` shows."""
        return {
            "name": self.name,
            "pid": self.process.pid if self.process else None,
            "since": self.started,
            "restarts": self.restarts,
            "ended": self.ended,
            "url": self.url,
        }


@dataclass(frozen=True, slots=True)
class Running:
    """State of a supervisor."""

    pid: int
    parts: list[dict[str, str | int | float | None]] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether every part has a process."""
        return bool(self.parts) and all(part["pid"] for part in self.parts)


def find_running(settings: Settings) -> Running | None:
    """Return the state of this data folder's supervisor, None if none runs. Creates no file."""
    with suppress(FileNotFoundError, NotADirectoryError), (settings.data_dir / STATE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            for _ in range(20):
                with suppress(ValueError):  # it may be writing
                    return Running(**json.loads(file.read()))
                time.sleep(0.05)
                file.seek(0)
    return None


def stop_running(settings: Settings) -> bool:
    """End the supervisor and its parts, wait for them, and return whether a supervisor ran."""
    running = find_running(settings)
    if running is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while find_running(settings):
        if time.monotonic() > deadline:
            raise StoreError(f"The supervisor (process {running.pid}) does not end; read its messages, or kill it.")
        time.sleep(_LOOK_SECONDS / 5)
    return True


def supervise(settings: Settings, ui_port: int | None, port: int | None, announce: Announce) -> None:
    """Run all parts until SIGINT, SIGTERM or the terminal's end.

    Without `ui_port` there is no UI, without `port` no HTTP service. A port of 0 stands for any free port.

    Raises:
        StoreError: a supervisor of this data folder runs already, or Dagster's instance cannot be set up.
        SettingsError: a port is taken, or the host is none of this machine.
    """
    stopping = Event()
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as by nohup
    for number in (signal.SIGINT, signal.SIGTERM, *(() if is_kept else (signal.SIGHUP,))):
        signal.signal(number, lambda *_: stopping.set())
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if ui_port is not None and not find_spec("dagster_webserver"):
        announce("Dagster's UI is not installed: `pip install '.[ui]'` in the checkout adds it, --no-ui goes without.")
        ui_port = None
    with _lock_state(settings.data_dir / STATE) as state:
        ui_port = None if ui_port is None else find_port("127.0.0.1", ui_port, "--ui-port")
        if port and port == ui_port and settings.host in _HOSTS_OF_UI:
            raise SettingsError(f"Dagster's UI and the HTTP service cannot both listen on port {port}; set --port or --ui-port.")
        port = None if port is None else find_port(settings.host, port, "--port")
        with _prepare_instance() as (home, door):
            config = home / "dagster.yaml"
            configuration = config.read_bytes()
            parts = _make_parts(settings, home, door, ui_port, port)
            try:
                _run_parts(parts, home, door, state, stopping, announce)
            finally:
                _stop_parts(parts, announce)
                if state.is_in_place and home.exists() and not config.exists():  # a part wrote there after it was deleted
                    replace_file(config, configuration)


def find_port(host: str, port: int, option: str) -> int:
    """Return the port, or a free one for 0. SettingsError if no part could listen there; it would end and be restarted for ever."""
    with bind_port(host, port, "MEMORY_HOST", option) as bound:
        return bound.getsockname()[1]


@dataclass(frozen=True, slots=True)
class _StateFile:
    """The locked file with the state of the parts."""

    path: Path
    descriptor: int

    @property
    def is_in_place(self) -> bool:
        """Whether it is still the file at its path; it is not if the data folder was moved or deleted."""
        with suppress(OSError):
            return os.path.samestat(self.path.stat(), os.fstat(self.descriptor))
        return False

    def write(self, parts: list[Part]) -> None:
        content = json.dumps({"pid": os.getpid(), "parts": [part.state() for part in parts]}).encode()
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))


@contextmanager
def _lock_state(path: Path) -> "Iterator[_StateFile]":
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(5):  # a reader may hold its shared lock
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        else:
            raise StoreError(RUNS_ALREADY)
        state = _StateFile(path, descriptor)
        state.write([])
        yield state
    finally:
        os.close(descriptor)


def _set_up_instance() -> Path:
    """Set up Dagster's instance in another process, so that this one stays small; return its folder."""
    made = subprocess.run(
        [sys.executable, "-m", "memory_assets.defs.instance"], stdout=subprocess.PIPE, check=False, process_group=_GROUP
    )
    if made.returncode:
        raise StoreError("Dagster's instance cannot be set up; its message is above.")
    return Path(os.fsdecode(made.stdout.splitlines()[-1]))


@contextmanager
def _prepare_instance() -> Iterator[tuple[Path, Path]]:
    """Set up Dagster's instance; yield its folder and the code location's socket."""
    home = _set_up_instance()
    door = home / "code.sock"
    scratch = Path(mkdtemp(prefix="memory-")) if len(os.fsencode(door)) > _LONGEST_SOCKET else None
    if scratch:
        door = scratch / "code.sock"
    location = {"grpc_server": {"socket": str(door), "location_name": "memory_assets"}}
    replace_file(home / _WORKSPACE, json.dumps({"load_from": [location]}))
    try:
        yield home, door
    finally:
        door.unlink(missing_ok=True)
        if scratch:
            scratch.rmdir()


def _make_parts(settings: Settings, home: Path, door: Path, ui_port: int | None, port: int | None) -> list[Part]:
    python, workspace = sys.executable, str(home / _WORKSPACE)
    os.environ |= {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"}
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # a thread of Dagster's would keep an arena of its own
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    # how soon a run that never began is retried
    os.environ.setdefault("DAGSTER_EVENT_LOG_CONSUMER_DAEMON_INTERVAL_SECONDS", "20")
    os.environ.setdefault("FRESHNESS_DAEMON_INTERVAL_SECONDS", "120")  # policies count in days
    code = [python, "-m", "dagster", "api", "grpc", "-m", "memory_assets.definitions", "--socket", str(door)]
    daemon = [python, "-m", "dagster._daemon", "run", "-w", workspace, "--log-level", "warning"]
    parts = [
        Part("code location", [*code, "--location-name", "memory_assets", "--log-level", "warning"], partial(grpc_probe, door)),
        Part(_DAEMON, daemon, partial(heartbeat_probe, home / "history" / "runs.db")),
    ]
    if ui_port is not None:
        ui = [python, "-m", "dagster_webserver", "-w", workspace, "--host", "127.0.0.1", "--port", str(ui_port)]
        quiet = ["--log-level", "warning", "--dagster-log-level", "warning"]
        page = partial(http_probe, "127.0.0.1", ui_port, "GET /server_info")
        reserve = partial(find_port, "127.0.0.1", ui_port, "--ui-port")
        parts.append(Part("UI", [*ui, *quiet], page, f"http://127.0.0.1:{ui_port}", reserve))
    if port is not None:
        serve = [python, "-m", "memory_assets.cli", "serve", "--port", str(port)]
        health = partial(http_probe, settings.host, port, "HEAD /api/v1/health")
        reserve = partial(find_port, settings.host, port, "--port")
        parts.append(Part("HTTP service", serve, health, f"http://{settings.host}:{port}", reserve, _SERVICE_STOP_SECONDS))
    return parts


def _run_parts(parts: list[Part], home: Path, door: Path, state: _StateFile, stopping: Event, announce: Announce) -> None:
    code = parts[0]
    highest = time.time()
    while not stopping.is_set():
        if not state.is_in_place:
            announce(
                f"{state.path.parent} was moved or deleted, and everything ends; start it again where the data folder is now."
            )
            return
        if not (home / _WORKSPACE).exists():
            announce(f"Dagster's folder {home} was moved or deleted, and everything ends; start it again with new records.")
            return
        now = time.time()
        highest = max(highest, now)
        changed = highest - now > _CLOCK_SLACK_SECONDS
        if changed and _clear_future(next(part for part in parts if part.name == _DAEMON), announce):
            highest = now
        for part in parts:
            if part.process and (status := part.process.poll()) is not None:
                _record_end(part, status, announce)
                changed = True
            elif part.process and part.probe and not part.hangs and part.probe.finds_hang():
                part.hangs = True
                announce(f"The {part.name} gives no sign of life and is killed.")
                _signal_group(part, signal.SIGKILL)
            is_ready = code.probe and code.probe.has_answered
            waits = part is not code and not part.restarts and not is_ready and code.started + _LOAD_SECONDS > time.time()
            if part.process is None and time.monotonic() >= part.due and not waits:
                if part is code:
                    door.unlink(missing_ok=True)
                _start_part(part, announce)
                changed = True
        if changed:
            state.write(parts)
        _shorten_log(state.path.with_name(LOG))
        stopping.wait(_LOOK_SECONDS)


def _clear_future(daemon: Part, announce: Announce) -> bool:
    """End the daemon and delete its records if they lie in the future, for which sensors and schedules would wait.

    Returns whether it is done. After a failure the daemon does not run, and nothing happens until it is due.
    """
    if daemon.process:
        _kill(daemon)
    elif time.monotonic() < daemon.due:
        return False
    try:
        _set_up_instance()
    except StoreError as error:
        announce(f"The clock was set back, but sensors and schedules wait: {error} The next attempt is in {daemon.pause:.0f} s.")
        daemon.due, daemon.pause = time.monotonic() + daemon.pause, _next_pause(daemon)
        return False
    daemon.due, daemon.pause = 0.0, _FIRST_PAUSE_SECONDS
    announce("The clock was set back; the daemon is started again, so that sensors and schedules go on.")
    return True


def _shorten_log(log: Path) -> None:
    """Cut a log that this process writes to down to its newest 2 MB once it exceeds 4 MB."""
    with suppress(OSError):
        found = log.stat()
        if found.st_size > _MOST_LOG_BYTES and os.path.samestat(found, os.fstat(2)):
            with log.open("r+b") as file:
                file.seek(-_MOST_LOG_BYTES // 2, os.SEEK_END)
                file.readline()
                newest = file.read()
                file.seek(0)
                file.write(newest)
                file.truncate()


def _start_part(part: Part, announce: Announce) -> None:
    """Start a part, or put it off while its port is taken."""
    try:
        part.reserve()
    except SettingsError as error:
        part.ended, part.due, part.pause = "port taken", time.monotonic() + part.pause, _next_pause(part)
        announce(str(error))
        return

    def die_with_parent() -> None:
        if _ON_LINUX:
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGTERM)

    part.process = subprocess.Popen(  # noqa: S603 - this program
        part.command, stdin=subprocess.DEVNULL, process_group=_GROUP, preexec_fn=die_with_parent
    )
    part.started, part.probe, part.hangs = time.time(), part.watch(), False


def _next_pause(part: Part) -> float:
    return min(2 * part.pause, _LONGEST_PAUSE_SECONDS)


def _record_end(part: Part, status: int, announce: Announce) -> None:
    part.ended = "hung" if part.hangs else f"signal {-status}" if status < 0 else f"exit {status}"
    ran = max(0.0, time.time() - part.started)  # the clock may have been set back
    part.pause = _FIRST_PAUSE_SECONDS if ran > _STABLE_SECONDS else _next_pause(part)
    _kill(part)
    part.restarts, part.due = part.restarts + 1, time.monotonic() + part.pause
    announce(f"The {part.name} ended ({part.ended}) after {ran:.0f} s; it is started again in {part.pause:.0f} s.")


def _stop_parts(parts: list[Part], announce: Announce) -> None:
    """End the parts that request runs first, and the code location with its runs last."""
    code, *others = parts
    for group in (others, [code]):
        running = [part for part in group if part.process]
        for part in running:
            _signal_group(part, signal.SIGTERM)
        signalled = time.monotonic()
        for part in running:
            assert part.process
            try:
                part.process.wait(max(0.1, signalled + part.stop_seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                announce(f"The {part.name} did not end within {part.stop_seconds:.0f} s and was killed.")
            _kill(part)


def _kill(part: Part) -> None:
    assert part.process
    _signal_group(part, signal.SIGKILL)
    part.process.wait()
    if part.probe:
        part.probe.close()
    part.process = None


def _signal_group(part: Part, number: int) -> None:
    assert part.process
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if _ON_LINUX else os.kill)(part.process.pid, number)
