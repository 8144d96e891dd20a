"""Liveness probes of the processes that the supervisor runs: an answer on a socket, or the daemon's heartbeat.

A probe never blocks: each look sends a request or reads what has arrived. It counts looks, not seconds, so that no process is killed
because the machine slept or the supervisor got no processor time.
"""

import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

_PAUSE_LOOKS = 20
"""Looks between an answer and the next request: ten seconds at the supervisor's pace."""
_BEAT_LOOKS = 60
"""Looks between two heartbeats: half a minute."""
_PATIENCE_LOOKS = 180
"""Looks without an answer after which a process counts as hung: a minute and a half."""
_LOAD_LOOKS = 600
"""Looks without a first answer after which a process counts as hung: five minutes."""
_SEND_SECONDS = 1.0
_HEADERS = 1
"""HTTP/2's type of the frame that begins an answer; the settings frame before it comes from gRPC's own threads."""


@dataclass(slots=True)
class Probe:
    """Watches one process."""

    is_alive: Callable[[], bool]
    """Returns whether the process gave a sign of life since the last call."""
    close: Callable[[], None] = lambda: None
    pause: int = 0
    """Looks between an answer and the next request; 0 means `_PAUSE_LOOKS`."""
    has_answered: bool = False
    _pausing: int = 0
    _unanswered: int = 0

    def finds_hang(self) -> bool:
        """Look once; return whether there was no sign of life for too long."""
        if self._pausing:
            self._pausing -= 1
        elif self.is_alive():
            self._pausing, self._unanswered, self.has_answered = self.pause or _PAUSE_LOOKS, 0, True
        else:
            self._unanswered += 1
        return self._unanswered > (_PATIENCE_LOOKS if self.has_answered else _LOAD_LOOKS)


def http_probe(host: str, port: int, request: str) -> Probe:
    """Return a probe that sends an HTTP request; any answer counts, an error too."""
    asked = f"{request} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
    return _socket_probe(lambda: socket.create_connection((host, port), _SEND_SECONDS), asked, bool)


def grpc_probe(path: Path) -> Probe:
    """Return a probe that pings Dagster's code server. It writes the four HTTP/2 frames itself, because gRPC's library is large."""

    def connect() -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(_SEND_SECONDS)
        try:
            client.connect(str(path))
        except OSError:
            client.close()
            raise
        return client

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    post, http, path_, authority, content_type, literal = b"\x83", b"\x86", b"\x04", b"\x01", b"\x0f\x10", b"\x00"
    headers = post + http + path_ + text("/api.DagsterApi/Ping") + authority + text("localhost")
    headers += content_type + text("application/grpc") + literal + text("te") + text("trailers")
    ping = _encode_frame(4, 0, 0, b"") + _encode_frame(_HEADERS, 4, 1, headers) + _encode_frame(0, 1, 1, bytes(5))
    return _socket_probe(connect, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + ping, _has_answer_frame)


def _encode_frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _has_answer_frame(read: bytes) -> bool:
    while len(read) >= 9:
        if read[3] == _HEADERS:
            return True
        read = read[9 + int.from_bytes(read[:3], "big") :]
    return False


def _socket_probe(connect: Callable[[], socket.socket], request: bytes, is_answer: Callable[[bytes], bool]) -> Probe:
    """Return a probe that sends `request` over a socket; a request that the other side drops is sent again."""
    asked: socket.socket | None = None
    read = b""

    def close() -> None:
        nonlocal asked
        if asked:
            asked.close()
        asked = None

    def is_alive() -> bool:
        nonlocal asked, read
        try:
            if asked is None:
                asked, read = connect(), b""
                asked.sendall(request)
                asked.setblocking(False)
            more = asked.recv(65_536)
        except BlockingIOError:
            return False
        except OSError:
            more = b""
        read += more
        answered = is_answer(read)
        if answered or not more:
            close()
        return answered

    return Probe(is_alive, close)


def heartbeat_probe(records: Path) -> Probe:
    """Return a probe of the heartbeats that the daemon writes each half minute to SQLite; until the first it counts as alive."""
    before = _newest_heartbeat(records)
    beats = False

    def is_alive() -> bool:
        nonlocal before, beats
        newest = _newest_heartbeat(records)
        has_beaten, before = newest != before, newest
        beats = beats or has_beaten
        return has_beaten or not beats

    return Probe(is_alive, pause=_BEAT_LOOKS)


def _newest_heartbeat(records: Path) -> str | None:
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{records.as_uri()}?mode=ro", uri=True, timeout=0.1)) as connection:
        (newest,) = connection.execute("SELECT max(timestamp) FROM daemon_heartbeats").fetchone()
        return newest
    return None
