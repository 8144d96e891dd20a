"""Ollama's embedding endpoint (`POST /api/embed`), by default with `nomic-embed-text`."""

from memory_assets.http import HttpAnswer
from memory_assets.language.embedders.prefixes import prefixes_of, recorded_name
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.embedders.remote import RemoteEmbedder, Reply, Vector

_BATCH_SIZE = 32


class _Embeddings(Reply):
    embeddings: list[Vector]


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with a model that a local or remote Ollama serves.

    Ollama cuts a text at the model's context length. Nothing is retried: a model that is being loaded is
    waited for within the one timeout.
    """

    def __init__(self, model: str, *, url: str, timeout: float) -> None:
        name = recorded_name("ollama", model)
        super().__init__(name, prefixes_of(model), url, timeout=timeout, batch_size=_BATCH_SIZE)
        self._model = model

    def _request_vectors(self, batch: list[str]) -> list[list[float]]:
        return self._ask("/api/embed", {"model": self._model, "input": batch}, _Embeddings).embeddings

    def _refused(self, answer: HttpAnswer) -> EmbedderError:
        """Ollama tells of a missing model in JSON; one before 0.3 does not know the path, and says so in plain text."""
        if answer.status != 404:
            return super()._refused(answer)
        if answer.headers.get("Content-Type", "").startswith("application/json"):
            return EmbedderError(
                f"Ollama at {self._shown_url} does not have the model {self._model!r}; run `ollama pull {self._model}`."
            )
        return EmbedderError(
            f"What answers at {self._shown_url} does not know /api/embed; update Ollama to 0.3 or later, or set OLLAMA_URL to"
            " where it runs."
        )

    def _away(self) -> str:
        return (
            f"Ollama does not answer at {self._shown_url}; run `ollama serve`, set OLLAMA_URL to where it runs, or"
            " choose an embedder that works offline with MEMORY_EMBEDDER=auto."
        )
