"""A whole cluster as processes on one machine, started by the scripts of deploy/cluster; each host uses only its own folder."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Self

import httpx

from memory_assets.settings import load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.ports import free_ports
from memory_assets_tests.services import ObjectStorage, PostgreSQL, Redis, die_with_parent
from memory_assets_tests.torture import zygote

if TYPE_CHECKING:
    import dagster as dg

ROOT = Path(__file__).parents[1]
DEPLOYMENT = ROOT / "deploy" / "cluster"
_START_SECONDS = 180.0
_RESTART_SECONDS = 1.0


class Host:
    """One host: a part of the cluster with its folder and environment. A part that ends is restarted, as a cluster does."""

    def __init__(self, folder: Path, part: Sequence[str], environment: dict[str, str], is_ready: Callable[[], bool]) -> None:
        self.folder = folder
        self.name = folder.name
        self.environment = environment | {
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "DAGSTER_HOME": str(folder / "dagster"),
            "MEMORY_DATA_DIR": str(folder / "data"),
        }
        self.restarts = 0
        self.is_ready = is_ready
        self._part = part
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the part unless it is running."""
        if self._process and self._process.poll() is None:
            return
        self.restarts += self._process is not None
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [DEPLOYMENT / "start", *self._part],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill all of its processes at once, like a power cut."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait()

    def log_text(self) -> str:
        """Return the log of the part."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


class Cluster:
    """PostgreSQL, an S3 server, Redis, a code location, webserver, daemon, run workers and service replicas, as a context."""

    def __init__(
        self,
        folder: Path,
        workers: int = 2,
        replicas: int = 2,
        *,
        processes: int = 1,
        answering: int = 2,
        webserver: bool = True,
    ) -> None:
        """Set up a cluster in `folder`, which must be empty or absent.

        `processes` is the number of concurrent runs per worker; `answering`, the number of processes per replica.
        """
        self.folder = folder
        self.postgresql = PostgreSQL(folder / "postgresql")
        self.storage = ObjectStorage(folder / "s3")
        self.redis = Redis(folder / "redis")
        self.hosts: dict[str, Host] = {}
        self._counts = workers, replicas, processes, webserver
        self._answering = answering
        self._stop = Event()
        self._stack = ExitStack()
        self.urls: list[str] = []
        """Addresses of the replicas."""

    def __enter__(self) -> Self:
        try:
            for server in (self.postgresql, self.storage, self.redis):
                self._stack.enter_context(server)
            self._define_hosts()
            self._stack.callback(self._end)
            for host in self.hosts.values():
                host.start()
            keeper = Thread(target=self._keep, daemon=True)
            keeper.start()
            self._stack.callback(keeper.join)
            self._stack.callback(self._stop.set)
            for host in self.hosts.values():
                self.wait_for(f"{host.name} answers", host.is_ready)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def workers(self) -> list[Host]:
        return [host for name, host in self.hosts.items() if name.startswith("worker")]

    @property
    def replicas(self) -> list[Host]:
        return [host for name, host in self.hosts.items() if name.startswith("service")]

    def wait_for(self, what: str, look: Callable[[], object], seconds: float = _START_SECONDS, pause: float = 0.3) -> None:
        """Wait until `look` is true; it is called every `pause` seconds. A look at Dagster's records makes PostgreSQL start processes.

        Raises:
            TimeoutError: `look` is not true within `seconds`; the message has the ends of all logs.
        """
        until = time.monotonic() + seconds
        while not look():
            if time.monotonic() > until:
                logs = "\n".join(f"--- {host.name}\n{host.log_text()[-1500:]}" for host in self.hosts.values())
                raise TimeoutError(f"Not within {seconds:.0f} s: {what}\n{logs}")
            time.sleep(pause)

    def create_tenants(self, names: Sequence[str]) -> dict[str, str]:
        """Create tenants in the environment of one host; return their keys by name."""
        given = pickle.dumps((_create, (list(names),))).hex()
        done = zygote.shared().start(self.replicas[0].environment, "@call", given).wait()
        assert done.code == 0, done.err
        return json.loads(done.out)

    @contextmanager
    def instance(self) -> "Iterator[dg.DagsterInstance]":
        """Open Dagster's instance as on an operator's machine."""
        import dagster as dg

        home = self.folder / "operator"
        home.mkdir(exist_ok=True, mode=0o700)
        shutil.copy(DEPLOYMENT / "dagster.yaml", home)
        os.environ |= {name: value for name, value in self._environment().items() if name.startswith("DAGSTER_")}
        with dg.DagsterInstance.from_config(str(home)) as instance:
            yield instance

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "TZ", "LD_LIBRARY_PATH") if name in os.environ}
        return kept | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "DAGSTER_POSTGRES_URL": self.postgresql.url("dagster").replace("postgresql", "postgresql+psycopg2", 1),
            "DAGSTER_BROKER_URL": self.redis.url,
            "DAGSTER_DISABLE_TELEMETRY": "1",
            **engine_settings(self.postgresql, self.storage),
            "MEMORY_WORKERS": str(self._answering),
            "MEMORY_CONFIG": os.devnull,
        }

    def _define_hosts(self) -> None:
        for database in ("dagster", "memory"):
            self.postgresql.create_database(database)
        workers, replicas, processes, webserver = self._counts
        code, page, *doors = free_ports(2 + replicas)
        self.urls = [f"http://127.0.0.1:{door}" for door in doors]
        common = self._environment() | {"CODE_LOCATION_HOST": "127.0.0.1", "CODE_LOCATION_PORT": str(code)}

        def add(name: str, part: Sequence[str], is_ready: Callable[[], bool], **more: str) -> None:
            self.hosts[name] = Host(self.folder / name, part, common | more, is_ready)

        def always() -> bool:
            return True

        add("code", ["code"], lambda: _connects(code))
        add("daemon", ["daemon"], always)
        if webserver:
            self.page = f"http://127.0.0.1:{page}"
            add("webserver", ["webserver"], lambda: answers(f"{self.page}/server_info"), WEBSERVER_PORT=str(page))
        for number in range(1, workers + 1):
            name = f"worker{number}"
            add(name, ["worker", "--hostname", f"{name}@local"], always, WORKER_PROCESSES=str(processes))
        for number, (door, url) in enumerate(zip(doors, self.urls, strict=True), 1):

            def replies(url: str = url) -> bool:
                return answers(f"{url}/api/v1/health")

            add(f"service{number}", ["service"], replies, SERVICE_PORT=str(door))

    def _keep(self) -> None:
        while not self._stop.wait(_RESTART_SECONDS):
            for host in self.hosts.values():
                host.start()

    def _end(self) -> None:
        for host in self.hosts.values():
            host.kill()


def _create(names: Sequence[str]) -> None:
    made: dict[str, str] = {}
    for name in names:
        tenant = Tenant(load_settings(), name)
        create_tenant(tenant)
        made[name] = KeyStore(tenant.state).create()[1]
    sys.stdout.write(json.dumps(made))


def engine_settings(postgresql: PostgreSQL, storage: ObjectStorage) -> dict[str, str]:
    """Return the settings that put the stores on these servers; the database `memory` must exist."""
    login = f"host=127.0.0.1 port={postgresql.port} user={PostgreSQL.USER}"
    return {
        "MEMORY_STATE_URI": f"postgresql://{PostgreSQL.USER}@127.0.0.1:{postgresql.port}/memory",
        "MEMORY_CATALOG_URI": f"ducklake:postgres:{login} dbname=memory",
        "PGPASSWORD": PostgreSQL.PASSWORD,
        "MEMORY_VECTORS_URI": f"s3://{ObjectStorage.BUCKET}/tenants",
        "MEMORY_STORAGE_ENDPOINT": storage.endpoint,
        "MEMORY_STORAGE_REGION": ObjectStorage.REGION,
        "MEMORY_STORAGE_ACCESS_KEY": ObjectStorage.ACCESS_KEY,
        "MEMORY_STORAGE_SECRET_KEY": ObjectStorage.SECRET_KEY,
    }


def answers(url: str) -> bool:
    """Return whether a service answers at all."""
    try:
        return httpx.get(url, timeout=5).status_code < 500
    except httpx.HTTPError:
        return False


def _connects(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
