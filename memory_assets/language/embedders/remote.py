"""Embedders behind HTTP: Ollama (`POST /api/embed`) and services with OpenAI's protocol (`POST {base}/embeddings`)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_assets.arrays import Floats
from memory_assets.http import (
    OVERLOADED,
    BusyError,
    HttpAnswer,
    NoAnswerError,
    Repeat,
    Service,
    ServiceError,
    UnreachableError,
    bearer,
)
from memory_assets.language.embedders import prefixes_of, recorded_name, spec_recorded
from memory_assets.language.embedders.protocol import EmbedderAwayError, EmbedderError, Role, checked_texts, unit_rows

if TYPE_CHECKING:
    from pydantic import SecretStr


OPENAI_DEFAULT_URL = "https://api.openai.com/v1"
MAX_DIMENSION = 16_384
_BACKOFF_SECONDS = 5.0
"""Time without requests after a service timed out or was overloaded; meanwhile `embed` fails with the last error."""

Vector = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, max_length=MAX_DIMENSION)]


class Reply(BaseModel):
    """A service's answer, validated strictly: numbers must be numbers."""

    model_config = ConfigDict(strict=True)


class _OllamaReply(Reply):
    embeddings: list[Vector]


class _OpenAIItem(Reply):
    index: int
    embedding: Vector


class _OpenAIReply(Reply):
    data: list[_OpenAIItem]


Shape = TypeVar("Shape", bound=Reply)


