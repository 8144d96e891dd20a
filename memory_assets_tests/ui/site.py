"""A service with pages in this process, and visitors of it."""

import html
import re
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from memory_assets.api.app import create_app
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant
from memory_assets.ui.app import mount_pages, one_time_address

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')
_START_SECONDS = 60


class Visitor:
    """One browser without a window: it keeps cookies and sends each form with the token of the page before."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=60, follow_redirects=True)
        self.csrf = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page."""
        return self._read(self.http.get(f"/ui{path}", headers=headers))

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form, as if it stood on the page that was opened last, or on the search."""
        if not self.csrf:
            self.get("/search")
        return self._read(self.http.post(f"/ui{path}", data={"csrf": self.csrf, **fields}))

    def log_in(self, tenant: str, key: str) -> httpx.Response:
        """Open a session with a key."""
        self.get("/login")
        return self.post("/login", tenant=tenant, key=key)

    def _read(self, answer: httpx.Response) -> httpx.Response:
        if found := _CSRF.search(answer.text):
            self.csrf = html.unescape(found[1])
        return answer


class Site:
    """A running service over a data folder of its own."""

    def __init__(self, folder: Path) -> None:
        home = folder / "home"
        self.settings: Settings = load_settings(
            data_dir=folder / "data",
            claude_projects_dir=home / ".claude/projects",
            pai_seed=home / ".pai/seed.json",
            pai_learning_dir=home / ".pai/MEMORY/LEARNING",
            watch_sources="off",
            timezone="UTC",
        )
        self.app = create_app(self.settings, mount_pages)
        config = uvicorn.Config(self.app, port=0, log_config=None, proxy_headers=False, lifespan="on")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._visitors: list[Visitor] = []
        self.url = ""

    def __enter__(self) -> "Site":
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            assert self._thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        host, port = self._server.servers[0].sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        for visitor in self._visitors:
            visitor.http.close()
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)

    def new_tenant(self, name: str) -> tuple[Tenant, str]:
        """A tenant and a key of it."""
        tenant = Tenant(self.settings, name)
        create_tenant(tenant)
        return tenant, KeyStore(tenant.state).create()[1]

    def visitor(self, tenant: Tenant | None = None) -> Visitor:
        """A browser; of a tenant, with an open session whose first page is still to be opened."""
        visitor = Visitor(self.url)
        self._visitors.append(visitor)
        if tenant:
            assert visitor.http.get(one_time_address(tenant, self.url), follow_redirects=False).status_code == 303
        return visitor


def remember(tenant: Tenant, content: str, **fields: Any) -> int:
    """Store a memory; returns its id."""
    return store(tenant, NewMemory(content, Source.CLI, **fields)).id
