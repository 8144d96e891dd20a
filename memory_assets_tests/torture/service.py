"""Run clients of two tenants over HTTP and MCP against a service with at most 2 GB that is killed and restarted."""

import json
import os
import random
import re
import resource
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from memory_assets_tests.torture.oracle import ACTIVE, FORGOTTEN, Author, Model, Operation, Seen
from memory_assets_tests.torture.world import Report, World
from memory_assets_tests.torture.zygote import Command, Zygote

_CLIENTS = 6
_MOST_BYTES = 2 << 30
_TENANTS = ("one", "two")


@dataclass
class Client:
    """A client that changes only memories that it has stored itself."""

    tenant: str
    author: Author
    done: list[Operation] = field(default_factory=list)
    cut: list[Operation] = field(default_factory=list)
    stored: dict[int, str] = field(default_factory=dict)
    """Id -> text of the stores acknowledged since the service was started."""
    problems: list[str] = field(default_factory=list)

    def work(self, http: httpx.Client, until: threading.Event) -> None:
        """Send one request after another until the service is gone."""
        while not until.is_set():
            known = list(self.stored)
            name = self.author.chance.choice(("store", "store", "forget", "restore", "search")) if known else "store"
            number = self.author.chance.choice(known) if known else 0
            operation = self.author.store() if name == "store" else Operation(name, (number,))
            path, body = self._request(operation)
            try:
                answer = http.post(path, json=body)
            except httpx.TransportError:
                self.cut.append(operation)
                return
            if answer.status_code != 200:
                self.problems.append(f"{path}: {answer.status_code} {answer.text[:100]}")
            elif name == "store":
                self.stored[answer.json()["id"]] = operation.text
                self.done.append(operation)
            elif name != "search":
                self.done.append(operation)

    def _request(self, operation: Operation) -> tuple[str, dict[str, Any]]:
        match operation.name:
            case "store":
                return "/store", {"content": operation.text, "tags": list(operation.tags)}
            case "search":
                return "/search", {"query": self.stored[operation.ids[0]]}
            case _:
                return f"/memories/{operation.ids[0]}/{operation.name}", {}


def campaign(zygote: Zygote, folder: Path, seconds: float, seed: int) -> Report:
    """Serve, kill, compare and restart until the time is over."""
    report, chance, until = Report("service and MCP killed", seed), random.Random(seed), time.monotonic() + seconds
    world = World(zygote, folder)
    keys = {}
    for tenant in _TENANTS:
        world.must("tenant", "create", tenant)
        keys[tenant] = _key(world.must("key", "create", "torture", "--json", tenant=tenant).out)
    models = {tenant: Model() for tenant in _TENANTS}
    serial = 0
    while serial == 0 or time.monotonic() < until:
        serial += 1
        clients = [
            Client(_TENANTS[place % 2], Author(random.Random(seed * 1_000_003 + serial * 101 + place)))
            for place in range(_CLIENTS)
        ]
        problem = _session(world, keys, clients, chance)
        for tenant in _TENANTS:
            mine = [client for client in clients if client.tenant == tenant]
            wrong = next((each for client in mine for each in client.problems), None)
            wrong = wrong or problem or _settle(models[tenant], world.seen(tenant), mine)
            report.attempt(f"{sum(len(client.done) for client in mine)} requests of {tenant}, and a kill", wrong)
            if wrong:
                models[tenant] = Model((seen := world.seen(tenant)).rows, seen.relations)
        report.kills += 2
        report.acknowledged += sum(len(client.done) for client in clients)
    return report


