"""The servers of `memory_assets_tests.services` keep acknowledged data when killed, and end with their context."""

import socket
from pathlib import Path

import pytest

from memory_assets_tests.services import NoServerError, PostgreSQL, Redis


def test_postgresql_keeps_what_it_committed(tmp_path: Path):
    psycopg = pytest.importorskip("psycopg", reason="the extra [cluster] is not installed")
    try:
        with PostgreSQL(tmp_path / "a") as server:
            address = server.create_database("other")
            with psycopg.connect(address) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
            server.kill()
            server.start()
            with psycopg.connect(address) as connection:
                assert connection.execute("SELECT x FROM kept").fetchall() == [(7,)]
    except NoServerError as error:
        pytest.skip(str(error))
    assert not answers(server.port)


def test_redis_keeps_its_queue(tmp_path: Path):
    try:
        with Redis(tmp_path / "b") as server:
            assert tell(server.port, "LPUSH queue task") == ":1"
            server.kill()
            server.start()
            assert tell(server.port, "LLEN queue") == ":1"
    except NoServerError as error:
        pytest.skip(str(error))
    assert not answers(server.port)


def tell(port: int, command: str) -> str:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{command}\r\n".encode())
        return connection.recv(100).decode().strip()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
