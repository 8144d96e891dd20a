"""`memory up` over a test's data folder: control of its processes, and GraphQL queries to the webserver as the UI sends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from memory_assets.settings import load_settings
from memory_assets.supervisor import LOG, Running, find_running
from memory_assets_tests.ports import free_ports

_PATIENCE_SECONDS = 400.0
_RUNS = """{ runsOrError(limit: 20) { ... on Runs { results { status tags { key value } } } } }"""
Found = TypeVar("Found")


def wait_for(what: str, look: Callable[[], Found | None], pause: float = 0.5) -> Found:
    """Poll `look` and return its first true value; fail after the patience that a slow machine needs."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(pause)
    pytest.fail(f"{what} did not happen within {_PATIENCE_SECONDS:.0f} s")


def is_alive(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Deployment:
    """`memory up --detach` over the test's data folder."""

    def __init__(self, *options: str) -> None:
        self.ui, self.port = free_ports(2)
        self.settings = load_settings()
        self.log = self.settings.data_dir / LOG
        up = [sys.executable, "-m", "memory_assets.cli", "up", "--detach", "--ui-port", str(self.ui), "--port", str(self.port)]
        done = subprocess.run([*up, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.told = done.stdout

    def kill(self) -> None:
        """Kill the supervisor, if it runs."""
        if found := find_running(self.settings):
            os.kill(found.pid, signal.SIGKILL)

    def running(self) -> Running | None:
        """Return the running deployment once all of its processes run, else None."""
        found = find_running(self.settings)
        assert found, self.log.read_text()
        return found if found.has_begun else None

    def pid(self, name: str) -> int:
        found = self.running()
        return next((int(part["pid"] or 0) for part in found.parts if part["name"] == name), 0) if found else 0

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Send a GraphQL query to the webserver and return the answer."""
        asked = {"query": query, "variables": variables}
        answer = httpx.post(f"http://127.0.0.1:{self.ui}/graphql", json=asked, timeout=60, trust_env=False)
        return answer.raise_for_status().json()["data"]

    def runs(self, changed: str, state: str = "SUCCESS") -> list[dict[str, Any]]:
        return [
            each
            for each in self.ask(_RUNS)["runsOrError"]["results"]
            if each["status"] == state and {"key": "changed", "value": changed} in each["tags"]
        ]
