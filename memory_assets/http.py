"""The one HTTP client: deadlines, retries, proxies and the largest size of an answer.

Remote embedders, chat models, Tana and the time zone's look-up use it; no other module makes HTTP requests.
"""

import asyncio
import os
import random
import socket
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from memory_assets.errors import MemoryAssetsError

if TYPE_CHECKING:
    import httpx

Repeat = Literal["always", "if not begun", "never"]
"""Whether a request may be sent again: it is idempotent, only if the service surely did nothing, or not at all."""

OVERLOADED = frozenset({429, 502, 503, 504})
"""Statuses that a retry may change."""
_NOT_BEGUN = frozenset({429, 503})
"""Statuses among them after which the service has done nothing."""
_TRIES = 5
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_CONNECT_TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 64 << 20
"""Answers must not be compressed: a few bytes could decode to any number before they can be counted."""


class ServiceError(MemoryAssetsError):
    """A service gave no answer, or one that this client does not read; `timed_out` says whether the deadline passed."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class UnreachableError(ServiceError):
    """No connection could be made; nothing was sent."""


class NoAnswerError(ServiceError):
    """The request was sent, but no whole answer came: the service may have carried it out."""


class BusyError(ServiceError):
    """The service asks for a wait of `seconds`, which is longer than this client waits."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with any status."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def failed(self) -> bool:
        return self.status >= 500

    @property
    def text(self) -> str:
        """Return the content decoded as one line of at most 200 characters."""
        return " ".join(self.content[:1_000].decode("utf-8", "replace").split())[:200]


