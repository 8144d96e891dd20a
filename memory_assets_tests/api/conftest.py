"""A real service for the tests of the HTTP API: one process on a free loopback port with its own data folder."""

from collections.abc import Iterator
from itertools import count

import pytest

from memory_assets_tests.api.service import Service, TenantClient

_numbers = count(1)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Start the service that most tests share; each test uses its own tenants."""
    folder = tmp_path_factory.mktemp("service")
    home = {"MEMORY_CLAUDE_PROJECTS_DIR": folder / "projects", "MEMORY_PAI_LEARNING_DIR": folder / "LEARNING"}
    with Service(folder, **{name: str(path) for name, path in home.items()}) as running:
        yield running


@pytest.fixture
def client(service: Service) -> TenantClient:
    """Create a tenant of the shared service."""
    return service.new_tenant(f"tenant{next(_numbers)}")
