"""A real service for tests: start it, stop it, send requests."""

import os
import re
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from memory_assets.settings import load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant
from memory_assets_tests.torture.zygote import ROOT, Command, shared

_START_SECONDS = 180


class TenantClient:
    """A client of one tenant, with the tenant's key."""

    def __init__(self, service: "Service", name: str, key: str) -> None:
        self.service = service
        self.name = name
        self.key = key
        self.http = httpx.Client(base_url=f"{service.url}/api/v1/{name}", headers={"X-API-Key": key}, timeout=60)

    @property
    def tenant(self) -> Tenant:
        """Open the tenant's stores in this process."""
        return Tenant(self.service.settings, self.name)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """POST a JSON body."""
        return self.http.post(
            path, json={} if body is None else body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    def store(self, content: str, **fields: Any) -> int:
        """Store a memory and return its id; fail unless it succeeds."""
        answer = self.post("/store", {"content": content, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]


get = partial(httpx.get, timeout=60)
"""Send a GET request with a timeout long enough for a slow machine."""


class Service:
    """A `memory serve` process over `folder`, forked from the zygote that has loaded the program."""

    arguments: tuple[str, ...] = ("serve", "--port", "0")

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = load_settings(data_dir=folder / "data")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MEMORY_", "LOG_", "PORT"))},
            "MEMORY_DATA_DIR": str(folder / "data"),
            "MEMORY_CONFIG": os.devnull,
            "MEMORY_WORKERS": "1",
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        self.url = ""
        self.process: Command | None = None
        self._clients = ExitStack()

    def __enter__(self) -> "Service":
        self.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._clients.close()
        if self.process:
            self.stop(signal.SIGKILL)

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.process = shared().start(self.environment, *self.arguments, folder=self.folder / "process")
        deadline = time.monotonic() + _START_SECONDS
        while not (found := re.search(r"memory: (http://\S+)", self.log_text())):
            assert not self.process.ends_within(0.05), self.log_text()
            assert time.monotonic() < deadline, self.log_text()
        self.url = found[1]
        assert httpx.get(f"{self.url}/docs", timeout=30).status_code == 200  # unlike /openapi.json, it takes no time

    def stop(self, number: signal.Signals) -> int:
        """Send a signal, wait for the process to end and return its exit code."""
        assert self.process
        os.kill(self.process.pid, number)
        command, self.process = self.process, None
        return command.wait(60).code

    def log_text(self) -> str:
        """Return everything that the process wrote to standard error."""
        return (self.folder / "process" / "err").read_text(encoding="utf-8", errors="replace")

    def new_tenant(self, name: str) -> TenantClient:
        """Create a tenant with a key and return its client."""
        tenant = Tenant(self.settings, name)
        create_tenant(tenant)
        return self.client(name, KeyStore(tenant.state).create()[1])

    def client(self, name: str, key: str) -> TenantClient:
        """Return a client of an existing tenant."""
        client = TenantClient(self, name, key)
        self._clients.enter_context(client.http)
        return client
