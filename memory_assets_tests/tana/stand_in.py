"""A stand-in Tana for tests and demos: a real HTTP server on loopback that follows contract.json, with the traps of a live Tana.

    python -m memory_assets_tests.tana.stand_in [--port 8262] [--nodes 50000] [--latency 0.02] [--token demo]

Every request is validated against the contract; a violation is refused with 400 and recorded in `violations`. The server counts nodes and
writes itself. `contract.json` has the types of Tana's OpenAPI document, without its texts. Behaviour beyond that document:

- A search without a workspace uses the open one. The results include trashed nodes. They are at most 100 nodes, without a next page.
- Boolean query parameters are refused.
- The search index lags creations and renames by seconds; a list of children does not.
- An import adds a second field if a node already has one.
- A page that contains a "poison node" fails as a whole.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from memory_assets_tests.tana.contract import RefusedError, checked, route
from memory_assets_tests.tana.workspace import Workspace


class StandIn(Workspace):
    """A workspace with a server; `with StandIn() as tana: tana.url`."""

    def __init__(self, *, token: str = "secret", port: int = 0, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self.token = token
        self.writes = 0
        self.requests: list[str] = []
        self.violations: list[str] = []
        self.on_write: Callable[[str], None] = lambda _: None
        """Called after each write and before its answer."""
        self._port = port
        self._server: _Server | None = None

    def __enter__(self) -> "StandIn":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        stand_in = self

        class Handler(_Handler):
            tana = stand_in

        self._server = _Server(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Stop, like a closed desktop app."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server.drop()
            self._server = None

    # Request handling.

    def answer(self, method: str, target: str, authorization: str, body: bytes) -> tuple[int, Any]:
        """Return status and JSON of one request."""
        if self.traps.everywhere:
            return 200, self.traps.everywhere
        parts = urlsplit(target)
        operation, names, spec = route(method, parts.path)
        with self._lock:
            self.requests.append(f"{method} {target}")
            if operation != "health.ping":
                if self.traps.statuses and (status := self.traps.statuses.pop(0)) != 200:
                    return status, {"message": f"told to answer {status}"}
                if authorization != f"Bearer {self.token}":
                    return 401, {"message": "Unauthorized"}
            try:
                given = checked(spec, parts.query, body)
                said = self._call(operation, names, given)
            except RefusedError as refused:
                if refused.status == 400:
                    self.violations.append(f"{method} {target}: {refused}")
                return refused.status, {"message": str(refused)}
            if method == "POST":
                self.writes += 1
        if method == "POST":
            self.on_write(operation)
        return 200, self.traps.shapes.get(operation, said)

    def _call(self, operation: str, names: dict[str, str], given: dict[str, Any]) -> Any:
        node = names.get("nodeId", "")
        match operation:
            case "health.ping":
                return self.health()
            case "workspaces.list":
                return self.list_workspaces()
            case "nodes.search":
                return self.search(given["query"], given.get("workspaceIds"), given.get("limit", 50))
            case "nodes.read":
                return self.read(node, given.get("maxDepth", 1))
            case "nodes.getChildren":
                return self.get_children(node, given.get("limit", 100), given.get("offset", 0))
            case "nodes.importTanaPaste":
                return self.import_paste(names["parentNodeId"], given["content"])
            case "nodes.updateTags":
                return self.change_tags(node, given["action"], given["tagIds"])
            case "nodes.setFieldOption":
                return self.set_option(node, names["attributeId"], given["optionId"], given.get("mode", "replace"))
            case "nodes.setFieldContent":
                return self.set_content(node, names["attributeId"], given["content"], given.get("mode", "replace"))
            case "nodes.update":
                return self.update(node, given.get("name"), given.get("description"))
            case "nodes.setDone":
                return self.set_done(node, given["done"])
            case "nodes.trash":
                return self.trash(node)
            case "tags.list":
                return self.list_tags(names["workspaceId"], given.get("limit", 50))
            case "tags.create":
                return self.create_tag(names["workspaceId"], given["name"], given.get("extendsTagIds", []))
            case "tags.getSchema":
                return self.tag_schema(names["tagId"])
            case "tags.addField":
                return self.add_field(names["tagId"], given)
        raise RefusedError(501, f"the stand-in does not do {operation}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, *given: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def drop(self) -> None:
        """Cut the open connections."""
        for request in list(self._open):
            try:
                request.shutdown(2)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected."""


class _Handler(BaseHTTPRequestHandler):
    tana: StandIn
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        self._respond()

    def _respond(self) -> None:
        traps = self.tana.traps
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if traps.latency:
            time.sleep(traps.latency)
        status, said = self.tana.answer(self.command, self.path, self.headers.get("Authorization", ""), body)
        if status == 200 and self.command == "POST" and traps.lose_answers:
            traps.lose_answers -= 1
            self.close_connection = True
            return
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status in {429, 503} and traps.retry_after:
            self.send_header("Retry-After", traps.retry_after)
        self._headers_buffer += [b"\r\n", content]  # type: ignore[attr-defined]
        self.flush_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


def main() -> None:
    """Serve a workspace until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8262)
    parser.add_argument("--nodes", type=int, default=0, help="number of nodes at the start")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--token", default="demo")
    given = parser.parse_args()
    tana = StandIn(token=given.token, port=given.port)
    tana.populate(given.nodes)
    tana.traps.latency = given.latency
    tana.start()
    print(f"A stand-in Tana at {tana.url}; set MEMORY_TANA_TOKEN={tana.token}", flush=True)  # noqa: T201
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        tana.stop()


if __name__ == "__main__":
    main()
