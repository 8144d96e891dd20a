"""Write a trained encoder as the files that `memory_assets.language.judge` runs: graphs, and their weights' difference to bge-small's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from bge_graph import build_graph
from encoder import MOST_STEPS, Encoder

from memory_assets.language.embedders.bge import checked_files, read_tensors, read_weights
from memory_assets.language.judge import STATEMENTS, Network, read_network

PARTS = ("attention.input", "attention.output", "feed_forward.input", "feed_forward.output")
Weights = dict[str, npt.NDArray[np.float32]]
Trained = dict[str, torch.Tensor]


def write_network(network: Network, state: Trained, head: str, temperature: float = 1.0) -> None:
    """Write a network with one head of a trained encoder; its logits are divided by the temperature."""
    begun = read_weights(checked_files()[0], network.layers)
    trained = {name: value.float().numpy() for name, value in state.items()}
    found: dict[str, npt.NDArray[np.generic]] = dict(_rest(network.layers, trained, head, temperature))
    for name, matrix in _matrices(network.layers, trained):
        steps = np.clip(np.round(matrix / begun[f"{name}.scale"]), -MOST_STEPS, MOST_STEPS)
        found[f"{name}.weight"] = (steps - begun[f"{name}.weight"].astype(np.int16)).astype(np.int8)
    np.savez_compressed(network.weights, **found)
    graph = build_graph(network.name, network.layers, len(found["heads.bias"]))
    network.graph.write_bytes(graph.SerializeToString(deterministic=True))


def read_encoder(encoder: Encoder, network: Network = STATEMENTS, head: str = "relation") -> None:
    """Load the weights of a package network into an encoder with as many layers; the other head stays unchanged."""
    weights = read_network(network)
    state = encoder.state_dict()

    def put(name: str, value: npt.NDArray[np.floating]) -> None:
        state[name] = torch.from_numpy(np.ascontiguousarray(value, np.float32))

    put("types", weights["types"] + _first_type())
    put("norm.weight", weights["embedding.norm.gain"])
    put("norm.bias", weights["embedding.norm.bias"])
    put(f"{head}.weight", weights["heads.weight"].T)
    put(f"{head}.bias", weights["heads.bias"])
    for layer in range(network.layers):
        ours, theirs = f"layer.{layer}", f"layers.{layer}"
        for part in PARTS:
            halves = [f"{ours}.attention.query_input", f"{ours}.attention.key_value_input"]
            names = halves if f"{ours}.{part}.weight" not in weights else [f"{ours}.{part}"]
            matrix = np.concatenate([weights[f"{name}.weight"] * weights[f"{name}.scale"] for name in names], axis=1)
            put(f"{theirs}.{part.replace('.', '_')}.weight", matrix.T)
            put(f"{theirs}.{part.replace('.', '_')}.bias", weights[f"{ours}.{part}.bias"])
        for part in ("attention", "feed_forward"):
            put(f"{theirs}.{part}_norm.weight", weights[f"{ours}.{part}.output.norm.gain"])
            put(f"{theirs}.{part}_norm.bias", weights[f"{ours}.{part}.output.norm.bias"])
    encoder.load_state_dict(state)


def _first_type() -> npt.NDArray[np.float32]:
    tensors = read_tensors(checked_files()[0])
    whole = tensors["embeddings.token_type_embeddings.weight_quantized"].astype(np.float32) - 128
    return np.asarray((whole * tensors["embeddings.token_type_embeddings.weight_scale"])[0])


def _matrices(layers: int, trained: Weights) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Yield each matrix, shape (inputs, outputs), under its name in the graph."""
    for layer in range(layers):
        for part in PARTS:
            matrix = trained[f"layers.{layer}.{part.replace('.', '_')}.weight"].T
            if part == "attention.input" and layer == layers - 1:
                third = matrix.shape[1] // 3
                yield f"layer.{layer}.attention.query_input", matrix[:, :third]
                yield f"layer.{layer}.attention.key_value_input", matrix[:, third:]
            else:
                yield f"layer.{layer}.{part}", matrix


def _rest(layers: int, trained: Weights, head: str, temperature: float) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Yield the tensors that are not layer matrices, in floating point."""
    # bge-small's position vectors include the vector of type 0.
    yield "types", trained["types"] - _first_type()
    yield "embedding.norm.gain", trained["norm.weight"]
    yield "embedding.norm.bias", trained["norm.bias"]
    yield "heads.weight", np.ascontiguousarray(trained[f"{head}.weight"].T) / temperature
    yield "heads.bias", trained[f"{head}.bias"] / temperature
    for layer in range(layers):
        ours, theirs = f"layer.{layer}", f"layers.{layer}"
        for part in PARTS:
            yield f"{ours}.{part}.bias", trained[f"{theirs}.{part.replace('.', '_')}.bias"]
        for part in ("attention", "feed_forward"):
            yield f"{ours}.{part}.output.norm.gain", trained[f"{theirs}.{part}_norm.weight"]
            yield f"{ours}.{part}.output.norm.bias", trained[f"{theirs}.{part}_norm.bias"]
