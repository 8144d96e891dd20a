"""A stand-in for a chat model behind Ollama's or an OpenAI-compatible API."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class StandIn:
    """A chat server on loopback that gives preset answers and records its requests."""

    def __init__(self):
        self.asked: list[dict] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self.answer = json.dumps({"relations": []})
        self.answer_for = None
        self.models = ["small:latest"]
        self.reply = b""
        """Sent instead of a chat answer."""
        self.status = 200
        self.pause = 0.0
        """Seconds between the bytes of an answer."""
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                listed = [{"name": each, "id": each} for each in stand_in.models]
                data = json.dumps({"models": listed} if self.path == "/api/tags" else {"data": listed}).encode()
                self.send_response(stand_in.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand_in.asked.append(body)
                stand_in.paths.append(self.path)
                stand_in.keys.append(self.headers.get("Authorization"))
                answer = stand_in.answer_for(body) if stand_in.answer_for else stand_in.answer
                message = {"role": "assistant", "content": answer}
                reply = {"message": message} if self.path == "/api/chat" else {"choices": [{"message": message}]}
                data = stand_in.reply or json.dumps(reply).encode()
                self.send_response(stand_in.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with suppress(ConnectionError):
                    for byte in data if stand_in.pause else ():
                        self.wfile.write(bytes([byte]))
                        time.sleep(stand_in.pause)
                    if not stand_in.pause:
                        self.wfile.write(data)

            def log_message(self, format, *args):  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"
