"""Limits of the service at its door: slow bodies, too many connections, requests for other hosts."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from select import select
from urllib.parse import urlsplit

import pytest

from memory_assets_tests.api.service import Service, get

MOST = 8


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for a handful of quick clients."""
    limits = {
        "MEMORY_MAX_CONNECTIONS": str(MOST),
        "MEMORY_REQUEST_TIMEOUT": "1.5",
        "MEMORY_ALLOWED_HOSTS": "memory.example, other.example",
    }
    with Service(tmp_path_factory.mktemp("narrow"), **limits) as running:
        yield running


def connect(service: Service, sent: bytes) -> socket.socket:
    address = urlsplit(service.url)
    connection = socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=30)
    connection.sendall(sent)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Read everything until the service closes the connection, with a reset if it had not read all that was sent."""
    parts: list[bytes] = []
    with connection, suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_a_body_that_does_not_arrive_or_drips_is_answered_with_408(narrow: Service) -> None:
    client = narrow.new_tenant("slow")
    head = f"POST /api/v1/slow/store HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {client.key}\r\nContent-Length: 100\r\n\r\n"
    silent, dripping = connect(narrow, head.encode() + b"{"), connect(narrow, head.encode())
    for _ in range(99):
        if select([dripping], [], [], 0.3)[0]:
            break
        dripping.sendall(b" ")
    assert [answer(each)[:13] for each in (silent, dripping)] == [b"HTTP/1.1 408 "] * 2


def test_more_connections_than_the_setting_allows_are_answered_with_503(narrow: Service) -> None:
    def answers(status: int) -> bool:
        """Return whether the service answers with this status before long: it notices connections and their ends with a delay."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if get(f"{narrow.url}/api/v1/health").status_code == status:
                return True
            time.sleep(0.02)
        return False

    held = [connect(narrow, b"") for _ in range(MOST + 1)]
    assert answers(503)
    for connection in held:
        connection.close()
    assert answers(200)


@pytest.mark.parametrize("path", ["/metrics", "/docs", "/openapi.json", "/api/v1/health", "/api/v1/nobody/health"])
def test_a_request_for_another_host_is_refused_everywhere(service: Service, path: str) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost@evil.example", "[::1", ""):
        refused = get(f"{service.url}{path}", headers={"Host": host})
        assert refused.status_code == 400, host
        assert "MEMORY_ALLOWED_HOSTS" in refused.json()["error"]


def test_the_service_answers_to_its_address_and_to_the_names_of_the_setting(narrow: Service) -> None:
    port = narrow.url.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", "127.0.0.1", "localhost", f"LocalHost:{port}", "memory.example", "other.example:443"):
        assert get(f"{narrow.url}/metrics", headers={"Host": host}).status_code == 200, host
