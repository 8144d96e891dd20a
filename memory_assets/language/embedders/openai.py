"""Any endpoint that speaks OpenAI's embeddings protocol (`POST {base}/embeddings`)."""

from typing import TYPE_CHECKING

from memory_assets.http import OVERLOADED
from memory_assets.language.embedders.prefixes import prefixes_of, recorded_name
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.embedders.remote import RemoteEmbedder, Reply, Vector

if TYPE_CHECKING:
    from pydantic import SecretStr

OPENAI_DEFAULT_URL = "https://api.openai.com/v1"
_BATCH_SIZE = 64


class _Item(Reply):
    index: int
    embedding: Vector


class _Embeddings(Reply):
    data: list[_Item]


class OpenAIEmbedder(RemoteEmbedder):
    """Embeds with a model behind an OpenAI-compatible endpoint.

    A request that the service was too busy for, failed on or broke off is sent again; a refused connection or a timeout is reported at
    once.

    Args:
        model: The model's name at the endpoint.
        url: Base address, usually ending in `/v1`; None means OpenAI's own.
        api_key: Sent as a bearer token; None sends no such header, as local servers need none.
        timeout: Seconds that one try may take.
    """

    def __init__(self, model: str, *, url: str | None, api_key: "SecretStr | None", timeout: float) -> None:
        name = recorded_name("openai", model)
        if api_key is None and url is None:
            raise EmbedderError(
                f"Embedder 'openai:{model}' needs a key for {OPENAI_DEFAULT_URL}; set OPENAI_API_KEY, or the URL of an"
                " endpoint that needs none."
            )
        headers: dict[str, str] = {}
        if api_key is not None:
            key = api_key.get_secret_value().strip()
            if not key.isascii() or not key.isprintable() or " " in key or not key:
                raise EmbedderError(
                    f"Embedder 'openai:{model}': the API key is empty or holds characters that no HTTP header may carry;"
                    " set OPENAI_API_KEY to the key alone."
                )
            headers["Authorization"] = f"Bearer {key}"
        super().__init__(
            name,
            prefixes_of(model),
            url or OPENAI_DEFAULT_URL,
            timeout=timeout,
            batch_size=_BATCH_SIZE,
            headers=headers,
            repeat="always",
            repeated=OVERLOADED | {500},
        )
        self._model = model

    def _request_vectors(self, batch: list[str]) -> list[list[float]]:
        items = self._ask("/embeddings", {"model": self._model, "input": batch}, _Embeddings).data
        vectors = {item.index: item.embedding for item in items}
        if vectors.keys() != set(range(len(batch))):
            raise EmbedderError(
                f"Embedder {self._shown_name!r}: {self._shown_url} did not return one indexed vector for each of"
                f" {len(batch)} texts; check that the URL is that of an OpenAI-compatible service."
            )
        return [vectors[position] for position in range(len(batch))]

    def _away(self) -> str:
        return (
            f"Embedder {self._shown_name!r}: {self._shown_url} does not accept connections or breaks them off; check the URL and that the"
            " service runs."
        )
