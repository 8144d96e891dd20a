"""A BERT encoder on ONNX Runtime in 8-bit integers: how MiniLM and bge-small are run."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.language.embedders.bert_graph import HIDDEN
from memory_assets.language.embedders.protocol import EmbedderError, checked_texts, unit_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from memory_assets.language.embedders.bert_graph import Design
    from memory_assets.language.embedders.protocol import Role

    Floats = npt.NDArray[np.float32]
    Tokens = npt.NDArray[np.int64]

_START, _END = 101, 102
_WINDOWS_WORTH_THREADS = 16
_MOST_THREADS = 4
_TOKENS_A_RUN = 96
"""Beyond so many, memory for the states comes fresh from the system at each run, which takes a fifth of its time."""


class BertEmbedder:
    """Embeds with a BERT encoder in 384 dimensions.

    A text longer than the window is cut into windows of equal length, none longer than that, and its vector is the direction
    of the mean of theirs. Only windows of one length are computed together, so that none is padded and a text's vector never
    depends on what it is embedded with; many texts share up to four threads.
    """

    def __init__(
        self,
        name: str,
        design: "Design",
        weights: "Mapping[str, npt.NDArray[Any]]",
        *,
        tokenizer: "Path",
        window: int,
    ) -> None:
        """Open a session.

        Args:
            name: what stored rows record.
            design: which of the graphs the weights belong to.
            weights: every weight that the graph declares, by its name there; the session copies them.
            tokenizer: file of the tokenizer.
            window: word pieces that the model sees at once, without the two that mark a text's start and end.

        Raises:
            EmbedderError: ONNX Runtime is missing.
        """
        try:
            import onnxruntime
        except ImportError:
            raise EmbedderError(f"Embedder {name!r} runs on ONNX Runtime; run `pip install onnxruntime`.") from None
        from tokenizers import Tokenizer

        self.name = name
        self._window = window
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        options = onnxruntime.SessionOptions()
        # One thread per run: texts are the unit of work, and a session without threads of its own survives a fork.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        # All runs share one arena and wait for its lock: with it, two threads embed hardly more than one.
        options.enable_cpu_mem_arena = False
        options.add_external_initializers(
            list(weights), [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        )
        self._session = onnxruntime.InferenceSession(design.file.read_bytes(), options, providers=["CPUExecutionProvider"])

    @property
    def dimension(self) -> int:
        """384."""
        return HIDDEN

    def embed(self, texts: "Sequence[str]", role: "Role" = "document") -> "Floats":  # noqa: ARG002 - one for both
        """Embed texts, whatever their role; see `Embedder.embed`."""
        checked = checked_texts(texts, self.name)
        if not checked:
            return np.empty((0, HIDDEN), dtype=np.float32)
        windows = [self._windows(text) for text in checked]
        vectors = self._run_all([window for of_text in windows for window in of_text])
        starts = np.cumsum([0] + [len(of_text) for of_text in windows[:-1]])
        return unit_rows(np.add.reduceat(vectors, starts), embedder=self.name, count=len(checked), dimension=HIDDEN)

    def _windows(self, text: str) -> "list[Tokens]":
        # `encode` and not `encode_batch`: that one starts threads, which a later fork of this process breaks.
        pieces = self._tokenizer.encode(text, add_special_tokens=False).ids
        if len(pieces) <= self._window:
            return [np.array([_START, *pieces, _END], np.int64)]
        windows = np.array_split(np.array(pieces, np.int64), math.ceil(len(pieces) / self._window))
        return [np.concatenate(([_START], window, [_END])) for window in windows]

    def _run_all(self, windows: "list[Tokens]") -> "Floats":
        """Unit vectors of windows; those of one length go through the network together, which reads its weights once."""
        by_length = sorted(range(len(windows)), key=lambda place: len(windows[place]))
        runs: list[list[int]] = []
        for length, places in groupby(by_length, key=lambda place: len(windows[place])):
            alike = list(places)
            most = max(1, _TOKENS_A_RUN // length)
            runs += [alike[start : start + most] for start in range(0, len(alike), most)]

        def run(places: list[int]) -> "Floats":
            return np.asarray(self._session.run(None, {"ids": np.stack([windows[place] for place in places])})[0])

        if len(windows) < _WINDOWS_WORTH_THREADS:
            states = [run(places) for places in runs]
        else:
            with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
                states = list(threads.map(run, runs))
        vectors = np.empty((len(windows), HIDDEN), np.float32)
        vectors[[place for places in runs for place in places]] = np.concatenate(states)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
