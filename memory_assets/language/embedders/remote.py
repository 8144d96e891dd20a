"""What the embedders behind HTTP share: the client, batches, the learned dimension, readable failures."""

from abc import ABC, abstractmethod
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.http import Service
from memory_assets.language.embedders.prefixes import Prefixes
from memory_assets.language.embedders.protocol import EmbedderAwayError, EmbedderError, checked_texts, unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    import numpy.typing as npt

    from memory_assets.language.embedders.protocol import Role

_REST_S = 5.0
"""How long a service is left alone that was waited for in vain, and each request answered with what the last one met."""
_OVERLOADED = frozenset({429, 502, 503, 504})
"""Answers that any text would get; 500 may be the fault of one."""


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
        self.name = name
        self._prefixes = prefixes
        self._timeout = timeout
        self._batch_size = batch_size
        self._dimension: int | None = None
        self._rests_until = 0.0
        self._last_fault = ""
        try:
            self._service = Service(base_url, timeout=timeout, headers=headers)
        except ValueError as error:
            raise EmbedderError(f"Embedder {self.name!r}: {error}; mend the setting.") from None
        self._shown_url = self._service.shown_url

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
        """Ask once. A service that rests is not asked, so that many requests do not wait in a row.

        Raises:
            EmbedderAwayError: the answer was not there as a whole within the timeout, however it trickled; or the service rests.
            httpx.TransportError: there is no connection, or it broke.
        """
        import httpx

        if monotonic() < self._rests_until:
            raise EmbedderAwayError(self._last_fault)
        try:
            return self._service.send("POST", path, json=payload)
        except (TimeoutError, httpx.ConnectTimeout):
            raise self._resting(
                f"Embedder {self.name!r}: {self._shown_url} did not answer within {self._timeout:g} s; try again once"
                " the model is loaded, or raise EMBEDDING_TIMEOUT."
            ) from None

    def _resting(self, fault: str) -> EmbedderAwayError:
        """Let a service rest that was waited for in vain."""
        self._rests_until, self._last_fault = monotonic() + _REST_S, fault
        return EmbedderAwayError(fault)

    def _refused(self, response: "httpx.Response") -> EmbedderError:
        """Describe an answer that is not 200 by its status alone: a body may repeat the key it was sent."""
        hint = {
            400: "check that the model makes embeddings and that no text exceeds its context",
            401: "check the API key",
            403: "check the API key and what it may use",
            404: "check the model's name, and that the URL is the part before /embeddings",
            429: "too many requests: try again later",
        }.get(response.status_code, "try again later, and look at the service's own log")
        fault = f"Embedder {self.name!r}: {self._shown_url} answered with status {response.status_code}; {hint}."
        if response.status_code in _OVERLOADED:
            return self._resting(fault)
        return EmbedderAwayError(fault) if response.is_server_error else EmbedderError(fault)

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
