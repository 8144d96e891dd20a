"""The connections of the service: how many there may be, and how long each may keep others waiting.

uvicorn bounds the idle time between two requests and the requests that are under way. A connection that begins a request and
never ends it is none of both, so its limits are here.
"""

import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)
_MOST_HEAD_BYTES = 65_536
"""Of a request's first line and headers; httptools sets no bound of its own."""
_HEAD_LATE = "the head of a request did not arrive in time"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(HttpToolsProtocol):
    """One connection. Beyond `limit_concurrency` of uvicorn's configuration the one that has waited longest for a request goes.

    Args:
        seconds: within which the head of a request must arrive, then its body, and then a client must take what it is sent.
        uvicorns: what `HttpToolsProtocol` is given.
    """

    def __init__(self, *, seconds: float, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_body = False
        self.quiet_since = self.loop.time()
        """When it came up or last had its answer, on the event loop's clock."""

    @property
    def waiting(self) -> bool:
        """Whether no request is being read or answered; the head of one may be under way."""
        return not self._in_body and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: "asyncio.Transport") -> None:  # type: ignore[override]
        """Wait for a first request, if need be in the place of another connection."""
        super().connection_made(transport)
        self._set_deadline(_HEAD_LATE)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            waiting = [each for each in self.connections if isinstance(each, BoundedConnection) and each.waiting]
            min(waiting, key=attrgetter("quiet_since")).end("there are too many connections")

    def data_received(self, data: bytes) -> None:
        """Read what arrived; bytes between two requests begin the wait for the next one's head."""
        if self.waiting:
            self._head_bytes += len(data)
            if self._deadline is None:
                self._set_deadline(_HEAD_LATE)
        super().data_received(data)
        if self.waiting and self._head_bytes > _MOST_HEAD_BYTES:
            self.end("the head of a request is too long")

    def on_headers_complete(self) -> None:
        """Wait for the body now."""
        self._head_bytes, self._in_body = 0, True
        self._set_deadline("the body of a request did not arrive in time")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stop waiting for the client."""
        self._in_body = False
        self._drop_deadline()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for the client to take its answer."""
        self._set_deadline("an answer was not taken in time")
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop waiting for the client."""
        self._drop_deadline()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Be idle, as uvicorn bounds it."""
        self.quiet_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._drop_deadline()
        super().connection_lost(exc)

    def end(self, reason: str) -> None:
        """Close the connection, with 408 where a request was begun and nothing of an answer is out."""
        _log.info("connection closed: %s", reason)
        self.connections.discard(self)
        if not self.waiting and not self.cycle.response_started:
            self.transport.write(_TOO_SLOW)
        if self.flow.write_paused:
            self.transport.abort()
        else:
            self.transport.close()

    def _set_deadline(self, reason: str) -> None:
        self._drop_deadline()
        self._deadline = self.loop.call_later(self._seconds, self.end, reason)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
