"""Write a trained encoder as the files that `memory_assets.language.judge` runs: the graph, and how its weights differ from bge-small's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from bge_graph import build_graph
from encoder import MOST_STEPS

from memory_assets.language.embedders.bge import checked_files, read_tensors, read_weights
from memory_assets.language.judge import GRAPH, WEIGHTS

PARTS = ("attention.input", "attention.output", "feed_forward.input", "feed_forward.output")
Weights = dict[str, npt.NDArray[np.float32]]


def write_network(state: dict[str, torch.Tensor], temperatures: tuple[float, float]) -> None:
    """Write a network whose logits are divided by the temperatures of relations and of answers."""
    begun = read_weights(checked_files()[0])
    trained = {name: value.float().numpy() for name, value in state.items()}
    found: dict[str, npt.NDArray[np.generic]] = dict(_rest(trained, temperatures, _first_type()))
    for name, matrix in _matrices(trained):
        steps = np.clip(np.round(matrix / begun[f"{name}.scale"]), -MOST_STEPS, MOST_STEPS)
        found[f"{name}.weight"] = (steps - begun[f"{name}.weight"].astype(np.int16)).astype(np.int8)
    np.savez_compressed(WEIGHTS, **found)
    layers = sum(name.endswith("attention_norm.weight") for name in trained)
    GRAPH.write_bytes(build_graph(GRAPH.stem, layers, len(found["heads.bias"])).SerializeToString(deterministic=True))


def _first_type() -> npt.NDArray[np.float32]:
    tensors = read_tensors(checked_files()[0])
    whole = tensors["embeddings.token_type_embeddings.weight_quantized"].astype(np.float32) - 128
    return np.asarray((whole * tensors["embeddings.token_type_embeddings.weight_scale"])[0])


def _matrices(trained: Weights) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Each matrix by the name of the graph, (inputs, outputs)."""
    layers = sum(name.endswith("attention_norm.weight") for name in trained)
    for layer in range(layers):
        for part in PARTS:
            matrix = trained[f"layers.{layer}.{part.replace('.', '_')}.weight"].T
            if part == "attention.input" and layer == layers - 1:
                third = matrix.shape[1] // 3
                yield f"layer.{layer}.attention.query_input", matrix[:, :third]
                yield f"layer.{layer}.attention.key_value_input", matrix[:, third:]
            else:
                yield f"layer.{layer}.{part}", matrix


def _rest(
    trained: Weights, temperatures: tuple[float, float], first_type: npt.NDArray[np.float32]
) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """What is no matrix of a layer, in floating point."""
    # bge-small's positions hold the vector of type 0.
    yield "types", trained["types"] - first_type
    yield "embedding.norm.gain", trained["norm.weight"]
    yield "embedding.norm.bias", trained["norm.bias"]
    heads = [
        (trained[f"{head}.weight"] / by, trained[f"{head}.bias"] / by)
        for head, by in zip(("relation", "answer"), temperatures, strict=True)
    ]
    yield "heads.weight", np.ascontiguousarray(np.concatenate([weight for weight, _ in heads]).T)
    yield "heads.bias", np.concatenate([bias for _, bias in heads])
    for layer in range(sum(name.endswith("attention_norm.weight") for name in trained)):
        ours, theirs = f"layer.{layer}", f"layers.{layer}"
        for part in PARTS:
            yield f"{ours}.{part}.bias", trained[f"{theirs}.{part.replace('.', '_')}.bias"]
        for part in ("attention", "feed_forward"):
            yield f"{ours}.{part}.output.norm.gain", trained[f"{theirs}.{part}_norm.weight"]
            yield f"{ours}.{part}.output.norm.bias", trained[f"{theirs}.{part}_norm.bias"]
