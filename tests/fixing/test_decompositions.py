"""Operators that a target lacks, written with others: beside the original in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from helpers.repairs import kept, model, operators, repaired

import opbridge
from opbridge import fixing
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session
from opbridge.targets import find_target


@pytest.mark.parametrize(
    ("settings", "groups", "offset_groups", "masked", "biased"),
    [
        ("pads = [1, 1, 1, 1]", 1, 1, True, True),
        ("strides = [2, 1], pads = [0, 2, 0, 2]", 2, 2, False, True),
        ("dilations = [2, 1], pads = [2, 0, 2, 0]", 1, 2, True, False),
    ],
)
@pytest.mark.torchvision
@pytest.mark.parametrize("sizes", ["2, 4, 7, 6", "n, 4, h, w"])
def test_deformable_convolution(lacking, settings, groups, offset_groups, masked, biased, sizes):
    torchvision = pytest.importorskip("torchvision")

    rng = np.random.default_rng(0)
    stride, dilation = ([2, 1], [1, 1]) if "strides" in settings else ([1, 1], [2, 1] if "dil" in settings else [1, 1])
    pads = [2, 0] if "dil" in settings else [0, 2] if "strides" in settings else [1, 1]
    weight = rng.standard_normal((6, 4 // groups, 3, 2)).astype("f")
    rest = ("b" if biased else "") + (", m" if masked else "")
    places = "2, {0}, p, q" if sizes[0] == "2" else "n, {0}, p, q"
    made = model(
        f"(float[{sizes}] x, float[{places.format(12 * offset_groups)}] o"
        + (f", float[{places.format(6 * offset_groups)}] m" if masked else "")
        + f") => (float[] y) {{ y = DeformConv <{settings}, group = {groups}, offset_group = {offset_groups}>"
        f" (x, w, o, {rest}) }}",
        opset=19,
        ir_version=9,
        w=weight,
        b=rng.standard_normal(6).astype("f"),
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    changed = ir.from_proto(made)
    changes, _ = fixing.repaired(changed, [find_target(lacking("DeformConv"))])
    assert "missing-operator" in {each.finding.rule for each in changes}
    assert "DeformConv" not in {each.op_type for each in changed.graph}
    session = open_session(serialize.to_bytes(changed), False)
    for height, width in ((7, 6), (5, 9)) if sizes[0] == "n" else ((7, 6),):
        x = rng.standard_normal((2, 4, height, width)).astype("f")
        x[0, 0, 0, 0] = np.nan
        rows = (height + 2 * pads[0] - dilation[0] * 2 - 1) // stride[0] + 1
        columns = (width + 2 * pads[1] - dilation[1] - 1) // stride[1] + 1
        offset = 3 * rng.standard_normal((2, 12 * offset_groups, rows, columns)).astype("f")
        mask = rng.random((2, 6 * offset_groups, rows, columns)).astype("f")
        want = torchvision.ops.deform_conv2d(
            *map(torch.from_numpy, (x, offset, weight)),
            bias=torch.from_numpy(np.array(onnx.numpy_helper.to_array(made.graph.initializer[1]))) if biased else None,
            stride=stride,
            padding=pads,
            dilation=dilation,
            mask=torch.from_numpy(mask) if masked else None,
        )
        feeds = {"x": x, "o": offset, **({"m": mask} if masked else {})}
        np.testing.assert_allclose(session.run(None, feeds)[0], want.numpy(), rtol=1e-4, atol=1e-4)


def test_deformable_convolution_below_opset_11_is_kept(lacking):
    made = model(
        "(float[1, 2, 4, 4] x, float[1, 18, 4, 4] o) => (float[1, 3, 4, 4] y) { y = opbridge_ops.deform_conv2d <stride"
        " = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1, offset_groups = 1> (x, w, o) }",
        opset=10,
        w=np.zeros((3, 2, 3, 3), "f"),
    )
    made.opset_import.append(onnx.helper.make_opsetid("opbridge_ops", 1))
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target(lacking("opbridge_ops::deform_conv2d"))])
    assert not changes and "below opset 11" in left[0].remedy


@pytest.mark.slow
@pytest.mark.torchvision
def test_a_kernel_of_opbridge_is_written_with_operators_for_a_target_that_loads_none(tmp_path):
    torchvision = pytest.importorskip("torchvision")

    class Deforming(torchvision.ops.DeformConv2d):
        def forward(self, x, offset):
            return super().forward(x, offset)

    args = (torch.randn(2, 3, 5, 6), torch.randn(2, 18, 5, 6))
    module = Deforming(3, 4, 3, padding=1).eval()
    program = opbridge.export(module, args, tmp_path / "m.onnx", opset_version=15, target="web", dynamic_shapes="batch")
    assert program.verification.ok and not {each.domain for each in program.model.graph} - {""}


def test_functions_are_inlined_where_the_target_takes_none(lacking):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "mine": 1]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ a = mine.Outer <alpha = 0.5> (x) y = mine.Outer <alpha = 2.0> (a) }"
        '<domain: "mine", opset_import: ["" : 18, "mine": 1]> Outer <alpha> (x) => (y) '
        "{ a = LeakyRelu <alpha : float = @alpha> (x) y = mine.Inner (a) }"
        '<domain: "mine", opset_import: ["" : 18]> Inner (x) => (y) { y = Neg (x) }'
    )
    for node in made.graph.node:
        node.metadata_props.add(key="opbridge.source", value="net.py:7")
    fixed = repaired(made, lacking(facts='[[fact]]\nkind = "functions"\nsource = "published: x"\n'), "local-function")
    assert operators(fixed) == {"LeakyRelu", "Neg"} and not fixed.model.functions


def test_functions_that_call_themselves_are_kept(lacking):
    made = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "mine": 1]> g (float[4] x) => (float[4] y) { y = mine.F (x) }'
        '<domain: "mine", opset_import: ["" : 18, "mine": 1]> F (x) => (y) { y = mine.F (x) }'
    )
    target = lacking(facts='[[fact]]\nkind = "functions"\nsource = "published: x"\n')
    kept(made, target, "local-function", "that calls itself")


def _results(made: onnx.ModelProto, target: str, feeds: dict[str, np.ndarray], without: str) -> list[np.ndarray]:
    """What the repaired model gives."""
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target(target)])
    assert changes and without not in {each.op_type for each in changed.graph}, left
    return open_session(serialize.to_bytes(changed), False).run(None, feeds)


_BITS = {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("operator", _BITS)
def test_bitwise(lacking, operator, dtype):
    made = model(f"({dtype}[n, 5] x, {dtype}[5] z) => ({dtype}[n, 5] y) {{ y = {operator} (x, z) }}")
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    for count in (0, 1, 7):
        x = rng.integers(limits.min, limits.max, (count, 5), dtype, endpoint=True)
        z = np.array([limits.min, limits.max, 0, 1, limits.max // 3], dtype)
        (found,) = _results(made, lacking(operator), {"x": x, "z": z}, operator)
        np.testing.assert_array_equal(found, _BITS[operator](x, z))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_bitwise_not(lacking, dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 1, limits.max // 3], dtype)
    made = model(f"({dtype}[5] x) => ({dtype}[5] y) {{ y = BitwiseNot (x) }}")
    np.testing.assert_array_equal(_results(made, lacking("BitwiseNot"), {"x": x}, "BitwiseNot")[0], ~x)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_bit_shift(lacking, dtype, direction):
    made = model(
        f'({dtype}[n] x, {dtype}[n] z) => ({dtype}[n] y) {{ y = BitShift <direction = "{direction}"> (x, z) }}'
    )
    greatest = np.iinfo(dtype).max
    x, z = np.array([0, 1, greatest, greatest // 3, greatest], dtype), np.array([3, 7, 1, 2, 0], dtype)
    want = x << z if direction == "LEFT" else x >> z
    np.testing.assert_array_equal(_results(made, "tensorrt:10.1", {"x": x, "z": z}, "BitShift")[0], want)


@pytest.mark.parametrize("operator", ["BitwiseAnd", "BitShift"])
def test_bits_of_uint64_are_kept(lacking, operator):
    setting = '<direction = "LEFT">' if operator == "BitShift" else ""
    made = model(f"(uint64[n] x, uint64[n] z) => (uint64[n] y) {{ y = {operator} {setting} (x, z) }}")
    kept(made, lacking(operator), said="of uint64")


@pytest.mark.parametrize("sizes", ["2, 3, 7, 8", "n, c, h, w"])
@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape = [2, 3]",
        "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]",
        "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1",
        "kernel_shape = [2, 2], dilations = [2, 3], strides = [1, 2], pads = [0, 1, 1, 0]",
    ],
)
def test_max_pool_with_places(lacking, attributes, sizes):
    text = f"(float[{sizes}] x) => (float[] y, int64[] i) {{ y, i = MaxPool <{attributes}> (x) }}"
    made = model(text)
    for each in made.graph.output:
        each.type.tensor_type.ClearField("shape")
    changed = ir.from_proto(made)
    fact = '[[fact]]\nkind = "absent"\noperators = ["MaxPool"]\noutputs = ["Indices"]\nsource = "published: x"\n'
    changes, left = fixing.repaired(changed, [find_target(lacking(facts=fact))])
    assert changes and not left
    sessions = [open_session(each, False) for each in (made.SerializeToString(), serialize.to_bytes(changed))]
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 7, 8), (1, 1, 5, 9)) if sizes[0] == "n" else ((2, 3, 7, 8),):
        for x in (rng.standard_normal(shape), rng.integers(0, 3, shape), np.full(shape, -2.0)):
            want, found = (each.run(None, {"x": x.astype("f")}) for each in sessions)
            for one, other in zip(want, found, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "setting", ['auto_pad = "SAME_UPPER"', "storage_order = 1", "strides = [3, 3], pads = [0, 0, 1, 1], ceil_mode = 1"]
)
def test_max_pool_with_places_is_kept(setting):
    made = model(
        f"(float[1, 1, 6, 6] x) => (float[] y, int64[] i) {{ y, i = MaxPool <kernel_shape = [2, 2], {setting}> (x) }}"
    )
    for each in made.graph.output:
        each.type.tensor_type.ClearField("shape")
    said = "whose last window" if "ceil" in setting else "with auto_pad"
    kept(made, "tensorrt:10.1", "unsupported-argument", f"There is no repair for MaxPool {said}")


@pytest.mark.parametrize("attributes", ["", "inverse = 1", "onesided = 1"])
@pytest.mark.parametrize(("shape", "axis"), [("b, n, 1", 1), ("b, n, 2", 1), ("n, b, 3, 2", 0)])
def test_dft_of_any_length(shape, axis, attributes):
    if attributes == "onesided = 1" and shape.endswith("2"):
        return  # for real numbers only
    setting = ", ".join(filter(None, [attributes, f"axis = {axis}"]))
    made = model(f"(float[{shape}] x) => (float[] y) {{ y = DFT <{setting}> (x) }}", opset=17)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert "MatMul" in operators(repaired(made, "tensorrt:8.6"))


def test_stft_with_a_window_that_the_model_computes():
    made = model(
        "(float[n, t, 1] x, float[16] z) => (float[n, f, k, 2] y) { w = Abs (z) y = STFT (x, h, w, l) }",
        h=np.array(5),
        l=np.array(16),
    )
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target("tensorrt:8.6")])
    assert changes and "Conv" in {each.op_type for each in changed.graph}, left
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((2, 40, 1)).astype("f"), "z": rng.standard_normal(16).astype("f")}
    want, found = (
        open_session(each, False).run(None, feeds)[0]
        for each in (made.SerializeToString(), serialize.to_bytes(changed))
    )
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", _COORDINATES)
@pytest.mark.parametrize(
    "setting", ['mode = "linear"', 'mode = "cubic"', 'mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5']
)
def test_resize_of_any_size(lacking, setting, coordinates):
    call = f'y = Resize <{setting}, coordinate_transformation_mode = "{coordinates}">'
    rng = np.random.default_rng(0)
    for inputs, numbers in (
        ("x, , s", np.float32([1, 1, 2, 0.6])),
        ("x, , , s", np.array([2, 3, 9, 1])),
    ):
        texts = [
            (f"(float[n, c, h, w] x) => (float[a, b, p, q] y) {{ {call} ({inputs}) }}", {"s": numbers}),
            (
                f"(float[n, c, h, w] x, {'float' if numbers.dtype == np.float32 else 'int64'}[4] s) =>"
                f" (float[a, b, p, q] y) {{ {call} ({inputs}) }}",
                {},
            ),
        ]
        for text, constants in texts:
            made = model(text, **constants)
            changed = ir.from_proto(made)
            changes, left = fixing.repaired(changed, [find_target(lacking("Resize"))])
            assert changes and "Resize" not in {each.op_type for each in changed.graph}, left
            sessions = [open_session(each, False) for each in (made.SerializeToString(), serialize.to_bytes(changed))]
            for height, width in ((5, 7), (4, 1)):
                feeds = {"x": rng.standard_normal((2, 3, height, width)).astype("f")}
                if not constants:
                    feeds["s"] = numbers
                if width * numbers[3] < 1 and numbers.dtype == np.float32:
                    continue
                want, found = (each.run(None, feeds)[0] for each in sessions)
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


_GELU = "(float[n, 5] x) => (float[n, 5] y) {{ a = Div (x, c) b = Erf (a) d = Add (b, o) {} }}"


@pytest.mark.parametrize("end", ["e = Mul (x, d) y = Mul (e, h)", "e = Mul (d, x) y = Mul (h, e)"])
def test_gelu_in_an_order_that_mnn_does_not_take_for_its_own(end):
    made = model(_GELU.format(end), opset=17, c=np.float32(2**0.5), o=np.float32(1), h=np.float32(0.5))
    fixed = repaired(made, "mnn", "faulty-chain")
    assert operators(fixed) == {"Mul", "Erf", "Div", "Add"}


def test_products_of_other_numbers_are_kept_in_their_order():
    made = model(
        _GELU.format("e = Mul (x, d) y = Mul (e, h)"), opset=17, c=np.float32(1), o=np.float32(1), h=np.float32(0.3)
    )
    kept(made, "mnn", "faulty-chain", "There is no repair for Mul in this order")


def test_gelu_is_written_with_erf_where_a_target_computes_it_with_tanh():
    made = model("(float[n, 5] x) => (float[n, 5] y) { y = Gelu (x) }", opset=20, ir_version=9)
    assert "Erf" in operators(repaired(made, "mnn", "unsupported-attribute"))
    tanh = model('(float[n, 5] x) => (float[n, 5] y) { y = Gelu <approximate = "tanh"> (x) }', opset=20, ir_version=9)
    changed = ir.from_proto(tanh)
    changes, _ = fixing.repaired(changed, [find_target("mnn")])
    assert not [each for each in changes if each.finding.rule == "unsupported-attribute"]
