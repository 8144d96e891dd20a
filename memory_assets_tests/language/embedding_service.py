"""A stand-in of Ollama and of OpenAI's embeddings on loopback, which answers as a test says."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import SecretStr

from memory_assets.language.embedders.remote import OpenAIEmbedder

KEY = "sk-very-secret-4711"


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    payload: dict[str, Any]


@dataclass
class Answer:
    """An HTTP answer; a body that is not bytes is sent as JSON, None breaks the connection off."""

    body: object
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    trickling: float = 0
    """Seconds before each byte of the body."""


@dataclass
class StandIn:
    url: str
    asked: list[Asked]


@contextmanager
def serve(answer: Callable[[Asked], Answer]) -> Iterator[StandIn]:
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(Asked(self.path, dict(self.headers), json.loads(body)))
            reply = answer(asked[-1])
            if reply.body is None:
                self.close_connection = True
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if not isinstance(reply.body, bytes):
                self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):
                for byte in [bytes([each]) for each in content] if reply.trickling else [content]:
                    time.sleep(reply.trickling)
                    self.wfile.write(byte)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield StandIn(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 2.0]


def ollama_answer(asked: Asked) -> Answer:
    return Answer({"model": asked.payload["model"], "embeddings": [vector_of(text) for text in asked.payload["input"]]})


def openai_answer(asked: Asked) -> Answer:
    items = [
        {"object": "embedding", "index": position, "embedding": vector_of(text)}
        for position, text in enumerate(asked.payload["input"])
    ]
    return Answer({"object": "list", "data": items[::-1], "model": asked.payload["model"]})


def in_turn(*answers: Answer | Callable[[Asked], Answer]) -> Callable[[Asked], Answer]:
    remaining = list(answers)

    def answer(asked: Asked) -> Answer:
        reply = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return reply(asked) if callable(reply) else reply

    return answer


class Waits(list[float]):
    """List of requested waiting times; a call records one instead of waiting."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def openai_embedder(url: str, waits: Waits | None = None, *, timeout: float = 10.0, key: str = KEY) -> OpenAIEmbedder:
    embedder = OpenAIEmbedder("m-3", url=url, api_key=SecretStr(key), timeout=timeout)
    embedder._service.sleep = waits if waits is not None else Waits()
    return embedder
