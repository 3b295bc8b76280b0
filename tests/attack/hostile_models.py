"""ONNX files as somebody hostile would write them: cyclic, deeply nested, with names, sizes and paths that lie."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

__all__ = ["SECRET", "hostile"]

SECRET = b"only outside of the folder: 6f1c7c2e"
"""What stands in a file that no model may reach."""

_PATHS = (
    "../secret.bin",
    "./../secret.bin",
    "sub/../../secret.bin",
    "/etc/passwd",
    "/dev/zero",
    "/proc/self/mem",
    "link.bin",
    "",
    ".",
    "model.onnx",
    "a\x00b",
    "x" * 5000,
)
_SIZES = (0, -1, 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1)
_OPERATORS = (
    "Relu", "Add", "MatMul", "Conv", "Reshape", "Slice", "Gather", "TopK", "Resize", "Einsum", "If", "Loop", "Scan",
    "Split", "Concat", "Cast", "Constant", "Pad", "Tile", "Expand", "Range", "ConstantOfShape", "Transpose",
    "Squeeze", "Unsqueeze", "ReduceSum", "LayerNormalization", "GridSample", "Where", "ScatterND", "OneHot",
    "QuantizeLinear", "DequantizeLinear", "LSTM", "NonMaxSuppression", "Pow", "Clip", "ArgMax", "CumSum", "Shape",
    "Size", "Gemm", "ConvTranspose", "SequenceAt", "Optional", "StringConcat", "Attention", "BatchNormalization",
    "MaxPool",
)  # fmt: skip


def hostile(random_: random.Random) -> bytes:
    """A file."""
    try:
        made = random_.choice(_KINDS)(random_)
    except (DecodeError, ValueError, OverflowError):  # protobuf does not hold it
        made = _text(random_)
    return made if isinstance(made, bytes) else made.SerializePartialToString()


def _model(nodes: list[onnx.NodeProto], random_: random.Random, **more: object) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(nodes[-1].output[0] if nodes and nodes[-1].output else "x", 1, None)],
    )
    opset = random_.choice((1, 7, 13, 17, 18, 21, 22))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=random_.choice((3, 8, 10))
    )


def _chain(random_: random.Random, most: int = 30) -> list[onnx.NodeProto]:
    """Nodes of random operators, each with some of the values before it, and random attributes."""
    names, nodes = ["x"], []
    for number in range(random_.randrange(1, most)):
        inputs = [random_.choice([*names, "", f"v{number}"]) for _ in range(random_.randrange(0, 5))]
        outputs = [f"v{number}"] + [f"v{number}.{at}" for at in range(random_.choice((0, 0, 0, 1, 3)))]
        attributes = {}
        for name in random_.sample(("axis", "axes", "to", "perm", "keepdims", "equation", "value", "mode", "pads"), 2):
            attributes[name] = random_.choice(
                (0, -1, 2**62, 1.5, "nearest", "...ij,...->", [1, -5], [], [2**62], ["a"], float("nan"))
            )
        attributes = {name: value for name, value in attributes.items() if value != []}
        nodes.append(helper.make_node(random_.choice(_OPERATORS), inputs, outputs, name=f"n{number}", **attributes))
        names += outputs
    return nodes


def _of_chain(random_: random.Random) -> onnx.ModelProto:
    return _model(_chain(random_), random_)


def _cyclic(random_: random.Random) -> onnx.ModelProto:
    nodes = _chain(random_)
    for _ in range(random_.choice((1, 2, 5))):
        node = random_.choice(nodes)
        node.input.append(random_.choice(nodes).output[0])
    random_.shuffle(nodes)
    return _model(nodes, random_)


def _nested(random_: random.Random) -> onnx.ModelProto:
    """Bodies in bodies, some deeper than protobuf reads."""
    node = helper.make_node("Relu", ["x"], ["y"])
    for depth in range(random_.choice((3, 20, 40, 90, 300))):
        body = helper.make_graph([node], f"b{depth}", [], [helper.make_tensor_value_info(node.output[0], 1, None)])
        kind = random_.choice(("If", "Loop"))
        if kind == "If":
            node = helper.make_node(
                "If", ["x"], [f"y{depth}"], then_branch=body, else_branch=body if depth < 8 else None
            )
        else:
            node = helper.make_node("Loop", ["x", "x"], [f"y{depth}"], body=body)
        if node.ByteSize() > 1 << 22:
            break
    return _model([node], random_)


def _functions(random_: random.Random) -> onnx.ModelProto:
    """Functions that call themselves and each other."""
    model = _model([helper.make_node("F0", ["x"], ["y"], domain="mine")], random_)
    count = random_.choice((1, 2, 20))
    for number in range(count):
        called = random_.choice((number, (number + 1) % count, number + 1))
        body = [
            helper.make_node(f"F{called}", ["a"], [f"b{at}"], domain="mine") for at in range(random_.choice((1, 3)))
        ]
        model.functions.append(
            helper.make_function("mine", f"F{number}", ["a"], ["b0"], body, [helper.make_opsetid("mine", 1)])
        )
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.ir_version = 8
    return model


def _outside(random_: random.Random) -> onnx.ModelProto:
    """Weights that are said to be in other files."""
    model = _model([helper.make_node(random_.choice(("Add", "Reshape", "TopK", "Expand")), ["x", "w"], ["y"])], random_)
    tensor = model.graph.initializer.add(name="w", data_type=random_.choice((1, 7, 2)))
    tensor.dims.extend(random_.choice(([4], [1], [], [2**40], [4, 4])))
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=random_.choice(_PATHS))
    if random_.random() < 0.5:
        tensor.external_data.add(key="offset", value=str(random_.choice(("0", "-5", "x", 2**62, 8))))
    if random_.random() < 0.5:
        tensor.external_data.add(key="length", value=str(random_.choice(("0", "-5", "16", 2**62, "1e9"))))
    return model


def _lying(random_: random.Random) -> onnx.ModelProto:
    """Sizes that are not those of the data, and types that there are not."""
    model = _of_chain(random_)
    for at in range(random_.choice((1, 3))):
        tensor = model.graph.initializer.add(name=f"v{at}", data_type=random_.choice((1, 7, 8, 10, 16, 22, 99)))
        tensor.dims.extend(random_.choice(_SIZES) for _ in range(random_.randrange(4)))
        tensor.raw_data = random_.randbytes(random_.choice((0, 3, 16)))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = random_.choice((0, 1, 7, 9, 77))
        for _ in range(random_.randrange(4)):
            value.type.tensor_type.shape.dim.add(dim_value=random_.choice(_SIZES))
    return model


def _many(random_: random.Random) -> onnx.ModelProto:
    """One thing very often: names, values, outputs, text."""
    count = random_.choice((1000, 20_000))
    kind = random_.randrange(4)
    if kind == 0:
        nodes = [helper.make_node("Relu", ["x"], ["y"], name="n") for _ in range(count)]
    elif kind == 1:
        nodes = [helper.make_node("Split", ["x"], [f"y{at}" for at in range(count)])]
    elif kind == 2:
        nodes = [helper.make_node("Concat", ["x"] * count, ["y"], axis=0)]
    else:
        nodes = [helper.make_node("Einsum", ["x"], ["y"], equation="i" * count + "->")]
    return _model(nodes, random_)


def _doubling(random_: random.Random) -> onnx.ModelProto:
    """Constants that are a few bytes in the file and very large when they are computed."""
    nodes = [helper.make_node("Constant", [], ["c0"], value_ints=[2 ** random_.choice((10, 20, 33))])]
    nodes.append(helper.make_node("ConstantOfShape", ["c0"], ["d0"]))
    for at in range(random_.choice((3, 40))):
        nodes.append(helper.make_node("Concat", [f"d{at}", f"d{at}"], [f"d{at + 1}"], axis=0))
    nodes.append(helper.make_node("Squeeze", ["x", nodes[-1].output[0]], ["y"]))
    return _model(nodes, random_)


def _text(random_: random.Random) -> bytes:
    return random_.choice((b"", b"\x00", b"{}", b"\x0a" * 1000, b"\xff" * 5000, b"\x7f\x08" + bytes(9), b"onnx"))


_KINDS: tuple[Callable[[random.Random], onnx.ModelProto | bytes], ...] = (
    _of_chain,
    _of_chain,
    _of_chain,
    _cyclic,
    _cyclic,
    _nested,
    _functions,
    _outside,
    _outside,
    _lying,
    _lying,
    _many,
    _doubling,
    _text,
)
