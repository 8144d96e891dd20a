"""A stand-in for the Messages API on loopback: it records its requests and answers with a word or a tool call."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

WRITE = "WRITE-NOW "
"""A prompt with this prefix is answered with a Write call for the path after it."""
WRITTEN = (
    "---\nname: kettle\ndescription: The office kettle\ntype: project\n---\n\nThe office kettle is red and was bought in Ghent.\n"
)


class Model(BaseHTTPRequestHandler):
    """Handler of one request."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[dict[str, Any]]] = []

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "/messages" not in self.path or "count_tokens" in self.path:
            self._send(b'{"input_tokens": 10}', "application/json")
            return
        self.requests.append(body)
        block = _answer(body)
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", ""),
            "content": [block],
            "stop_reason": block["type"].replace("text", "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
        if not body.get("stream"):
            self._send(json.dumps(message).encode(), "application/json")
            return
        events = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in _events(message))
        self._send(events.encode(), "text/event-stream")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def serve() -> ThreadingHTTPServer:
    """Serve the stand-in on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    prompts = [each["content"] for each in body.get("messages", []) if each.get("role") == "user"]
    last = prompts[-1] if prompts else ""
    text = last if isinstance(last, str) else " ".join(part.get("text", "") for part in last if part.get("type") == "text")
    if WRITE in text and body.get("tools"):
        path = text.partition(WRITE)[2].split()[0]
        return {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": path, "content": WRITTEN}}
    return {"type": "text", "text": "Understood."}


def _events(message: dict[str, Any]) -> list[dict[str, Any]]:
    (block,) = message["content"]
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
