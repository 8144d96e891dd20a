"""Middleware before the routes: request id, metrics, log line, host check and body limit; API keys and rate limits.

Without a valid key nobody learns whether a tenant exists: an unknown tenant, an impossible name, an unknown key, another tenant's
key and a revoked key take the same code path and get the same answer.
"""

import asyncio
import json
import logging
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_assets.api.errors import REQUEST_ID_HEADER, begin_request, error_response
from memory_assets.api.shared import SharedRecords
from memory_assets.errors import InvalidInputError
from memory_assets.privacy import refuse_link
from memory_assets.settings import Settings
from memory_assets.stores.access_log import recalled_by
from memory_assets.stores.keys import Key, KeyStore
from memory_assets.tenants import open_states, validate_tenant

KEY_HEADER = "X-API-Key"
LOST_FOLDER = "store: the data folder cannot be read and written."
_NO_TENANT = "-"
_log = logging.getLogger("memory_assets.api.access")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d+)?", re.ASCII)
_SECONDS_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
_COUNTS_BYTES = 1 << 18
"""Room for the counts of a process: more than all routes need."""
_MAX_BUCKETS = 4_096
"""Keys whose rate is counted. The least recently used bucket, which makes room, is mostly full again."""
_BUCKET_BYTES = 64
_SLOWEST = 1_000
"""Bytes a second that a body must bring once its first seconds are over."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class _CountsFile(MmapedDict):
    """A file of counts with room for them: a full disk kills a process that writes into a mapped file without.

    If the file cannot be made, its process counts in memory, and `/metrics` lacks these counts.
    """

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        path = Path(filename)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileExistsError), path.open("xb") as file:
                file.write(bytes(_COUNTS_BYTES))
        except OSError:
            with suppress(OSError):
                path.unlink()
            filename = f"/proc/self/fd/{os.memfd_create(path.name)}"
        super().__init__(filename, read_mode)


class Metrics:
    """Prometheus metrics of one service: totals by route, never a tenant's name or a memory's text."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, folder: Path | None = None) -> None:
        """Count in this process alone, or in files of an empty `folder` for all processes forked from it."""
        self._folder = folder
        self._registry = CollectorRegistry()
        if folder:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
            values.MmapedDict = _CountsFile  # pyright: ignore[reportPrivateImportUsage]
            values.ValueClass = values.MultiProcessValue()
            MultiProcessCollector(self._registry, str(folder))
            self._registry.register(_ServiceProcesses(os.getpid()))
        else:
            ProcessCollector(registry=self._registry)
        registry = None if folder else self._registry
        self.requests = Counter("memory_requests", "Requests answered.", ["method", "route", "status"], registry=registry)
        self.seconds = Histogram(
            "memory_request_seconds", "Time to the answer.", ["method", "route"], buckets=_SECONDS_BUCKETS, registry=registry
        )
        self.in_flight = Gauge(
            "memory_requests_in_flight", "Requests being served.", registry=registry, multiprocess_mode="livesum"
        )
        self.commit_size = Histogram("memory_commit_size", "Memories per commit.", buckets=(1, 2, 4, 8, 16), registry=registry)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)

    def forget_process(self, pid: int) -> None:
        """Remove an ended process's requests from the count of requests in flight."""
        if self._folder:
            mark_process_dead(pid, str(self._folder))


