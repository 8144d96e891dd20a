"""Any endpoint that speaks OpenAI's embeddings protocol (`POST {base}/embeddings`)."""

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from memory_assets.language.embedders.prefixes import prefixes_of, recorded_name
from memory_assets.language.embedders.protocol import EmbedderAwayError, EmbedderError
from memory_assets.language.embedders.remote import RemoteEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from pydantic import SecretStr

OPENAI_DEFAULT_URL = "https://api.openai.com/v1"
_BATCH_SIZE = 64
_ATTEMPTS = 5
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0


class OpenAIEmbedder(RemoteEmbedder):
    """Embeds with a model behind an OpenAI-compatible endpoint.

    Answers 429 and 5xx and broken connections are tried again, up to five attempts in all, after the time that
    `Retry-After` asks for, of at most 30 s, or else a random part of a wait that doubles from half a second. A
    refused connection or a timeout is reported at once.

    Args:
        model: The model's name at the endpoint.
        url: Base address, usually ending in `/v1`.
        api_key: Sent as a bearer token; None sends no such header, as local servers need none.
        timeout: Seconds that one attempt may take.
        sleep: Waits that many seconds; tests pass their own.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str | None,
        api_key: "SecretStr | None",
        timeout: float,
        sleep: "Callable[[float], None]" = time.sleep,
    ) -> None:
        name = recorded_name("openai", model)
        if api_key is None and url is None:
            raise EmbedderError(
                f"Embedder {name!r} needs a key for {OPENAI_DEFAULT_URL}; set OPENAI_API_KEY, or the URL of an"
                " endpoint that needs none."
            )
        headers: dict[str, str] = {}
        if api_key is not None:
            key = api_key.get_secret_value().strip()
            if not key.isascii() or not key.isprintable() or " " in key or not key:
                raise EmbedderError(
                    f"Embedder {name!r}: the API key is empty or holds characters that no HTTP header may carry;"
                    " set OPENAI_API_KEY to the key alone."
                )
            headers["Authorization"] = f"Bearer {key}"
        super().__init__(
            name, prefixes_of(model), url or OPENAI_DEFAULT_URL, timeout=timeout, batch_size=_BATCH_SIZE, headers=headers
        )
        self._model = model
        self._sleep = sleep

    def _request_vectors(self, batch: list[str]) -> object:
        response = self._post_with_retries({"model": self._model, "input": batch})
        data = self._decoded(response).get("data")
        vectors: dict[int, object] = {}
        if isinstance(data, list):
            vectors = {
                item["index"]: item.get("embedding")
                for item in data
                if isinstance(item, dict) and isinstance(item.get("index"), int)
            }
        if vectors.keys() != set(range(len(batch))):
            raise EmbedderError(
                f"Embedder {self.name!r}: {self._shown_url} did not return one indexed vector for each of"
                f" {len(batch)} texts; check that the URL is that of an OpenAI-compatible service."
            )
        return [vectors[position] for position in range(len(batch))]

    def _post_with_retries(self, payload: dict[str, object]) -> "httpx.Response":
        import httpx

        attempt = 0
        while True:
            attempt += 1
            response = self._try(payload)
            if response is not None and response.status_code == httpx.codes.OK:
                return response
            transient = response is None or response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error
            if transient and attempt < _ATTEMPTS:
                self._sleep(self._delay(attempt, response))
            elif response is not None:
                raise self._refused(response)
            else:
                raise EmbedderAwayError(
                    f"Embedder {self.name!r}: {self._shown_url} broke off the connection {attempt} times; try again later."
                )

    def _try(self, payload: dict[str, object]) -> "httpx.Response | None":
        """Ask once; None if the connection broke, as then it may be asked again."""
        import httpx

        try:
            return self._post("/embeddings", payload)
        except httpx.ConnectError:
            raise EmbedderAwayError(
                f"Embedder {self.name!r}: {self._shown_url} does not accept connections; check the URL and that the service runs."
            ) from None
        except httpx.TransportError:
            return None

    def _delay(self, attempt: int, response: "httpx.Response | None") -> float:
        """Seconds to wait after a failed attempt: what the service asks for, else doubling waits with full jitter."""
        asked = _retry_after_seconds(response.headers.get("Retry-After")) if response is not None else None
        if asked is None:
            return random.uniform(0, min(_FIRST_DELAY_S * 2 ** (attempt - 1), _LONGEST_DELAY_S))  # noqa: S311 - jitter
        if asked > _LONGEST_DELAY_S:
            raise self._resting(
                f"Embedder {self.name!r}: {self._shown_url} asks to wait {asked:.0f} s before the next request; try again"
                " after that."
            )
        return asked


def _retry_after_seconds(value: str | None) -> float | None:
    """Read a `Retry-After` header: seconds or an HTTP date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
