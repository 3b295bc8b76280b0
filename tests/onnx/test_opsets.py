"""Calls written for one opset in models of another."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import onnxscript
import pytest
import torch
from onnxscript import opset9, opset11, opset13, opset15, opset18, opset20

import opbridge
from opbridge.errors import TranslationError
from opbridge.onnx import opsets
from opbridge.onnx.builder import Builder

X = np.array([[1.5, -2.0, 0.5, 7.0], [0.0, 3.0, -1.0, 2.0]], np.float32)
INTEGERS = np.array([[3, -1, 4], [1, 5, -9]], np.int64)


def run(function, *arrays, opset, shapes=None):
    """What a function of operators computes at an opset, in ONNX Runtime, and the operators that it takes."""
    builder = Builder(opset)
    shapes = shapes or [array.shape for array in arrays]
    inputs = [
        builder.value(f"x{index}", ir.DataType.from_numpy(array.dtype), shape)
        for index, (array, shape) in enumerate(zip(arrays, shapes, strict=True))
    ]
    with builder.translating():
        results = function(*inputs)
    outputs = list(results) if isinstance(results, (list, tuple)) else [results]
    graph = builder.graph(inputs, outputs)
    proto = ir.to_proto(ir.Model(graph, ir_version=8))
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {f"x{index}": array for index, array in enumerate(arrays)}
    return session.run(None, feeds), [node.op_type for node in builder.nodes]


OLDER = {
    "axes": (lambda x: opset18.ReduceMax(x, [-1], keepdims=0), X),
    "axes, all": (lambda x: opset18.ReduceL2(x, keepdims=0), X),
    "axes, none": (lambda x: opset18.ReduceSum(x, [], noop_with_empty_axes=1), X),
    "a part of the shape": (lambda x: opset18.Shape(opset18.Transpose(x), start=-1), X),
    "half of the axes": (lambda x: opset18.Pad(x, [1, 2], 3.0, [-1]), X),
    "all of the axes": (lambda x: opset18.Pad(x, [0, 1, 1, 0]), X),
    "parts": (lambda x: opset18.Split(x, axis=-1, num_outputs=2), X),
    "uneven parts": (lambda x: opset18.Split(x, num_outputs=2), X.reshape(-1)[:5]),
    "lengths": (lambda x: opset18.Split(x, [1, 3], axis=-1), X),
    "hardmax": (lambda x: opset18.Hardmax(x, axis=0), X),
    "layer": (lambda x: opset18.LayerNormalization(x, [1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]), X),
    "layer, axis": (lambda x: opset18.LayerNormalization(x, np.ones((2, 4), np.float32), axis=0)[0], X),
    "clipped by a value": (lambda x: opset18.Clip(x, opset18.ReduceMean(x, keepdims=0)), X),
    "above": (lambda x: opset18.Clip(x, None, 1.0), np.array([np.inf, -np.inf, 2.0], np.float32)),
    "nothing dropped": (lambda x: opset18.Dropout(x, 0.5, False), X),
    "no bias": (lambda x: opset18.Gemm(x, x, transB=1, alpha=2.0), X),
    "counted": (lambda x: opset18.Range(2, opset18.ReduceSum(x, keepdims=0), 3), np.array([2, 9], np.int64)),
    "counted down": (lambda x: opset18.Range(opset18.ReduceSum(x, keepdims=0), 2, -3), np.array([2, 8], np.int64)),
    "counted to nothing": (lambda x: opset18.Range(0, opset18.ReduceSum(x, keepdims=0), 1), -INTEGERS[1]),
    "smallest": (lambda x: opset18.TopK(x, [2], largest=0), X),
    "steps back": (lambda x: opset18.Slice(x, [-1, 0], [-9, 2], [1, 0], [-2, 1]), X),
    "from the back": (lambda x: opset18.Gather(x, [-1, 0], axis=-1), X),
    "elements": (lambda x: opset18.GatherElements(x, [[0, -1], [1, 2]], axis=-1), X),
    "rows": (lambda x: opset18.GatherND(x, [[1], [-2]]), X),
    "blocks": (lambda x: opset18.DepthToSpace(opset18.Reshape(x, [1, 8, 1, 1]), blocksize=2, mode="CRD"), X),
    "infinite": (lambda x: opset18.IsInf(x, detect_negative=0), np.array([np.inf, -np.inf, np.nan, 1], np.float32)),
    "infinite below": (lambda x: opset18.IsInf(x, detect_positive=0), np.array([np.inf, -np.inf, np.nan], np.float32)),
    "rest": (lambda x: opset18.Mod(x, 4), INTEGERS),
    "rest, negative": (lambda x: opset18.Mod(x, -4), INTEGERS),
    "rest as in C": (lambda x: opset18.Mod(x, 4, fmod=1), INTEGERS),
    "activations": (lambda x: [opset18.Mish(x), opset18.HardSwish(x), opset18.Celu(x, alpha=2.0)], X),
    "squared": (lambda x: opset18.Pow(x, 2), X),
    "doubled": (lambda x: opset18.Resize(x, None, [1.0, 2.0], mode="nearest", **REPEATED), X),
    "doubled to a size": (lambda x: opset18.Resize(x, None, None, [2, 8], mode="nearest", **REPEATED), X),
    "scattered": (lambda x: opset18.ScatterElements(x, [[0, 2]], [[9.0, 8.0]], axis=-1), X),
    "empty": (lambda x: opset18.Reshape(x, [3, 0], allowzero=1), np.zeros((0, 2), np.float32)),
    "not empty": (lambda x: opset18.Reshape(x, [4, 2], allowzero=1), X),
    "pooled": (lambda x: opset18.MaxPool(opset18.Unsqueeze(x, [0]), kernel_shape=[2], dilations=[1])[0], X),
}
REPEATED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.mark.parametrize("opset", [9, 10, 11, 12, 13, 14, 16, 17])
@pytest.mark.parametrize("name", OLDER)
def test_calls_of_opset_18_mean_the_same_in_older_ones(name, opset):
    function, array = OLDER[name]
    want, _ = run(function, array, opset=18)
    got, _ = run(function, array, opset=opset)
    assert len(got) == len(want)
    for actual, wanted in zip(got, want, strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("opset", [9, 10, 11, 13, 15, 17])
def test_scattering_with_a_reduction(opset, reduction):
    functions = [
        lambda x: opset18.ScatterElements(x, [[1, 0, -1, 1], [0, 0, 0, 0]], x, reduction=reduction),
        lambda x: opset18.ScatterElements(
            x, [[1], [-1]], opset18.Slice(x, [0], [1], [1]), axis=-1, reduction=reduction
        ),
    ]
    if opset >= 11:
        functions.append(lambda x: opset18.ScatterND(x, [[1], [-1]], x, reduction=reduction))
        functions.append(lambda x: opset18.ScatterND(x, [1, 0], opset18.ReduceSum(x, keepdims=0), reduction=reduction))
    for function in functions:
        (want,), _ = run(function, X, opset=18)
        (got,), kinds = run(function, X, opset=opset)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert ("Loop" in kinds) == (function in functions[::2] and opset < (16 if reduction in ("add", "mul") else 18))


@pytest.mark.parametrize("opset", [10, 13, 17])
def test_sizes_that_are_not_known(opset):
    """Sizes of "n" are found out in the model, or not needed."""
    functions = [
        lambda x: opset18.Split(opset18.Add(x, x), axis=1, num_outputs=2),
        lambda x: opset18.GatherElements(opset18.Neg(x), opset18.ArgMax(x, axis=1), axis=-1),
        lambda x: opset18.GatherND(x, opset18.Transpose(opset18.NonZero(x))),
        lambda x: opset18.Trilu(opset18.Neg(x), 1, upper=0),
        lambda x: opset18.Softmax(opset18.Abs(x), axis=0),
        lambda x: opset18.Unsqueeze(opset18.Transpose(x), [-1, 0]),
        lambda x: opset18.Squeeze(opset18.Slice(opset18.Neg(x), [0], [1], [-2]), [-2]),
        lambda x: opset18.Softmax(opset18.Reshape(x, opset18.Shape(opset18.Transpose(x))), axis=0),
        lambda x: opset18.Gather(x, [-1], axis=0),
    ]
    for function in functions:
        want, _ = run(function, X, opset=18)
        got, _ = run(function, X, opset=opset, shapes=[["n", "m"]])
        for actual, wanted in zip(got, want, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)


@pytest.mark.parametrize("opset", [9, 12, 13])
def test_the_same_form_is_built_as_it_is(opset):
    _, kinds = run(lambda x: opset18.Relu(opset18.Concat(x, opset18.Transpose(x, perm=[0, 1]), axis=0)), X, opset=opset)
    assert kinds == ["Concat", "Relu"]
    _, kinds = run(lambda x: opset18.ReduceSum(x, [0]), X, opset=opset)
    assert kinds == ["ReduceSum"]


def _computed(x):
    """The number of elements that are not 0, which only a run tells."""
    return opset18.Shape(opset18.NonZero(x), start=1, end=2)


REFUSED = {
    "CumSum requires opset 11": lambda x: opset18.CumSum(x, 1),
    "BitwiseAnd requires opset 18": lambda x: opset18.BitwiseAnd(opset18.Shape(x), 1),
    "GridSample requires opset 16": lambda x: opset18.GridSample(x, x),
    "Einsum requires opset 12": lambda x: opset18.Einsum(x, x, equation="ij,kj->ik"),
    "OptionalHasElement requires opset 15": lambda x: opset18.OptionalHasElement(x),
    "ReduceMax with axes computed at run time requires opset 18": lambda x: opset18.ReduceMax(x, _computed(x)),
    "ReduceSum with axes computed at run time requires opset 13": lambda x: opset18.ReduceSum(x, _computed(x)),
    "ReduceL1 over no axes requires opset 18": lambda x: opset18.ReduceL1(x, [], noop_with_empty_axes=1),
    "TopK with a k computed at run time requires opset 10": lambda x: opset18.TopK(x, _computed(x)),
    "TopK of integers requires opset 11": lambda x: opset18.TopK(opset18.Shape(x), [1]),
    "Slice with bounds computed at run time requires opset 10": lambda x: opset18.Slice(x, [0], _computed(x)),
    "Pad with amounts computed at run time requires opset 11": lambda x: opset18.Pad(
        x, opset18.Concat(_computed(x), [0, 0, 0], axis=0)
    ),
    "Resize antialiased requires opset 18": lambda x: opset18.Resize(x, None, [1.0, 0.5], mode="linear", antialias=1),
    "Resize other than by repeating elements a constant number of times requires opset 11": lambda x: opset18.Resize(
        x, None, [1.0, 2.0], mode="linear"
    ),
    "Dropout in training requires opset 12": lambda x: opset18.Dropout(x, 0.5, True),
    "Pow of integers requires opset 12": lambda x: opset18.Pow(opset18.NonZero(x), 2),
    "ArgMax with the attribute 'select_last_index' requires opset 12": lambda x: opset18.ArgMax(x, select_last_index=1),
    "ScatterND requires opset 11": lambda x: opset18.ScatterND(x, [[0]], opset18.Slice(x, [0], [1]), reduction="add"),
    "BatchNormalization with the attribute 'training_mode' requires opset 14": lambda x: opset18.BatchNormalization(
        x, [1.0], [1.0], [1.0], [1.0], training_mode=1
    ),
    "GatherND with the attribute 'batch_dims' requires opset 12": lambda x: opset18.GatherND(
        x, [[0], [0]], batch_dims=1
    ),
    "Range of types other than integers, or with a computed step requires opset 11": lambda x: opset18.Range(
        0.0, opset18.ReduceMax(x, keepdims=0), 1.0
    ),
    "Gelu was added to ONNX in opset 20": lambda x: opset20.Gelu(x),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_older_form_is_refused_with_the_opset_that_has_one(text):
    with pytest.raises(TranslationError) as caught:
        run(REFUSED[text], X, opset=9)
    needed = text.rpartition(" ")[2]
    assert str(caught.value).startswith(text)
    assert "the model is built for opset 9" in str(caught.value)
    assert f"Export with opset_version={needed} or newer." in str(caught.value)
    if int(needed) < 18 and "Optional" not in text and "Grid" not in text:
        run_or_fit = Builder(int(needed))
        value = run_or_fit.value("x", ir.DataType.FLOAT, X.shape)
        with run_or_fit.translating():
            assert REFUSED[text](value) is not None


def test_operators_that_ended_are_refused():
    with pytest.raises(TranslationError, match="Upsample was removed from ONNX before opset 18"):
        run(lambda x: opset9.Upsample(x, [1.0, 2.0]), X, opset=18)
    with pytest.raises(TranslationError, match="no operator Nonesuch"):
        Builder(9).emit("Nonesuch", (1.0,))


NEWER = {
    "Softmax": (lambda x: opset11.Softmax(x), 11),
    "Softmax, from the back": (lambda x: opset11.LogSoftmax(x, axis=-1), 11),
    "Pad": (lambda x: opset9.Pad(x, pads=[0, 1, 0, 0], value=2.0), 9),
    "TopK": (lambda x: opset9.TopK(x, k=2), 9),
    "Clip": (lambda x: opset9.Clip(x, min=0.0, max=1.0), 9),
    "Slice": (lambda x: opset9.Slice(x, axes=[1], starts=[1], ends=[3]), 9),
    "Squeeze": (lambda x: opset11.Squeeze(opset11.Unsqueeze(x, axes=[0]), axes=[0]), 11),
    "ReduceSum": (lambda x: opset11.ReduceSum(x, axes=[1], keepdims=0), 11),
    "ReduceMean": (lambda x: opset13.ReduceMean(x, axes=[1], keepdims=0), 13),
    "Split": (lambda x: opset11.Split(x, axis=1, split=[1, 3]), 11),
    "Split by an input": (lambda x: opset13.Split(x, [1, 3], axis=1), 13),
    "Gather": (lambda x: opset9.Gather(x, [1], axis=1), 9),
}


@pytest.mark.parametrize("name", NEWER)
def test_calls_of_older_opsets_mean_the_same_in_newer_ones(name):
    """A translation or function that a user wrote for opset 9 is used at 9 and above."""
    function, oldest = NEWER[name]
    want, _ = run(function, X, opset=oldest)
    for opset in (opset for opset in (10, 11, 12, 13, 18, 20) if opset > oldest):
        got, _ = run(function, X, opset=opset)
        for actual, wanted in zip(got, want, strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_what_meant_something_else_is_refused():
    with pytest.raises(TranslationError, match="all axes from axis=0 on"):
        run(lambda x: opset11.Softmax(x, axis=0), X, opset=13)


def test_aligned_regions_keep_their_coordinates():
    def aligned(x):
        image = opset11.Unsqueeze(x, axes=[0, 1])
        return opset11.RoiAlign(image, [[0.0, 0.0, 2.0, 1.0]], [0], output_height=2, output_width=2)

    want, _ = run(aligned, X, opset=11)
    got, _ = run(aligned, X, opset=18)
    np.testing.assert_array_equal(got[0], want[0])


def test_every_opset_has_the_form_of_its_own():
    for opset in range(opsets.OLDEST, opsets.WRITTEN_FOR + 1):
        schema = opsets.native_schema("Squeeze", opset)
        assert schema is not None
        assert ("axes" in schema.attributes) == (opset < 13)
        assert schema.since == onnx.defs.get_schema("Squeeze", opset).since_version
    assert opsets.native_schema("CumSum", 10) is None
    assert not opsets.allows("Equal", 10, {"T": "tensor(float)"})
    assert opsets.allows("Equal", 11, {"T": "tensor(float)"})


class Mystery(torch.nn.Module):
    def forward(self, x):
        return torch.ops.opsettest.mystery(x)


@pytest.fixture
def registered():
    """An operator of this file's own, and a place for its translations that is emptied afterwards."""
    library = torch.library.Library("opsettest", "FRAGMENT")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", lambda x: x.sum(-1), "CompositeExplicitAutograd")
    library.impl("mystery", lambda x: x.new_empty(x.shape[:-1]), "Meta")
    with opbridge.override():
        yield opbridge.translation
    library._destroy()