class _ServiceProcesses:
    """Collects sums of `ProcessCollector` values, and the first start time. Proportional set sizes count shared memory once."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def collect(self) -> Iterable[Metric]:
        pids = [self._parent]
        with suppress(OSError):
            pids += map(int, Path(f"/proc/{self._parent}/task/{self._parent}/children").read_text(encoding="ascii").split())
        found: dict[str, list[Metric]] = {}
        for pid in pids:
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():
                found.setdefault(metric.name, []).append(metric)
        for name, (metric, *others) in found.items():
            join = min if name.endswith(("start_time_seconds", "max_fds")) else sum
            total = join(each.samples[0].value for each in (metric, *others))
            if name == "process_resident_memory_bytes":
                with suppress(OSError):
                    shared = (Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii") for pid in pids)
                    total = sum(
                        1024.0 * int(line.split()[1]) for each in shared for line in each.splitlines() if line[:4] == "Pss:"
                    )
            metric.samples = [metric.samples[0]._replace(value=total)]
            yield metric


class _Middleware(ABC):
    """Base of middleware for HTTP requests."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.serve if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class RequestRecord(_Middleware):
    """Gives each request an id, returned in a header, and counts and logs the result."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self.metrics = metrics

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        number, begun = begin_request(), time.perf_counter()
        recalled_by.set("http")
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = number
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


class HostCheck(_Middleware):
    """Rejects a request for another host with 400, against DNS rebinding.

    A web page can make its own host name resolve to this machine, but the browser then sends that name. Starlette's
    TrustedHostMiddleware knows neither the address of the connection nor this service's error format.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        super().__init__(app)
        self.names = frozenset(name.lower() for name in names)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_own(scope):
            message = (
                "The Host header names another host; ask for this service's address, or name the host in MEMORY_ALLOWED_HOSTS."
            )
            await error_response(HTTPStatus.BAD_REQUEST, message)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        address = scope["server"][0]
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not (host := _HOST.fullmatch(hosts[0].decode("latin-1"))):
            return False
        name = host["name"].strip("[]").lower()
        return name == address or name in self.names or (name == "localhost" and is_loopback(address))


class BodyLimit(_Middleware):
    """Rejects an oversized body with 413 (before reading it if its length is announced) and a slow one with 408."""

    def __init__(self, app: ASGIApp, most_bytes: int, seconds: float) -> None:
        super().__init__(app)
        self.seconds = seconds
        self.most_bytes = most_bytes
        self._message = f"The request body is larger than {most_bytes:,} bytes; send less at once."

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced[:20]) > self.most_bytes:
            response = error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, {"Connection": "close"})
            await response(scope, receive, send)
            return
        taken, is_complete, begun = 0, False, 0.0

        async def receive_within_limit() -> Message:
            nonlocal taken, is_complete, begun
            begun = begun or time.monotonic()
            left = begun + self.seconds + taken / _SLOWEST - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), None if is_complete else left)
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


def authorise(settings: Settings, tenant: str, key: str) -> Key:
    """Return the stored key if `key` opens `tenant`. Raise HTTPException 401 if it does not, 503 if the data folder is gone."""
    try:
        name = validate_tenant(tenant)
    except InvalidInputError:
        name = _NO_TENANT
    refuse_link(settings.tenant_dir(name))
    found = KeyStore(open_states(settings).open(name)).find(key)
    if found is None and not settings.data_dir.is_dir():
        raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, LOST_FOLDER)
    if found is None:
        raise HTTPException(
            HTTPStatus.UNAUTHORIZED,
            f"Unauthorized: send a key of this tenant in the header {KEY_HEADER}.",
            {"WWW-Authenticate": "ApiKey"},
        )
    return found


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an IP address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


class RateLimit:
    """Token bucket per key, shared by all processes forked from this one."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._buckets = SharedRecords(_MAX_BUCKETS, _BUCKET_BYTES)

    def take(self, key: Key) -> None:
        """Count one request; raise HTTPException 429 if the key has used up its requests."""
        if not self._per_minute:
            return
        now, left = time.monotonic(), 0.0

        def fill_and_take(bucket: bytes) -> bytes:
            nonlocal left
            left, filled_at = json.loads(bucket) if bucket else (self._per_minute, now)
            left = min(self._per_minute, left + (now - filled_at) * self._per_minute / 60)
            return json.dumps([left - 1, now]).encode() if left >= 1 else bucket

        self._buckets.change(key.id, fill_and_take)
        if left < 1:
            seconds = math.floor((1 - left) * 60 / self._per_minute) + 1
            raise HTTPException(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"This key may make {self._per_minute} requests a minute; try again in {seconds} s.",
                {"Retry-After": str(seconds)},
            )