def _session(world: World, keys: dict[str, str], clients: list[Client], chance: random.Random) -> str | None:
    """Serve clients and an assistant over MCP for a while, then kill both processes."""
    service = world.start("serve", "--port", "0")
    fifo = world.folder / "mcp.fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    over = threading.Event()
    assistant = threading.Thread(target=_assist, args=(world, fifo, clients[0], over))
    try:
        url = _address(service)
        resource.prlimit(service.pid, resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
        https = [
            httpx.Client(base_url=f"{url}/api/v1/{each.tenant}", headers={"X-API-Key": keys[each.tenant]}, timeout=60)
            for each in clients
        ]
        threads = [
            threading.Thread(target=each.work, args=(http, over)) for each, http in zip(clients[1:], https[1:], strict=True)
        ]
        for thread in (*threads, assistant):
            thread.start()
        problem = _beside(world, https[1], clients[1])
        time.sleep(chance.uniform(0.5, 4))
        service.kill()
        outcome = service.wait()
        over.set()
        for thread in (*threads, assistant):
            thread.join(60)
        return problem or outcome.problem
    finally:
        over.set()
        service.kill()


def _beside(world: World, http: httpx.Client, client: Client) -> str | None:
    """Check that the service finds within seconds what another process stores."""
    operation = Operation("store", text=client.author.text())
    world.must(*operation.arguments(), tenant=client.tenant)
    client.done.append(operation)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = http.post("/search", json={"query": operation.text}).json()
        if any(memory["content"] == operation.text for memory in found["memories"]):
            return None
        time.sleep(0.2)
    return "the service does not find what another process stored"


def _assist(world: World, fifo: Path, client: Client, over: threading.Event) -> None:
    """Store over MCP until the process is killed."""
    command = world.start("mcp", tenant=client.tenant, fifo=fifo)
    with fifo.open("w", encoding="utf-8") as pipe:

        def send(number: int, method: str, parameters: dict[str, Any]) -> None:
            pipe.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n")
            pipe.flush()

        information = {"name": "torture", "version": "1"}
        send(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": information})
        asked: dict[int, Operation] = {}
        while not over.is_set():
            number = len(asked) + 1
            asked[number] = client.author.store()
            send(
                number,
                "tools/call",
                {"name": "store", "arguments": {"content": asked[number].text, "tags": list(asked[number].tags)}},
            )
            while not over.is_set() and not _answered(command.written("out"), number):
                time.sleep(0.01)
        command.kill()
    said = command.wait().out
    for number, operation in asked.items():
        (client.done if _answered(said, number) and '"isError":true' not in said else client.cut).append(operation)


def _answered(said: str, number: int) -> bool:
    return re.search(rf'"id": ?{number},', said) is not None


def _settle(model: Model, seen: Seen, clients: list[Client]) -> str | None:
    """Compare a tenant: everything acknowledged must be there; an interrupted operation counts as done if its effect is visible."""
    after = Model(model.rows, model.relations, model.given_tags, model.revises)
    texts = {text: number for number, row in seen.rows.items() for text in [row.text]}
    for client in clients:
        for operation in (*client.done, *(each for each in client.cut if _visible(each, seen))):
            if operation.name == "search":
                continue
            if operation.ids and operation.ids[0] not in after.rows:
                operation = Operation(operation.name, (_placeholder(after, client.stored[operation.ids[0]]),))
            after = after.after(operation)
    unacknowledged = [
        text
        for text, number in texts.items()
        if number not in model.rows and not any(text == row.text or row.secret for row in after.rows.values())
    ]
    if unacknowledged:
        return f"nobody stored {unacknowledged[0]!r}"
    wrong = after.accept(seen, model)
    if wrong is None:
        model.rows, model.relations, model.given_tags = after.rows, after.relations, after.given_tags
    return wrong


def _placeholder(model: Model, text: str) -> int:
    return next(number for number, row in model.rows.items() if number < 0 and row.text == text)


def _visible(operation: Operation, seen: Seen) -> bool:
    if operation.name == "store":
        beginning = operation.text.split(operation.secret)[0] if operation.secret else operation.text
        return any(row.text.startswith(beginning) for row in seen.rows.values())
    wanted = {"forget": FORGOTTEN, "restore": ACTIVE}.get(operation.name)
    return bool(operation.ids) and operation.ids[0] in seen.rows and seen.rows[operation.ids[0]].state == wanted


def _address(service: Command) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := re.search(r"memory: (http://\S+)", service.written("err")):
            return found[1]
        time.sleep(0.05)
    service.kill(group=True)
    raise AssertionError(f"the service does not start: {service.written('err')}")


def _key(said: str) -> str:
    values = [value for value in json.loads(said).values() if isinstance(value, str)]
    return max(values, key=len)
