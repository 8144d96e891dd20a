"""What happens around every request, whatever route it takes: an id, a size limit, a count and a log line."""

import asyncio
import logging
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from memory_assets.api.access import is_loopback
from memory_assets.api.errors import REQUEST_ID_HEADER, begin_request, error_response

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("memory_assets.api.access")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d+)?", re.ASCII)
_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
"""Bounds of the histogram of times to the answer."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Metrics:
    """What one service counts about itself, for Prometheus: totals by route, never a tenant's name or a memory's text."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter("memory_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "memory_request_seconds", "Time to the answer.", ["method", "route"], buckets=_SECONDS, registry=self._registry
        )
        self.in_flight = Gauge("memory_requests_in_flight", "Requests being served.", registry=self._registry)
        self.commit_size = Histogram(
            "memory_commit_size", "Memories per commit.", buckets=(1, 2, 4, 8, 16), registry=self._registry
        )

    def exposition(self) -> bytes:
        """Everything counted so far, as text for Prometheus."""
        return generate_latest(self._registry)


class RequestRecord:
    """Gives each request its id, puts it on the answer, and counts and logs what came of it."""

    def __init__(self, app: "ASGIApp", metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        number, begun = begin_request(), time.perf_counter()
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value

        async def send_with_id(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                name = REQUEST_ID_HEADER.lower().encode()
                headers = [header for header in message["headers"] if header[0].lower() != name]
                message = {**message, "headers": [*headers, (name, number.encode())]}
            await send(message)

        self.metrics.in_flight.inc()
        try:
            await self.app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - begun
            method = scope["method"] if scope["method"] in _METHODS else "other"
            route = getattr(scope.get("route"), "path", "unmatched")
            self.metrics.in_flight.dec()
            self.metrics.requests.labels(method, route, status).inc()
            self.metrics.seconds.labels(method, route).observe(seconds)
            fields = {"method": method, "route": route, "status": status, "milliseconds": round(seconds * 1e3, 1)}
            _log.info("request", extra=fields)


class HostCheck:
    """Refuses a request that names another host than this one with 400.

    A page that a browser loaded from elsewhere can have its own name resolve to this machine (DNS rebinding); what gives it away is
    the name it asks for. Starlette's TrustedHostMiddleware knows neither the address that a connection came in on nor this
    service's form of errors.
    """

    def __init__(self, app: "ASGIApp", names: "Collection[str]") -> None:
        self.app = app
        self.names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one connection."""
        if scope["type"] == "http" and not self._is_own(scope):
            message = (
                "The Host header names another host; ask for this service's address, or name the host in MEMORY_ALLOWED_HOSTS."
            )
            await error_response(HTTPStatus.BAD_REQUEST, message)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _is_own(self, scope: "Scope") -> bool:
        address = scope["server"][0]
        given = [value for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1 or not (host := _HOST.fullmatch(given[0].decode("latin-1"))):
            return False
        name = host["name"].strip("[]").lower()
        return name == address or name in self.names or (name == "localhost" and is_loopback(address))


class BodyLimit:
    """Refuses a request body that is too large with 413 (before it is read if its length is announced), and one that stalls with 408."""

    def __init__(self, app: "ASGIApp", most_bytes: int, seconds: float) -> None:
        self.app = app
        self.seconds = seconds
        self.most_bytes = most_bytes
        self._message = f"The request body is larger than {most_bytes:,} bytes; send less at once."

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced[:20]) > self.most_bytes:
            response = error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, {"Connection": "close"})
            await response(scope, receive, send)
            return
        taken, is_complete = 0, False

        async def receive_within_limit() -> "Message":
            nonlocal taken, is_complete
            try:
                message = await asyncio.wait_for(receive(), None if is_complete else self.seconds)
            except TimeoutError:
                raise HTTPException(
                    HTTPStatus.REQUEST_TIMEOUT, "The request body did not arrive in time; send it again.", {"Connection": "close"}
                ) from None
            taken += len(message.get("body", b""))
            is_complete = not message.get("more_body", False)
            if taken > self.most_bytes:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, {"Connection": "close"})
            return message

        await self.app(scope, receive_within_limit, send)
