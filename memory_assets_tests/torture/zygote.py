"""A process that has loaded the program and forks `memory` commands in milliseconds.

A forked command has its own process group, environment, files and interpreter exit. It can kill itself at its n-th joint: before or
after a call that changes a file, takes a lock, starts a process or commits to LanceDB or DuckDB.
"""

import atexit
import contextlib
import faulthandler
import gc
import importlib
import io
import json
import os
import pickle
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HUNG_SECONDS = 180
_JOINTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fcntl.flock", "subprocess.Popen", "socket.connect"}
_COMMITS = ("add", "merge", "delete", "update", "create", "optimize", "drop", "alter", "execute", "tag")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Exit code, output and joints of a command; `code` is negative if a signal ended it."""

    code: int
    out: str
    err: str
    joints: int

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def problem(self) -> str | None:
        """Describe a behaviour that no command may show, killed or not; None if there is none."""
        said = self.err + self.out
        for mark in ("Traceback (most recent call last)", "a fault of memory_assets", "terminate called", "panicked at"):
            if mark in said:
                return f"{mark}: {self.err.strip()[-300:]}"
        if self.code not in (0, 1, 2, -signal.SIGKILL):
            return f"exit code {self.code}: {self.err.strip()[-200:]}"
        if self.code in (1, 2) and not said.strip():
            return "it failed without a message"
        return None


class Command:
    """A running `memory` command; its input and output files are in `folder`."""

    def __init__(self, pid: int, folder: Path, wait: Callable[[float], int]) -> None:
        self.pid, self._folder, self._wait = pid, folder, wait

    def kill(self, *, group: bool = False) -> None:
        """SIGKILL the leader, or the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, signal.SIGKILL)

    def kill_child(self, number: int) -> bool:
        """SIGKILL one of its children; False if there is none."""
        if children := descendants(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(children[number % len(children)], signal.SIGKILL)
        return bool(children)

    def wait(self, seconds: float = HUNG_SECONDS) -> Outcome:
        code = self._wait(seconds)
        return Outcome(code, self.written("out"), self.written("err"), int(self.written("joints") or 0))

    def ends_within(self, seconds: float) -> bool:
        """Return whether it ends within `seconds`; a zombie has ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
                return True
            time.sleep(0.02)
        return False

    def written(self, name: str) -> str:
        """Return its output so far in "out" or "err"."""
        return (self._folder / name).read_text(encoding="utf-8", errors="replace")


def _prepared(folder: Path, given: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("out", "err", "joints"):
        (folder / name).write_bytes(b"")
    (folder / "given").write_bytes(given if isinstance(given, bytes) else given.encode())
    return folder


class Zygote:
    """The campaign's side of the forking process."""

    mutant = ""
    """Name of the fault that is planted in forked commands."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="torture-zygote-")
        self._count, self._turn = 0, threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "memory_assets_tests.torture.zygote"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._answer(120) == {"ready": True}, "the zygote does not start"

    def __enter__(self) -> "Zygote":
        return self

    def planting(self, mutant: str) -> "Zygote":
        """Return a copy that plants a fault in its commands."""
        planting = copy(self)
        planting.mutant = mutant
        return planting

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
        self._folder.cleanup()

    def start(
        self,
        environment: Mapping[str, str],
        *arguments: str,
        given: str | bytes = "",
        joint: int | None = None,
        shift: float = 0.0,
        fifo: Path | None = None,
        umask: int = 0o022,
        folder: Path | None = None,
    ) -> Command:
        """Fork a command.

        Args:
            environment: The complete environment.
            arguments: Arguments of `memory`; `@feed STATE` reads the change feed instead, `@call` calls a pickled function.
            given: Standard input.
            joint: The joint at which the command kills itself; 0 only counts joints, None does not even count.
            shift: Seconds by which its clock differs.
            fifo: Pipe to read as standard input instead of `given`.
            folder: Folder of its output; needed if that is read after more than sixty other commands.
        """
        self._count += 1
        folder = _prepared(folder or Path(self._folder.name) / str(self._count % 64), given)
        request = {"environment": environment, "arguments": arguments, "joint": joint, "shift": shift, "umask": umask}
        request["mutant"] = self.mutant
        pid = self._ask(request | {"folder": str(folder), "given": str(fifo or folder / "given")}, 30)["pid"]
        return Command(pid, folder, lambda seconds: self._ask({"wait": pid}, seconds)["code"])

    def memory(self, *arguments: str, stdin: str | None = None, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
        """Run a command in this process's environment to its end, like `subprocess.run`."""
        done = self.start(os.environ.copy(), *arguments, given=stdin or "", umask=umask).wait()
        return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)

    def call(self, work: Callable[..., object], *given: object) -> Command:
        """Call a module's function in its own process, with this process's environment."""
        return self.start(os.environ.copy(), "@call", pickle.dumps((work, given)).hex())

    def _ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        with self._turn:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._answer(seconds)
            if answer is None and "wait" in request:  # hung: the exit code makes it a failure
                os.killpg(request["wait"], signal.SIGABRT)
                answer = self._answer(30)
            return answer

    def _answer(self, seconds: float) -> Any:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return json.loads(self._process.stdout.readline()) if ready else None


@cache
def shared() -> Zygote:
    """Return the zygote of the test process, started at the first call."""
    started = Zygote()
    atexit.register(started.__exit__)
    return started