class Service:
    """A service at a base URL.

    Args:
        base_url: An http or https URL. Its password is sent as authentication, because httpx logs URLs.
        timeout: Seconds that a request may take, from connecting to the last byte of the answer, with its retries and their waits.
        headers: Headers of every request.
        repeated: Statuses after which a request is retried.

    Raises:
        ValueError: The URL is not an http or https address with a host, or the environment's proxies cannot be used.
    """

    def __init__(
        self, base_url: str, *, timeout: float, headers: dict[str, str] | None = None, repeated: frozenset[int] = OVERLOADED
    ) -> None:
        import httpx

        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in {"http", "https"} or not url.host or (url.port or 0) >= 1 << 16:
            raise ValueError("the service's URL is not an http or https address with a host")
        address, is_https, is_here = url.copy_with(userinfo=b""), url.scheme == "https", _is_this_machine(url.host)

        def open_client() -> httpx.AsyncClient:  # a closure, so that no `repr` of a service shows its secrets
            return httpx.AsyncClient(
                base_url=address,
                auth=(url.username, url.password) if url.userinfo else None,
                timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
                headers={"Accept-Encoding": "identity", **(headers or {})},
                transport=httpx.AsyncHTTPTransport(verify=is_https) if is_here else None,  # no proxy for requests to this machine
                verify=is_https,  # loading the certificates takes 15 ms
            )

        self._open_client = open_client
        self._repeated = repeated
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the client: of the first request. Until then there is no thread, because the process may fork."""
        try:
            self._client = open_client()
        except (ImportError, ValueError, httpx.InvalidURL):
            raise ValueError("HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY has a form that httpx cannot use") from None
        self.timeout = timeout
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.shown_url = str(address).rstrip("/")
        """The address without credentials, for messages."""

    def send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: dict[str, str] | None = None,
        timeout: float | None = None,
        repeat: Repeat = "never",
    ) -> HttpAnswer:
        """Send a request and wait for its answer, at most `timeout` seconds (default: the service's timeout).

        Raises:
            ServiceError: No answer came.
        """
        asking = self._answer(timeout or self.timeout, repeat, method, path, json=json, params=params)
        return asyncio.run_coroutine_threadsafe(asking, _event_loop()).result()

    async def _answer(self, timeout: float, repeat: Repeat, method: str, path: str, **given: Any) -> HttpAnswer:
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                return await self._retry(deadline, repeat, method, path, **given)
        except TimeoutError:
            raise NoAnswerError(
                f"{self.shown_url} did not answer within {timeout:g} s; try again later.", timed_out=True
            ) from None

    async def _retry(self, deadline: float, repeat: Repeat, method: str, path: str, **given: Any) -> HttpAnswer:
        """Send at most `_TRIES` times, until an answer is final or the next wait would pass the deadline."""
        repeated = {"always": self._repeated, "if not begun": _NOT_BEGUN, "never": frozenset()}[repeat]
        clock = asyncio.get_running_loop().time
        for number in range(1, _TRIES):
            wait = random.uniform(0, _FIRST_WAIT_S * 2 ** (number - 1))  # noqa: S311 - jitter
            try:
                answer = await self._send_once(method, path, **given)
            except NoAnswerError:
                if repeat != "always" or wait > deadline - clock():
                    raise
            else:
                if answer.status not in repeated:
                    return answer
                asked, left = _retry_after_seconds(answer), deadline - clock()
                if asked is not None and asked > min(left, _LONGEST_WAIT_S):
                    raise BusyError(f"{self.shown_url} asks to wait {asked:.0f} s; try again after that.", asked)
                wait = wait if asked is None else asked
                if wait > left:
                    return answer
            await self.sleep(wait)
        return await self._send_once(method, path, **given)

    async def _send_once(self, method: str, path: str, **given: Any) -> HttpAnswer:
        import httpx

        try:
            async with self._connect().stream(method, path, **given) as response:
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise ServiceError(f"{self.shown_url} sends a compressed answer, which this client never asks for.")
                content = bytearray()
                async for piece in response.aiter_raw():
                    content += piece
                    if len(content) > _MAX_ANSWER_BYTES:
                        raise ServiceError(f"{self.shown_url} answers with more than {_MAX_ANSWER_BYTES >> 20} MB.")
                return HttpAnswer(response.status_code, response.headers, bytes(content))
        except (httpx.ConnectTimeout, httpx.ConnectError) as error:
            timed_out = isinstance(error, httpx.ConnectTimeout)
            raise UnreachableError(f"{self.shown_url} does not accept connections; start it.", timed_out=timed_out) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise NoAnswerError(f"{self.shown_url} broke off the connection; try again later.") from None

    def _connect(self) -> "httpx.AsyncClient":
        """Return the client of this process's event loop; a fork has another loop."""
        loop = _event_loop()
        if self._loop is not loop:
            if self._loop:
                self._client = self._open_client()
            self._loop = loop
            weakref.finalize(self, _close, self._client, loop)
        return self._client


def bearer(key: str, setting: str) -> dict[str, str]:
    """Return the header that carries a key.

    Raises:
        ValueError: No header can carry it; the message names its setting.
    """
    key = key.strip()
    if not key or " " in key or not (key.isascii() and key.isprintable()):
        raise ValueError(f"{setting} is empty or has characters that HTTP headers cannot carry")
    return {"Authorization": f"Bearer {key}"}


@lru_cache(maxsize=1)
def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop on which all requests run. It bounds a whole request; httpx's own timeouts bound single reads only."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_event_loop.cache_clear)


def _close(client: "httpx.AsyncClient", loop: asyncio.AbstractEventLoop) -> None:
    if loop is _event_loop():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


def _retry_after_seconds(answer: HttpAnswer) -> float | None:
    """Read a `Retry-After` header: seconds or an HTTP date (RFC 9110, section 10.2.3)."""
    value = answer.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    with suppress(ValueError, TypeError):
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None


def _is_this_machine(host: str) -> bool:
    """Return whether a host is this machine's name or an address of it, in any spelling. No name is looked up: that may take long."""
    name = host.rstrip(".").lower()
    if f".{name}".endswith(".localhost") or name == socket.gethostname().lower():
        return True
    with suppress(OSError, UnicodeError):
        family, kind, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind) as own:
            own.bind(address)  # only an address of this machine can be bound
            return True
    return False