def _sum(x):
    return opset18.ReduceSum(x, [-1], keepdims=0)


def test_a_users_translation_without_an_opset_serves_them_all(registered):
    registered("opsettest::mystery")(_sum)
    for opset in (9, 12, 13, 20):
        assert opbridge.export(Mystery(), (torch.randn(2, 3),), opset_version=opset).verification.ok


def test_a_users_translation_for_opset_9_is_used_at_9_and_above(registered):
    registered("opsettest::mystery", opset=9)(lambda x: opset9.ReduceSum(x, axes=[1], keepdims=0))
    for opset in (9, 12, 13, 20):
        program = opbridge.export(Mystery(), (torch.randn(2, 3),), opset_version=opset)
        assert program.verification.ok
        assert program.plan.rows[0].how == "user translation, opset 9"


def test_a_users_translation_for_opset_18_is_not_used_below(registered):
    registered("opsettest::mystery", opset=18)(_sum)
    assert opbridge.check(Mystery(), (torch.randn(2, 3),), opset_version=18).ok
    (row,) = opbridge.check(Mystery(), (torch.randn(2, 3),), opset_version=17).missing
    assert "translated from opset 18" in row.reason


def test_of_a_users_translations_the_one_for_the_opset_comes_first(registered):
    registered("opsettest::mystery")(_sum)
    registered("opsettest::mystery", opset=9)(lambda x: opset9.ReduceSum(x, axes=[-1], keepdims=0))
    for opset, taken in ((9, 9), (17, 9), (18, 18)):
        plan = opbridge.check(Mystery(), (torch.randn(2, 3),), opset_version=opset)
        assert plan.rows[0].how == f"user translation, opset {taken}"


