"""Ollama's embedding endpoint (`POST /api/embed`), by default with `nomic-embed-text`."""

from typing import TYPE_CHECKING

from memory_assets.language.embedders.prefixes import prefixes_of, recorded_name
from memory_assets.language.embedders.protocol import EmbedderAwayError, EmbedderError
from memory_assets.language.embedders.remote import RemoteEmbedder

if TYPE_CHECKING:
    import httpx

_BATCH_SIZE = 32


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with a model that a local or remote Ollama serves.

    Ollama cuts a text at the model's context length. Nothing is retried: a model that is being loaded is
    waited for within the one timeout.
    """

    def __init__(self, model: str, *, url: str, timeout: float) -> None:
        name = recorded_name("ollama", model)
        super().__init__(name, prefixes_of(model), url, timeout=timeout, batch_size=_BATCH_SIZE)
        self._model = model

    def _request_vectors(self, batch: list[str]) -> object:
        import httpx

        try:
            response = self._post("/api/embed", {"model": self._model, "input": batch})
        except httpx.TransportError:
            raise self._away() from None
        if response.status_code == httpx.codes.NOT_FOUND:
            raise self._not_found(response)
        if response.status_code != httpx.codes.OK:
            raise self._refused(response)
        return self._decoded(response).get("embeddings")

    def _not_found(self, response: "httpx.Response") -> EmbedderError:
        """A missing model is told in JSON; an Ollama before 0.3 does not know the path, and says so in plain text."""
        if response.headers.get("Content-Type", "").startswith("application/json"):
            return EmbedderError(
                f"Ollama at {self._shown_url} does not have the model {self._model!r}; run `ollama pull {self._model}`."
            )
        return EmbedderError(
            f"What answers at {self._shown_url} does not know /api/embed; update Ollama to 0.3 or later, or set OLLAMA_URL to"
            " where it runs."
        )

    def _away(self) -> EmbedderAwayError:
        return EmbedderAwayError(
            f"Ollama does not answer at {self._shown_url}; run `ollama serve`, set OLLAMA_URL to where it runs, or"
            " choose an embedder that works offline with MEMORY_EMBEDDER=auto."
        )
