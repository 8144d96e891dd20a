"""The judge's network in torch: BERT initialised with bge-small's weights, with two heads on the first token at two depths."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from memory_assets.language.embedders.bge import DIMENSION, read_tensors
from memory_assets.language.judge import STATEMENTS

HEADS, INNER = 12, 1536
ANSWERED_AFTER = 6
"""Number of layers before the answer head of the whole network; `distil.py` needs fewer."""
MOST_STEPS = 64
"""Largest weight in steps on each side of zero, so that two products fit into 16 bits."""


class Matrix(nn.Linear):
    """A linear layer whose weights are rounded to the steps of bge-small's 8-bit integers, the form in which they are written."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_buffer("scale", torch.ones(outputs, 1), persistent=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Multiply by the rounded weights; gradients pass through the rounding unchanged."""
        stepped = (self.weight / self.scale).round().clamp(-MOST_STEPS, MOST_STEPS) * self.scale
        return linear(states, self.weight + (stepped - self.weight).detach(), self.bias)


class Layer(nn.Module):
    """Self-attention and the feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_input = Matrix(DIMENSION, 3 * DIMENSION)
        self.attention_output = Matrix(DIMENSION, DIMENSION)
        self.attention_norm = nn.LayerNorm(DIMENSION, eps=1e-12)
        self.feed_forward_input = Matrix(DIMENSION, INNER)
        self.feed_forward_output = Matrix(INNER, DIMENSION)
        self.feed_forward_norm = nn.LayerNorm(DIMENSION, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the states after the layer, shape (texts, tokens, 384)."""
        texts, length, _ = states.shape
        parts = self.attention_input(states).view(texts, length, 3, HEADS, DIMENSION // HEADS).permute(2, 0, 3, 1, 4)
        attended = scaled_dot_product_attention(*parts, attn_mask=mask).transpose(1, 2).reshape(texts, length, DIMENSION)
        states = self.attention_norm(states + self.dropout(self.attention_output(attended)))
        inner = self.feed_forward_output(gelu(self.feed_forward_input(states)))
        return self.feed_forward_norm(states + self.dropout(inner))


class Encoder(nn.Module):
    """Network from pairs of texts to logits: of the five relations after all layers, of an answer after the first ones."""

    def __init__(self, model: Path, relations: int, layers: int = STATEMENTS.layers) -> None:
        super().__init__()
        tensors = read_tensors(model)

        def table(name: str) -> torch.Tensor:
            whole = tensors[f"embeddings.{name}_embeddings.weight_quantized"].astype(np.float32) - 128
            return torch.from_numpy(whole * tensors[f"embeddings.{name}_embeddings.weight_scale"])

        self.register_buffer("words", table("word"), persistent=False)
        self.register_buffer("positions", table("position"), persistent=False)
        self.types = nn.Parameter(table("token_type"))
        self.norm = nn.LayerNorm(DIMENSION, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.dropout = nn.Dropout(0.1)
        self.relation = nn.Linear(DIMENSION, relations)
        self.answer = nn.Linear(DIMENSION, 1)
        found = dict(_bge(tensors, layers))
        self.load_state_dict(self.state_dict() | {name: value for name, value in found.items() if not name.endswith("scale")})
        for name, value in found.items():
            if name.endswith("scale"):
                self.get_buffer(name).copy_(value)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, known: torch.Tensor, *, asked: bool) -> torch.Tensor:
        """Return logits of an answer, shape (pairs, 1), if `asked`, else of the relations; `known` is false for padding."""
        states = self.dropout(self.norm(self.words[ids] + self.positions[: ids.shape[1]] + self.types[types]))
        mask = known[:, None, None, :]
        for layer in self.layers[: ANSWERED_AFTER if asked else None]:
            states = layer(states, mask)
        return (self.answer if asked else self.relation)(self.dropout(states[:, 0]))


def _bge(tensors: dict[str, Any], layers: int) -> Any:
    """Return bge-small's first layers under our names, in floating point."""

    def real(name: str) -> torch.Tensor:
        return torch.from_numpy(np.array(tensors[name], np.float32))

    def matrix(name: str) -> np.ndarray:
        return (tensors[f"{name}_quantized"].astype(np.float32) * tensors[f"{name}_scale"]).T

    yield "norm.weight", real("embeddings.LayerNorm.weight")
    yield "norm.bias", real("embeddings.LayerNorm.bias")
    matrices = (name.removesuffix("_quantized") for name in tensors if re.fullmatch(r"onnx::MatMul_\d+_quantized", name))
    for layer in range(layers):
        ours, theirs = f"layers.{layer}", f"encoder.layer.{layer}"
        projections = [next(matrices) for _ in range(3)]
        yield f"{ours}.attention_input.weight", torch.from_numpy(np.concatenate([matrix(each) for each in projections]))
        yield f"{ours}.attention_input.scale", torch.cat([real(f"{each}_scale") for each in projections])[:, None]
        biases = [real(f"{theirs}.attention.self.{part}.bias") for part in ("query", "key", "value")]
        yield f"{ours}.attention_input.bias", torch.cat(biases)
        for part, name in (
            ("attention_output", "attention.output"),
            ("feed_forward_input", "intermediate"),
            ("feed_forward_output", "output"),
        ):
            number = next(matrices)
            yield f"{ours}.{part}.weight", torch.from_numpy(matrix(number).copy())
            yield f"{ours}.{part}.scale", real(f"{number}_scale")[:, None]
            yield f"{ours}.{part}.bias", real(f"{theirs}.{name}.dense.bias")
        for part, name in (("attention_norm", "attention.output"), ("feed_forward_norm", "output")):
            yield f"{ours}.{part}.weight", real(f"{theirs}.{name}.LayerNorm.weight")
            yield f"{ours}.{part}.bias", real(f"{theirs}.{name}.LayerNorm.bias")
