"""Batch normalizations, and constants of channels, in the weights of layers: results in ONNX Runtime, and refusals."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from opbridge.fit.folded_norms import fold_norms

_STEPS = ("BatchNormalization", "Mul", "Div", "Add", "Sub", "Sub from", "Mul by a number")


class Built:
    """A model that is built node by node, with constants and shapes as an export has them."""

    def __init__(self, shape: tuple[int, ...], kind: ir.DataType = ir.DataType.FLOAT) -> None:
        self.kind = kind
        x = ir.Value(name="x", shape=ir.Shape(shape), type=ir.TensorType(kind))
        self.model = ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": 20}, name="main"), ir_version=10)
        self.graph, self.last = self.model.graph, x

    def constant(self, array: Any, name: str = "") -> ir.Value:
        tensor = ir.tensor(np.asarray(array, self.kind.numpy()), name=name or f"c{len(self.graph.initializers)}")
        value = ir.Value(
            name=tensor.name, shape=ir.Shape(tensor.shape), type=ir.TensorType(self.kind), const_value=tensor
        )
        self.graph.initializers[value.name] = value
        return value

    def add(self, op_type: str, *inputs: ir.Value, shape: tuple[int, ...], **attributes: Any) -> ir.Value:
        node = ir.node(op_type, inputs, attributes, name=f"n{len(self.graph)}")
        output = node.outputs[0]
        output.name, output.shape, output.type = f"{node.name}_out", ir.Shape(shape), ir.TensorType(self.kind)
        self.graph.append(node)
        self.last = output
        return output

    def done(self) -> ir.Model:
        self.graph.outputs.append(self.last)
        return self.model

    def operators(self) -> list[str]:
        return [node.op_type for node in self.graph]


def run(model: ir.Model) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    (given,) = session.get_inputs()
    kind = np.float16 if given.type == "tensor(float16)" else np.float32
    return session.run(None, {"x": np.random.default_rng(5).standard_normal(given.shape).astype(kind)})[0]


def draw(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape)


def convolution(rank: int, groups: int) -> tuple[Built, int, int]:
    built = Built((2, 4, *[5] * rank))
    inputs = [built.last, built.constant(draw(6, 4 // groups, *[3] * rank), "w")]
    if rank != 2:
        inputs.append(built.constant(draw(6), "b"))
    built.add("Conv", *inputs, shape=(2, 6, *[3] * rank), group=groups)
    return built, 6, 1


def transposed_convolution(groups: int) -> tuple[Built, int, int]:
    built = Built((2, 4, 5, 5))
    built.add(
        "ConvTranspose",
        *(built.last, built.constant(draw(4, 6 // groups, 3, 3), "w"), built.constant(draw(6), "b")),
        shape=(2, 6, 7, 7),
        group=groups,
    )
    return built, 6, 1


def gemm(transposed: int, beta: float, bias: tuple[int, ...]) -> tuple[Built, int, int]:
    built = Built((3, 4))
    weight = built.constant(draw(6, 4) if transposed else draw(4, 6), "w")
    given = (built.last, weight, built.constant(draw(*bias), "b"))
    built.add("Gemm", *given, shape=(3, 6), transB=transposed, beta=beta, alpha=0.5)
    return built, 6, 1


def product(rank: int) -> tuple[Built, int, int]:
    shape = (3, 5, 4)[3 - rank :]
    built = Built(shape)
    built.add("MatMul", built.last, built.constant(draw(4, 6), "w"), shape=(*shape[:-1], 6))
    return built, 6, rank - 1


LAYERS = {
    "convolution of one dimension": lambda: convolution(1, 1),
    "convolution in groups without a bias": lambda: convolution(2, 2),
    "convolution of three dimensions": lambda: convolution(3, 1),
    "transposed convolution": lambda: transposed_convolution(1),
    "transposed convolution in groups": lambda: transposed_convolution(2),
    "linear layer": lambda: gemm(1, 1.0, (6,)),
    "linear layer with a factor of its bias": lambda: gemm(0, 0.25, (1, 6)),
    "linear layer with one number as its bias": lambda: gemm(1, 2.0, (1,)),
    "product": lambda: product(2),
    "product of matrices": lambda: product(3),
}


def add_step(built: Built, step: str, channels: int, axis: int) -> None:
    shape = tuple(built.last.shape.numpy())
    across = [1] * (len(shape) - axis)
    across[0] = channels
    if step == "BatchNormalization":
        vectors = [draw(channels), draw(channels), draw(channels), np.abs(draw(channels))]
        built.add(step, built.last, *map(built.constant, vectors), shape=shape, epsilon=1e-3)
    elif step == "Mul by a number":
        built.add("Mul", built.constant(1.5), built.last, shape=shape)
    elif step == "Sub from":
        built.add("Sub", built.constant(draw(*across)), built.last, shape=shape)
    else:
        built.add(step, built.last, built.constant(draw(*across)), shape=shape)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("number", range(4))
def test_results_are_those_of_the_nodes(layer, number):
    built, channels, axis = LAYERS[layer]()
    steps = [str(np.random.choice(_STEPS)) for _ in range(number + 1)]
    if axis != 1:
        steps = [step for step in steps if step != "BatchNormalization"]
    steps.append("Mul")
    for step in steps:
        add_step(built, step, channels, axis)
    built.add("Relu", built.last, shape=tuple(built.last.shape.numpy()))
    name = list(built.graph)[-2].outputs[0].name
    model = built.done()
    expected = run(model)
    layer_type, before = built.operators()[0], len(built.graph)
    said = fold_norms(model)
    after = built.operators()
    assert after in ([layer_type, "Relu"], [layer_type, "Add", "Relu"]) and (len(after) == 2 or layer_type == "MatMul")
    assert re.match(rf"folded: {before - 2} nodes? into the weights of 1 layer \(", said)
    assert list(built.graph)[-2].outputs[0].name == name  # where the source lines are
    np.testing.assert_allclose(run(model), expected, rtol=2e-4, atol=2e-4)


def transpose(built: Built, axis: int) -> int:
    """Adds a Transpose in a random order. Returns where the axis is then."""
    shape = tuple(built.last.shape.numpy())
    order = [int(each) for each in np.random.permutation(len(shape))]
    if order == list(range(len(shape)))[::-1]:
        built.add("Transpose", built.last, shape=shape[::-1])
    else:
        built.add("Transpose", built.last, shape=tuple(shape[each] for each in order), perm=order)
    return order.index(axis)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("number", range(5))
def test_transposes_between_them_stay(layer, number):
    built, channels, axis = LAYERS[layer]()
    add_step(built, "Add", channels, axis)
    for step in ("Mul", "Sub from")[: number % 2 + 1]:
        for _ in range(number // 2 + 1):
            axis = transpose(built, axis)
        add_step(built, step, channels, axis)
    axis = transpose(built, axis)  # with nothing after it that is folded
    name, shapes = built.last.name, [tuple(node.outputs[0].shape.numpy()) for node in built.graph]
    model = built.done()
    expected = run(model)
    moves = built.operators().count("Transpose")
    assert "into the weights of 1 layer" in fold_norms(model)
    assert built.operators()[-moves:] == ["Transpose"] * moves and built.operators()[0] in (
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
    )
    assert len(built.graph) - moves == (2 if "product" in layer else 1)
    last = list(built.graph)[-1].outputs[0]
    assert last.name == name and tuple(last.shape.numpy()) == shapes[-1] == expected.shape
    np.testing.assert_allclose(run(model), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_a_normalization_behind_a_transpose_is_of_the_second_dimension(order):
    built, *_ = product(2)
    add_step(built, "Mul", 6, 1)
    shape = (6, 5) if order == [1, 0] else (5, 6)
    built.add("Transpose", built.last, shape=shape, perm=order)
    given = [built.last, *(built.constant(np.abs(draw(shape[1]))) for _ in range(4))]
    built.add("BatchNormalization", *given, shape=shape)
    model = built.done()
    expected = run(model)
    fold_norms(model)
    assert ("BatchNormalization" in built.operators()) == (order == [1, 0]) and "Mul" not in built.operators()
    np.testing.assert_allclose(run(model), expected, rtol=2e-4, atol=2e-4)


def test_a_value_behind_a_transpose_that_something_else_reads_ends_it():
    built, *_ = product(2)
    moved = built.add("Transpose", built.last, shape=(6, 5), perm=[1, 0])
    built.add("Mul", moved, built.constant(draw(6, 1)), shape=(6, 5))
    built.add("Add", moved, built.last, shape=(6, 5))
    assert fold_norms(built.done()) == "" and built.operators() == ["MatMul", "Transpose", "Mul", "Add"]


@pytest.mark.parametrize(("shape", "is_folded"), [((6,), True), ((1, 6), False)])
def test_a_product_of_unknown_rank(shape, is_folded):
    built, *_ = product(3)
    built.last.shape = None
    built.add("Mul", built.last, built.constant(draw(*shape)), shape=(3, 5, 6))
    assert bool(fold_norms(built.done())) == is_folded


def test_a_value_that_something_else_reads_ends_it():
    built, *_ = convolution(1, 1)
    convolved = built.last
    add_step(built, "Mul", 6, 1)
    built.add("Add", convolved, built.last, shape=(2, 6, 3))
    assert fold_norms(built.done()) == "" and built.operators() == ["Conv", "Mul", "Add"]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 6, 3), 1), ((6, 3), 1), ((1, 1, 3), 1), ((2, 1, 1), 1)],
    ids=["of each element", "of each position", "of the last axis", "of each batch"],
)
def test_constants_of_other_axes_stay(shape, axis):
    built, *_ = convolution(1, 1)
    built.add("Mul", built.last, built.constant(draw(*shape)), shape=(2, 6, 3))
    assert fold_norms(built.done()) == "" and built.operators() == ["Conv", "Mul"]


def test_statistics_of_the_batch_stay():
    built, *_ = convolution(1, 1)
    given = [built.last, *(built.constant(np.ones(6)) for _ in range(4))]
    built.add("BatchNormalization", *given, shape=(2, 6, 3), training_mode=1)
    assert fold_norms(built.done()) == ""


def test_a_normalization_over_another_axis_of_a_product_stays():
    built, *_ = product(3)
    given = [built.last, *(built.constant(np.ones(5)) for _ in range(4))]
    built.add("BatchNormalization", *given, shape=(3, 5, 6))
    assert fold_norms(built.done()) == ""


@pytest.mark.parametrize("number", [0.0, np.inf, np.nan])
def test_constants_without_a_finite_factor_stay(number):
    built, *_ = convolution(1, 1)
    built.add("Div" if number == 0 else "Mul", built.last, built.constant(number), shape=(2, 6, 3))
    assert fold_norms(built.done()) == ""


@pytest.mark.parametrize(
    ("weight", "factor", "is_folded"),
    [(1.0, 0.5, True), (6e4, 2.0, False), (1e-3, 1e-3, False), (0.0, 1e-3, True), (1.0, 0.0, True)],
    ids=["within the range", "too large", "subnormal", "weights of 0", "a factor of 0"],
)
def test_float16(weight, factor, is_folded):
    built = Built((1, 1, 4), ir.DataType.FLOAT16)
    built.add("Conv", built.last, built.constant(np.full((1, 1, 1), weight), "w"), shape=(1, 1, 4))
    built.add("Mul", built.last, built.constant([[factor]]), shape=(1, 1, 4))
    model = built.done()
    expected = run(model)
    assert bool(fold_norms(model)) == is_folded
    np.testing.assert_allclose(run(model), expected, rtol=2e-3)


@pytest.mark.parametrize("size", [4, 200], ids=["small", "large"])
@pytest.mark.parametrize("are_alike", [True, False])
def test_weights_that_several_layers_read(size, are_alike):
    """A large one is stored once, so it is folded only where all its layers have the same factors after them."""
    built = Built((1, size, 1))
    x, weight = built.last, built.constant(draw(size, size, 1), "w")
    factor, other = built.constant(np.full((size, 1), 2.0)), built.constant(np.full((size, 1), 3.0))
    made = []
    for each in (factor, factor if are_alike else other):
        convolved = built.add("Conv", x, weight, shape=(1, size, 1))
        made.append(built.add("Mul", convolved, each, shape=(1, size, 1)))
    built.add("Add", *made, shape=(1, size, 1))
    model = built.done()
    expected = run(model)
    assert bool(fold_norms(model)) == (are_alike or size == 4)
    large = [each for each in model.graph.initializers.values() if each.const_value.size == size * size]
    assert len(large) == (1 if are_alike or size == 200 else 2)
    np.testing.assert_allclose(run(model), expected, rtol=1e-3, atol=1e-4)
