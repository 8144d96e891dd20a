"""Texts to vectors: one protocol, and one embedder behind it for each way of getting vectors.

What cannot be opened or embedded raises `EmbedderError`; its message names the embedder and the mend.
"""

from typing import TYPE_CHECKING

from memory_assets.language.embedders.choice import EmbedderChoice, describe_choice, spec_in_use, spec_to_move_to
from memory_assets.language.embedders.protocol import Embedder, EmbedderError

if TYPE_CHECKING:
    from pydantic import SecretStr

__all__ = [
    "Embedder",
    "EmbedderChoice",
    "EmbedderError",
    "describe_choice",
    "open_embedder",
    "spec_in_use",
    "spec_to_move_to",
]


def open_embedder(
    spec: str,
    *,
    ollama_url: str = "http://localhost:11434",
    openai_url: str | None = None,
    openai_api_key: "SecretStr | None" = None,
    timeout: float = 60.0,
) -> Embedder:
    """Open the embedder that a setting (`choice.SPECS`) means; without `openai_url` OpenAI's own service is meant.

    Offline embedders load their weights here, once a process; remote ones are asked nothing before the first text, and may take
    `timeout` seconds for a request.
    """
    choice = describe_choice(spec)
    if not choice.ready:
        raise EmbedderError(f"Embedder {choice.name!r}: {choice.reason}; run `{choice.command}`.")
    model = choice.model or ""
    match choice.kind:
        case "bge-small":
            from memory_assets.language.embedders.bge import open_bge

            return open_bge()
        case "e5-multilingual":
            from memory_assets.language.embedders.e5 import open_e5

            return open_e5()
        case "ollama":
            from memory_assets.language.embedders.remote import OllamaEmbedder

            return OllamaEmbedder(model, url=ollama_url, timeout=timeout)
        case "openai":
            from memory_assets.language.embedders.remote import OpenAIEmbedder

            return OpenAIEmbedder(model, url=openai_url, api_key=openai_api_key, timeout=timeout)
