"""What the embedders behind HTTP share: the client, batches, the learned dimension, readable failures."""

import asyncio
import ipaddress
import os
import weakref
from abc import ABC, abstractmethod
from functools import lru_cache
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.prefixes import Prefixes
from memory_assets.language.embedders.protocol import EmbedderAwayError, EmbedderError, checked_texts, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Role

_CONNECT_TIMEOUT_S = 10.0
_REST_S = 5.0


class RemoteEmbedder(ABC):
    """Embeds over HTTP in batches, checking every answer; nothing is asked before the first text.

    Args:
        name: Recorded in rows and used in messages.
        prefixes: What the model wants before questions and documents.
        base_url: Where the service lives, without the path of the embedding call.
        timeout: Seconds that one request may take, from connecting to the last byte of the answer.
        batch_size: Most texts in one request.
        headers: Sent with every request.
    """

    def __init__(
        self,
        name: str,
        prefixes: Prefixes,
        base_url: str,
        *,
        timeout: float,
        batch_size: int,
        headers: dict[str, str] | None = None,
    ) -> None:
        import httpx

        self.name = name
        self._prefixes = prefixes
        self._timeout = timeout
        self._batch_size = batch_size
        self._dimension: int | None = None
        self._rests_until = 0.0
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in {"http", "https"} or not url.host:
            raise EmbedderError(
                f"Embedder {name!r}: the service's URL is not an http or https address with a host; mend the setting."
            )
        # httpx logs every URL it asks, so a password in one travels as authentication instead.
        credentials = (url.username, url.password) if url.userinfo else None
        url = url.copy_with(userinfo=b"")
        self._shown_url = str(url).rstrip("/")
        # A proxy from the environment must not stand between this process and its own machine.
        self._client = httpx.AsyncClient(
            base_url=url,
            auth=credentials,
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            headers=headers,
            trust_env=not _is_loopback(url.host),
        )
        weakref.finalize(self, _close, self._client)

    def __repr__(self) -> str:
        """Name and address, never a credential."""
        return f"{type(self).__name__}(name={self.name!r}, url={self._shown_url!r})"

    @property
    def dimension(self) -> int:
        """Length of every vector, learned from the first answer.

        Raises:
            EmbedderError: The service cannot be asked.
        """
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "npt.NDArray[np.float32]":
        """Embed texts; see `Embedder.embed`."""
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        prefix = self._prefixes.query if role == "query" else self._prefixes.document
        batches: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(checked), self._batch_size):
            batch = [f"{prefix}{text}" for text in checked[start : start + self._batch_size]]
            rows = unit_rows(self._request_vectors(batch), embedder=self.name, count=len(batch), dimension=self._dimension)
            self._dimension = rows.shape[1]
            batches.append(rows)
        return np.concatenate(batches)

    @abstractmethod
    def _request_vectors(self, batch: list[str]) -> object:
        """Ask the service for one batch; what it returns goes through `unit_rows`."""

    def _post(self, path: str, payload: dict[str, object]) -> "httpx.Response":
        """Ask once. A service that has just let a request wait in vain is not asked, so that many requests do not wait in a row.

        Raises:
            EmbedderError: the answer was not there as a whole within the timeout, however it trickled.
            httpx.TransportError: there is no connection, or it broke.
        """
        if monotonic() < self._rests_until:
            raise self._timeout_error()
        try:
            return asyncio.run_coroutine_threadsafe(self._asked(path, payload), _event_loop()).result()
        except TimeoutError:
            self._rests_until = monotonic() + _REST_S
            raise self._timeout_error() from None

    async def _asked(self, path: str, payload: dict[str, object]) -> "httpx.Response":
        async with asyncio.timeout(self._timeout):
            return await self._client.post(path, json=payload)

    def _timeout_error(self) -> EmbedderAwayError:
        return EmbedderAwayError(
            f"Embedder {self.name!r}: {self._shown_url} did not answer within {self._timeout:g} s; try again once"
            " the model is loaded, or raise EMBEDDING_TIMEOUT."
        )

    def _refused(self, response: "httpx.Response") -> EmbedderError:
        """Describe an answer that is not 200 by its status alone: a body may repeat the key it was sent."""
        hint = {
            400: "check that the model makes embeddings and that no text exceeds its context",
            401: "check the API key",
            403: "check the API key and what it may use",
            404: "check the model's name, and that the URL is the part before /embeddings",
            429: "too many requests: try again later",
        }.get(response.status_code, "try again later, and look at the service's own log")
        kind = EmbedderAwayError if response.status_code == 429 or response.is_server_error else EmbedderError
        return kind(f"Embedder {self.name!r}: {self._shown_url} answered with status {response.status_code}; {hint}.")

    def _decoded(self, response: "httpx.Response") -> dict[str, object]:
        try:
            decoded = response.json()
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise EmbedderError(
                f"Embedder {self.name!r}: {self._shown_url} answered with something other than a JSON object;"
                " check that the URL is that of an embedding service."
            )
        return decoded


@lru_cache(maxsize=1)
def _event_loop() -> asyncio.AbstractEventLoop:
    """Where the requests of all remote embedders run: httpx's own timeouts bound each read, and only a loop bounds them together."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="remote-embedders", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_event_loop.cache_clear)


def _close(client: "httpx.AsyncClient") -> None:
    asyncio.run_coroutine_threadsafe(client.aclose(), _event_loop())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