class RemoteEmbedder(ABC):
    """Embeds over HTTP in batches and validates every answer; sends no request before the first text.

    `timeout` is in seconds, from connecting to the last byte of an answer. `repeat` says whether temporary failures are retried,
    `repeated` after which statuses.
    """

    kind: str
    batch_size: int
    away: str
    """Message for a refused or broken connection, with places for `name` and `url`."""
    unknown: str
    """What to do if the service does not know the path or the model."""
    repeat: Repeat = "never"
    repeated = OVERLOADED

    def __init__(self, model: str, url: str, timeout: float, headers: dict[str, str] | None = None) -> None:
        self.name = recorded_name(self.kind, model)
        self._model = model
        self._shown_name = spec_recorded(self.name)
        self._prefixes = prefixes_of(model)
        self._timeout = timeout
        self._dimension: int | None = None
        self._backoff_until = 0.0
        self._last_fault = ""
        try:
            self._service = Service(url, timeout=timeout, headers=headers, repeated=self.repeated)
        except ValueError as error:
            raise EmbedderError(f"Embedder {self._shown_name!r}: {error}; correct the setting.") from None
        self._shown_url = self._service.shown_url

    @property
    def dimension(self) -> int:
        """Length of every vector, learned from the first answer."""
        if self._dimension is None:
            self.embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], role: Role = "document") -> Floats:
        checked = checked_texts(texts, self._shown_name)
        if not checked:
            return np.empty((0, self.dimension), dtype=np.float32)
        prefix = self._prefixes.query if role == "query" else self._prefixes.document
        batches: list[Floats] = []
        for start in range(0, len(checked), self.batch_size):
            batch = [f"{prefix}{text}" for text in checked[start : start + self.batch_size]]
            rows = unit_rows(self._request_vectors(batch), embedder=self._shown_name, count=len(batch), dimension=self._dimension)
            self._dimension = rows.shape[1]
            batches.append(rows)
        return np.concatenate(batches)

    @abstractmethod
    def _request_vectors(self, batch: list[str]) -> list[list[float]]:
        """Return the vectors of a batch."""

    def _ask(self, path: str, batch: list[str], shape: type[Shape]) -> Shape:
        """Call the service and validate its answer. Raises at once while the service is backing off, so that requests do not queue up."""
        if monotonic() < self._backoff_until:
            raise EmbedderAwayError(self._last_fault)
        try:
            answer = self._service.send("POST", path, json={"model": self._model, "input": batch}, repeat=self.repeat)
        except BusyError as busy:
            raise self._back_off(f"asks to wait {busy.seconds:.0f} s before the next request; try again after that.") from None
        except ServiceError as error:
            if error.timed_out:
                raise self._back_off(
                    f"did not answer within {self._timeout:g} s; try again once the model is loaded, or raise EMBEDDING_TIMEOUT."
                ) from None
            is_gone = isinstance(error, UnreachableError | NoAnswerError)
            away = self.away.format(name=self._shown_name, url=self._shown_url)
            raise EmbedderAwayError(away if is_gone else f"Embedder {self._shown_name!r}: {error}") from None
        if answer.status != 200:
            raise self._refused(answer)
        try:
            return shape.model_validate_json(answer.content)
        except ValidationError:
            raise EmbedderError(
                f"Embedder {self._shown_name!r}: {self._shown_url} did not answer with JSON that holds one vector of finite numbers,"
                f" at most {MAX_DIMENSION}, for each text; check that the URL is that of an embedding service and that the model makes"
                " embeddings."
            ) from None

    def _back_off(self, fault: str) -> EmbedderAwayError:
        self._backoff_until = monotonic() + _BACKOFF_SECONDS
        self._last_fault = f"Embedder {self._shown_name!r}: {self._shown_url} {fault}"
        return EmbedderAwayError(self._last_fault)

    def _refused(self, answer: HttpAnswer) -> EmbedderError:
        """Describe an error response by its status only: its body may repeat the API key."""
        hint = {
            **dict.fromkeys((301, 302, 303, 307, 308), "the service is at another address: correct the URL"),
            400: "check that the model makes embeddings and that no text exceeds its context",
            401: "check the API key",
            403: "check the API key and what it may use",
            404: self.unknown.format(model=self._model),
            429: "too many requests: try again later",
        }.get(answer.status, "try again later, and look at the service's own log")
        fault = f"answered with status {answer.status}; {hint}."
        if answer.status in OVERLOADED:
            return self._back_off(fault)
        fault = f"Embedder {self._shown_name!r}: {self._shown_url} {fault}"
        return EmbedderAwayError(fault, failed=True) if answer.failed else EmbedderError(fault)


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with a model of a local or remote Ollama, which truncates texts at the model's context length.

    Requests are not retried: the timeout includes loading the model.
    """

    kind = "ollama"
    batch_size = 32
    away = (
        "Ollama does not answer at {url}; run `ollama serve`, set OLLAMA_URL to where it runs, or choose an embedder that works offline"
        " with MEMORY_EMBEDDER=auto."
    )
    unknown = "run `ollama pull {model}`, or update Ollama to 0.3 or later"

    def _request_vectors(self, batch: list[str]) -> list[list[float]]:
        return self._ask("/api/embed", batch, _OllamaReply).embeddings


class OpenAIEmbedder(RemoteEmbedder):
    """Embeds with a model behind an OpenAI-compatible endpoint.

    Requests are retried if the service is overloaded, fails or breaks the connection; a refused connection or a timeout is reported at
    once. `url` is the base address, usually ending in `/v1`; None means OpenAI's own. Local servers need no key.
    """

    kind = "openai"
    batch_size = 64
    away = "Embedder {name!r}: {url} does not accept connections or breaks them off; check the URL and that the service runs."
    unknown = "check the model's name, and that the URL is the part before /embeddings"
    repeat = "always"
    repeated = OVERLOADED | {500}

    def __init__(self, model: str, *, url: str | None, api_key: "SecretStr | None", timeout: float) -> None:
        if api_key is None and url is None:
            raise EmbedderError(
                f"Embedder 'openai:{model}' needs a key for {OPENAI_DEFAULT_URL}; set OPENAI_API_KEY, or the URL of an"
                " endpoint that needs none."
            )
        try:
            headers = bearer(api_key.get_secret_value(), "OPENAI_API_KEY") if api_key is not None else None
        except ValueError as error:
            raise EmbedderError(f"Embedder 'openai:{model}': {error}; set it to the key alone.") from None
        super().__init__(model, url or OPENAI_DEFAULT_URL, timeout, headers)

    def _request_vectors(self, batch: list[str]) -> list[list[float]]:
        items = self._ask("/embeddings", batch, _OpenAIReply).data
        vectors = {item.index: item.embedding for item in items}
        if vectors.keys() != set(range(len(batch))):
            raise EmbedderError(
                f"Embedder {self._shown_name!r}: {self._shown_url} did not return one indexed vector for each of"
                f" {len(batch)} texts; check that the URL is that of an OpenAI-compatible service."
            )
        return [vectors[position] for position in range(len(batch))]
