"""How `minilm_l6.onnx` was made: MiniLM-L6's computation in 8-bit integers, without its weights.

`python -m memory_assets.language.embedders.minilm_graph` writes the file again; it needs the package onnx,
which nothing needs at run time. The weights are named here, and `minilm` hands them in when it opens a session.

The network is BERT (Devlin et al., 2019) as sentence-transformers' all-MiniLM-L6-v2 configures it: six
layers, hidden size 384, twelve heads, the mean of the last layer's token states as the sentence's vector.
Each matrix product runs on integers: a token's activations are scaled by their own largest magnitude to
-127..127 (stored as unsigned bytes around 128), and each column of a weight matrix has a scale of its own. A
scale for each token, where ONNX Runtime's own dynamic quantisation has one for the whole input, keeps a text's
vector independent of its neighbours and closer to the exact one.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

GRAPH_FILE = Path(__file__).with_name("minilm_l6.onnx")
LAYERS = 6
HIDDEN = 384
_HEADS = 12
_FEED_FORWARD = 1536
_POSITIONS = 512
_VOCABULARY = 30_522
_LAYER_NORM_EPSILON = 1e-12
_ONNX_OPSET = 19
_ONNX_IR_VERSION = 9
_RUNTIME_OPS = "com.microsoft"


class _Graph:
    """Nodes, constants and weights by name, in the order they are added."""

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


def build_graph() -> "onnx.ModelProto":
    """Build the model: token ids of one text, shape (tokens,), to the mean token state, shape (384,)."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    graph = _Graph()
    constants = {
        "axis_0": np.array([0], np.int64),
        "axis_last": np.array([-1], np.int64),
        "one": np.array(1, np.float32),
        "per_step": np.array(1 / 127, np.float32),
        "zero_point": np.array(128, np.uint8),
    }
    graph.initializers += [numpy_helper.from_array(value, name) for name, value in constants.items()]

    real = TensorProto.FLOAT
    words = graph.add("Gather", [graph.weight("words", real, _VOCABULARY, HIDDEN), "ids"], "word_states")
    length = graph.add("Shape", ["ids"], "length")
    graph.add("Expand", ["zero_point", length], "zero_points")
    all_positions = graph.weight("positions", real, _POSITIONS, HIDDEN)
    positions = graph.add("Slice", [all_positions, "axis_0", length], "position_states")
    states = graph.add(
        "LayerNormalization",
        [
            graph.add("Add", [words, positions], "embedded"),
            graph.weight("embedding.norm.gain", real, HIDDEN),
            graph.weight("embedding.norm.bias", real, HIDDEN),
        ],
        "states",
        axis=-1,
        epsilon=_LAYER_NORM_EPSILON,
    )
    for layer in range(LAYERS):
        states = _add_layer(graph, states, f"layer.{layer}")
    graph.add("ReduceMean", [states, "axis_0"], "mean", keepdims=0)

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "minilm_l6",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["tokens"])],
            [helper.make_tensor_value_info("mean", real, [HIDDEN])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", _ONNX_OPSET), helper.make_opsetid(_RUNTIME_OPS, 1)],
        producer_name="memory_assets",
    )
    model.ir_version = _ONNX_IR_VERSION
    return model


def _add_layer(graph: _Graph, states: str, layer: str) -> str:
    """Add self-attention and the feed-forward part, each with its residual and normalisation after it."""
    from onnx import TensorProto, helper

    projected = _add_product(graph, states, f"{layer}.attention.input", HIDDEN, 3 * HIDDEN)
    batched = graph.add("Unsqueeze", [projected, "axis_0"], f"{layer}.attention.batched")
    parts = [f"{layer}.attention.{part}" for part in ("query", "key", "value")]
    graph.nodes.append(helper.make_node("Split", [batched], parts, axis=-1, num_outputs=3))
    bias = graph.weight(f"{layer}.attention.input.bias", TensorProto.FLOAT, 3 * HIDDEN)
    attended = graph.add("MultiHeadAttention", [*parts, bias], f"{layer}.attended", domain=_RUNTIME_OPS, num_heads=_HEADS)
    attended = graph.add("Squeeze", [attended, "axis_0"], f"{layer}.attended.flat")
    output = _add_product(graph, attended, f"{layer}.attention.output", HIDDEN, HIDDEN)
    states = _add_residual_norm(graph, output, states, f"{layer}.attention.output")

    inner = _add_product(graph, states, f"{layer}.feed_forward.input", HIDDEN, _FEED_FORWARD)
    bias = graph.weight(f"{layer}.feed_forward.input.bias", TensorProto.FLOAT, _FEED_FORWARD)
    inner = graph.add("BiasGelu", [inner, bias], f"{layer}.feed_forward.inner", domain=_RUNTIME_OPS)
    output = _add_product(graph, inner, f"{layer}.feed_forward.output", _FEED_FORWARD, HIDDEN)
    return _add_residual_norm(graph, output, states, f"{layer}.feed_forward.output")


def _add_product(graph: _Graph, states: str, name: str, inputs: int, outputs: int) -> str:
    """Add states @ weight in integers, scaled back to floating point."""
    from onnx import TensorProto

    magnitude = graph.add("Abs", [states], f"{name}.magnitude")
    largest = graph.add("ReduceMax", [magnitude, "axis_last"], f"{name}.largest", keepdims=1)
    step = graph.add("Mul", [largest, "per_step"], f"{name}.step")
    steps = graph.add("Reshape", [step, "axis_last"], f"{name}.steps")
    integers = graph.add("QuantizeLinear", [states, steps, "zero_points"], f"{name}.integers", axis=0)
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
    """Add the normalised sum of a part's output, its bias and the states that went into it."""
    from onnx import TensorProto

    gain, shift, bias = (
        graph.weight(f"{name}.{weight}", TensorProto.FLOAT, HIDDEN) for weight in ("norm.gain", "norm.bias", "bias")
    )
    biased = graph.add("Add", [output, bias], f"{name}.biased")
    summed = graph.add("Add", [biased, states], f"{name}.summed")
    return graph.add("LayerNormalization", [summed, gain, shift], f"{name}.normalised", axis=-1, epsilon=_LAYER_NORM_EPSILON)


if __name__ == "__main__":
    GRAPH_FILE.write_bytes(build_graph().SerializeToString(deterministic=True))
