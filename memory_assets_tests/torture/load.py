"""Eight clients that store and search at once, in 2 GB: no error, nothing that was acknowledged is missing."""

import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memory_assets_tests.api.service import Service, TenantClient
from memory_assets_tests.torture.world import Report

_CLIENTS = 8
_MOST_BYTES = 2 << 30


def campaign(folder: Path, seconds: float) -> Report:
    """Two tenants, four clients each, for so many seconds."""
    report = Report("mixed load of 8 clients in 2 GB")
    folder.mkdir(parents=True)
    with Service(folder) as service:
        assert service.process
        resource.prlimit(service.process.pid, resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
        tenants = [service.new_tenant(name) for name in ("one", "two")]
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(_CLIENTS) as threads:
            work = [threads.submit(_work, tenants[number % 2], number, until) for number in range(_CLIENTS)]
        acknowledged: dict[str, set[int]] = {"one": set(), "two": set()}
        for number, each in enumerate(work):
            stored, problems, requests = each.result()
            acknowledged[tenants[number % 2].name] |= stored
            report.tried += requests
            report.failures += problems
        most = _peak_bytes(service.process.pid)
        report.attempt("memory", f"{most >> 20} MB" if most > _MOST_BYTES else None)
        service.stop(signal.SIGTERM)
        for client in tenants:
            there = set(client.tenant.memories.scan(("id",))["id"].to_pylist())
            missing = acknowledged[client.name] - there
            report.attempt(f"what {client.name} stored", f"{len(missing)} memories are missing" if missing else None)
    return report


def _work(client: TenantClient, number: int, until: float) -> tuple[set[int], list[str], int]:
    mine = client.service.client(client.name, client.key)
    stored: set[int] = set()
    problems: list[str] = []
    turn = 0
    while time.monotonic() < until:
        turn += 1
        answer = mine.post(
            "/store", {"content": f"Client {number} notes part {turn} of the export.", "tags": [f"client {number}"]}
        )
        if answer.status_code != 200:
            problems.append(f"store: {answer.status_code} {answer.text[:100]}")
            continue
        stored.add(answer.json()["id"])
        found = mine.post("/search", {"query": f"part {turn} of the export", "tags": [f"client {number}"], "limit": 5})
        if found.status_code != 200:
            problems.append(f"search: {found.status_code} {found.text[:100]}")
        elif answer.json()["id"] not in {memory["id"] for memory in found.json()["memories"]} and turn < 5:
            problems.append(f"search: client {number} does not find what it has just stored")
    return stored, problems, 2 * turn


def _peak_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