def start_cold(environment: Mapping[str, str], *arguments: str, given: str = "") -> Command:
    """Start a `memory` command like a user, without a zygote."""
    folder = _prepared(Path(tempfile.mkdtemp(prefix="torture-cold-")), given)
    with (folder / "given").open("rb") as stdin, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "memory_assets.cli", *arguments],
            env=environment,
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    return Command(process.pid, folder, process.wait)


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process, deepest last."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for tasks in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (tasks / "children").read_text().split())
    return found[1:]


# The zygote's side


def main() -> None:
    """Load everything, then fork requested commands until standard input ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _preload()
    _say(answers, {"ready": True})
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            _say(answers, {"code": os.waitstatus_to_exitcode(status)})
            continue
        pid = os.fork()
        if not pid:
            requests.close()
            answers.close()
            _end(_become, request)
        _say(answers, {"pid": pid})


def _say(answers: io.BufferedWriter, message: Any) -> None:
    answers.write(json.dumps(message).encode() + b"\n")
    answers.flush()


def _preload() -> None:
    import warnings

    import memory_assets
    from memory_assets.language import judge, tokens
    from memory_assets.language.embedders import bge
    from memory_assets.language.pipeline import open_analyzer

    warnings.filterwarnings("ignore", message="lancedb fork support")
    late = ("dagster._core.execution.execute_in_process", "numpy.ma", "rich.progress", "tzlocal", "upath.core")
    for name in (*late, *(module.name for module in pkgutil.walk_packages(memory_assets.__path__, "memory_assets."))):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    import duckdb  # noqa: F401
    from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

    from memory_assets.stores.deferred import import_lancedb
    from memory_assets_tests.conftest import read_migrations_once  # it imports the same as the called tests

    read_migrations_once()
    with tempfile.TemporaryDirectory() as folder:
        DagsterSqliteStorage(folder).dispose()
    open_analyzer().analyze("Alice read the old books in Paris.")
    opened = bge.open_bge()
    bge.open_bge = lambda: opened  # one session for all forks; it survives a fork
    judge.load()
    tokens.load_encoding()
    background = import_lancedb().background_loop
    background.LOOP.loop.call_soon_threadsafe(background.LOOP.loop.stop)  # a process must have one thread to fork
    background.LOOP.thread.join()
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()


def _end(work: Callable[[Mapping[str, Any]], None], request: Mapping[str, Any]) -> None:
    """Work, then exit like the interpreter, but skip C++'s static destructors, which need threads that a fork does not inherit."""
    code: Any = 0
    try:
        work(request)
    except SystemExit as error:
        code = error.code or 0
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _become(request: Mapping[str, Any]) -> None:
    """Run the command in this fork until it ends."""
    os.setsid()
    os.umask(request["umask"])
    folder = Path(request["folder"])
    for path, flags, number in (
        (request["given"], os.O_RDONLY, 0),
        (folder / "out", os.O_WRONLY, 1),
        (folder / "err", os.O_WRONLY, 2),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8") for number, mode in enumerate("rww"))
    faulthandler.enable()  # a hanging command is aborted and prints its traceback
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    arguments = request["arguments"]
    sys.argv = ["memory", *arguments]
    if request["shift"]:
        _shift_clock(request["shift"])
    if request["mutant"]:
        from memory_assets_tests.torture.mutants import plant

        plant(request["mutant"], arguments)
    if request["joint"] is not None:
        _count_joints(folder / "joints", request["joint"])
    from memory_assets.cli.main import main as memory
    from memory_assets_tests.torture.oracle import fill, follow

    if arguments[0] == "@feed":
        follow(Path(arguments[1]))
    elif arguments[0] == "@fill":
        fill(int(arguments[1]))
    elif arguments[0] == "@call":
        work, given = pickle.loads(bytes.fromhex(arguments[1]))
        work(*given)
    else:
        memory()


def _count_joints(path: Path, last: int) -> None:
    """Count the joints reached in a file and die at the `last` one."""
    import lancedb.background_loop as background

    from memory_assets.stores.engine import Engine

    counter, reached, own = os.open(path, os.O_WRONLY), 0, os.getpid()

    def joint() -> None:
        nonlocal reached
        if os.getpid() != own:
            return
        reached += 1
        os.pwrite(counter, str(reached).encode(), 0)
        if reached == last:
            os.kill(own, signal.SIGKILL)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _JOINTS or (event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            joint()

    def run(loop: Any, future: Any, really: Any = background.BackgroundEventLoop.run) -> Any:
        if not any(word in getattr(future, "__name__", "") for word in _COMMITS):
            return really(loop, future)
        joint()
        done = really(loop, future)
        joint()
        return done

    def open_catalog(*arguments: Any, really: Any = Engine.open, **options: Any) -> Any:
        joint()
        return really(*arguments, **options)

    sys.addaudithook(watch)
    background.BackgroundEventLoop.run = run  # type: ignore[method-assign]
    Engine.open = open_catalog  # type: ignore[method-assign]


class _Likeness(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


def _shift_clock(seconds: float) -> None:
    """Shift the clock that every module of the program reads."""
    by, real_time = timedelta(seconds=seconds), time.time

    class Shifted(datetime, metaclass=_Likeness):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + by

    time.time = lambda: real_time() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("memory_assets.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
