"""One HTTP service as a client of it sees it: what remote embedders and Tana share."""

import asyncio
import ipaddress
import os
import weakref
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

    import httpx

_CONNECT_TIMEOUT_S = 10.0


class Service:
    """A service at a base URL, asked once a call; what is tried again is the caller's business.

    Args:
        base_url: http or https, without the path of a call. A password in it travels as authentication, because httpx logs URLs.
        timeout: seconds that one request may take, from connecting to the last byte of the answer, however it trickles.
        headers: sent with every request.
        transport: what carries requests instead of the network.

    Raises:
        ValueError: the URL is not an http or https address with a host.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout: float,
        headers: dict[str, str] | None = None,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        import httpx

        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in {"http", "https"} or not url.host:
            raise ValueError("the service's URL is not an http or https address with a host")
        credentials = (url.username, url.password) if url.userinfo else None
        url = url.copy_with(userinfo=b"")
        self.timeout = timeout
        self.shown_url = str(url).rstrip("/")
        """The address without credentials, for messages."""
        # A proxy from the environment must not stand between this process and its own machine.
        self._client = httpx.AsyncClient(
            base_url=url,
            auth=credentials,
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            headers=headers,
            trust_env=not _is_loopback(url.host),
            transport=transport,
        )
        weakref.finalize(self, _close, self._client)

    def send(
        self, method: str, path: str, *, json: object = None, params: dict[str, str] | None = None, timeout: float | None = None
    ) -> "httpx.Response":
        """Ask, and wait for the answer.

        Raises:
            TimeoutError: it was not there as a whole within the timeout.
            httpx.TransportError: there is no connection, or it broke.
        """
        return self.begin(method, path, json=json, params=params, timeout=timeout).result()

    def begin(
        self, method: str, path: str, *, json: object = None, params: dict[str, str] | None = None, timeout: float | None = None
    ) -> "Future[httpx.Response]":
        """Ask without waiting; the future's result is that of `send`."""

        async def ask() -> "httpx.Response":
            async with asyncio.timeout(timeout or self.timeout):
                return await self._client.request(method, path, json=json, params=params)

        return _run(ask())


def _run(work: "Coroutine[Any, Any, Any]") -> "Future[Any]":
    return asyncio.run_coroutine_threadsafe(work, _event_loop())


@lru_cache(maxsize=1)
def _event_loop() -> asyncio.AbstractEventLoop:
    """Where all requests run: httpx's own timeouts bound each read, and only a loop bounds them together."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="http", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_event_loop.cache_clear)


def _close(client: "httpx.AsyncClient") -> None:
    _run(client.aclose())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