def test_the_body_of_an_onnx_function_is_of_the_models_opset(registered):
    domain = onnxscript.values.Opset("opsettest", 1)
    op = opset18

    @onnxscript.script(domain, default_opset=opset18)
    def total(x):
        return op.ReduceMax(op.Abs(x), op.Constant(value_ints=[-1]), keepdims=0)

    registered("opsettest::mystery")(total)
    assert opbridge.check(Mystery(), (torch.randn(2, 3),), opset_version=18).ok
    (row,) = opbridge.check(Mystery(), (torch.randn(2, 3),), opset_version=15).missing
    assert "The ONNX function total is written for opset 18 and uses ReduceMax" in row.reason
    assert "Export with opset_version=18 or newer" in row.reason


def test_a_function_whose_operators_did_not_change_is_taken_along(registered):
    domain = onnxscript.values.Opset("opsettest", 1)
    op = opset15

    @onnxscript.script(domain, default_opset=opset15)
    def total(x):
        return op.ReduceL1(op.Exp(op.Log(x)), axes=[-1], keepdims=0)

    class Summed(torch.nn.Module):
        def forward(self, x):
            return torch.ops.opsettest.mystery(x.abs())

    registered("opsettest::mystery")(total)
    program = opbridge.export(Summed(), (torch.randn(2, 3),), opset_version=11)
    assert program.verification.ok
    assert program.model.ir_version == 8


def test_types_that_came_later_are_widened():
    """uint8 has an Add since opset 14, bool an Equal always, int16 a Where in ONNX and in no runtime."""
    for opset in (9, 13):
        program = opbridge.export(
            lambda x: torch.where(x == 3, x + x, x),
            (torch.tensor([1, 3, 200], dtype=torch.uint8),),
            opset_version=opset,
        )
        assert program.verification.ok


def test_a_type_that_no_wider_one_stands_in_for_is_refused_with_the_opset_that_has_it():
    with pytest.raises(
        opbridge.MissingOperators, match=r"Cast of .*at opset 9\. Export with opset_version=13 or newer"
    ):
        opbridge.export(lambda x: x.to(torch.bfloat16), (torch.randn(3),), opset_version=9)


def test_opsets_out_of_range():
    for opset in (8, 99, "11", True):
        with pytest.raises(opbridge.UsageError, match="opset 9 and newer"):
            opbridge.check(torch.nn.ReLU(), (torch.randn(3),), opset_version=opset)
