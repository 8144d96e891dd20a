"""Fixtures for the pages: one service per test process, new tenants, the sample home, and Chromium."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from memory_assets.graph.edges import refresh_graph
from memory_assets.graph.known_names import refresh_known_names
from memory_assets.graph.relevance import decay_cycle
from memory_assets.operations.take_in import take_in
from memory_assets.stores.keys import KeyStore
from memory_assets.tenants import Tenant, create_tenant
from memory_assets.ui.app import one_time_address
from memory_assets_tests.conftest import SAMPLE
from memory_assets_tests.ui.site import Site, Visitor

_numbers = count(1)
_PROGRAMS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"  # the first does without windows
_CHROMIUM = next(filter(None, map(shutil.which, _PROGRAMS)), None)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start the service."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(SAMPLE, folder / "home")
    with Site(folder) as running:
        yield running


@pytest.fixture
def tenant(site: Site) -> Tenant:
    """Create an empty tenant of the service."""
    return site.new_tenant(f"visitor{next(_numbers)}")[0]


@pytest.fixture
def visitor(site: Site, tenant: Tenant) -> Visitor:
    """Return a headless visitor, logged in to the tenant."""
    return site.visitor(tenant)


@pytest.fixture(scope="session")
def sample(site: Site) -> Tenant:
    """Return the tenant of the sample home, with graph and scores; tests that change it must not depend on each other."""
    tenant = Tenant(site.settings)
    create_tenant(tenant)
    KeyStore(tenant.state).create()
    take_in(tenant)
    refresh_known_names(tenant)
    refresh_graph(tenant.catalog, tenant.memories, tenant.relations, tenant.analyzer.gazetteer.canonical)
    decay_cycle(tenant, datetime.now(UTC))
    return tenant


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium, or skip the test. It ends with the module, because no test can run an event loop while it runs."""
    if _CHROMIUM is None:
        pytest.skip("no Chromium is installed; `make test` as root installs Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def window(chromium: Browser, site: Site, sample: Tenant) -> Iterator[tuple[Page, list[str]]]:
    """Open the module's only tab, logged in to the sample home, with a list of faults: logged errors and requests to other hosts."""
    with chromium.new_context(base_url=site.url, locale="en-GB", reduced_motion="reduce") as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(site.url) else faults.append(request.url))
        page.goto(one_time_address(sample, site.url))
        yield page, faults


@pytest.fixture
def tab(window: tuple[Page, list[str]]) -> Iterator[Page]:
    """Return the tab, wide and with the light theme; fail if a page of the test has a fault."""
    page, faults = window
    faults.clear()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    yield page
    assert faults == []


@pytest.fixture
def asked(tab: Page) -> Iterator[list[str]]:
    """Record the confirmation dialogs of a test and answer each with yes."""
    questions: list[str] = []

    def accept(dialog: Dialog) -> None:
        questions.append(dialog.message)
        dialog.accept()

    tab.on("dialog", accept)
    yield questions
    tab.remove_listener("dialog", accept)
