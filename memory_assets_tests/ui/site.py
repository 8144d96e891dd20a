"""A service with pages, and its visitors."""

import html
import pickle
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from memory_assets.api import pool
from memory_assets.cli.main import main
from memory_assets.ingest.direct import store_memories
from memory_assets.models import NewMemory, Source
from memory_assets.operations.store import store
from memory_assets.settings import Settings, load_settings
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant
from memory_assets.ui.app import one_time_address
from memory_assets_tests.api.service import Service

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Visitor:
    """A headless visitor: it keeps cookies and sends each form with the token of the previous page."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=60, follow_redirects=True)
        self.csrf = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page."""
        return self._read(self.http.get(f"/ui{path}", headers=headers))

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form as if from the page opened last, or from the search page."""
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


def _serve_fresh() -> None:
    pool._FRESHNESS_SECONDS = 0.0
    sys.argv[1:] = Service.arguments
    main()


class _Fresh(Service):
    """A service that sees other processes' writes at once."""

    arguments = "@call", pickle.dumps((_serve_fresh, ())).hex()


class Site:
    """A running service with its own data folder that sees this process's writes at once."""

    def __init__(self, folder: Path) -> None:
        home = folder / "home"
        sources = {
            "claude_projects_dir": home / ".claude/projects",
            "pai_seed": home / ".pai/seed.json",
            "pai_learning_dir": home / ".pai/MEMORY/LEARNING",
        }
        self.settings: Settings = load_settings(data_dir=folder / "data", timezone="UTC", **sources)
        environment = {f"MEMORY_{name.upper()}": str(path) for name, path in sources.items()}
        self._service = _Fresh(folder, MEMORY_WATCH_SOURCES="off", POND_TIMEZONE="UTC", **environment)
        self._visitors: list[Visitor] = []

    def __enter__(self) -> "Site":
        self._service.start()
        return self

    def __exit__(self, *error: Any) -> None:
        for visitor in self._visitors:
            visitor.http.close()
        self._service.__exit__(*error)

    @property
    def url(self) -> str:
        return self._service.url

    def new_tenant(self, name: str) -> tuple[Tenant, str]:
        """Create a tenant and a key for it."""
        tenant = Tenant(self.settings, name)
        create_tenant(tenant)
        return tenant, KeyStore(tenant.state).create()[1]

    def visitor(self, tenant: Tenant | None = None) -> Visitor:
        """Return a visitor; with a tenant, one that has a session and has not opened a page yet."""
        visitor = Visitor(self.url)
        self._visitors.append(visitor)
        if tenant:
            assert visitor.http.get(one_time_address(tenant, self.url), follow_redirects=False).status_code == 303
        return visitor


def remember(tenant: Tenant, content: str, **fields: Any) -> int:
    """Store a memory and return its id."""
    return store(tenant, NewMemory(content, Source.CLI, **fields)).id


def remember_all(tenant: Tenant, contents: Iterable[str], **fields: Any) -> list[int]:
    """Store memories in one commit, without the brief, and return their ids."""
    return [each.memory.id for each in store_memories(tenant, [NewMemory(content, Source.CLI, **fields) for content in contents])]
