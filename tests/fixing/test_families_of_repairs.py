"""Each family of repairs: where it fires, where it does not, and the results, beside the original in ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from helpers.repairs import fix, kept, model, operators, ranked, repaired, repaired_by_reference

from opbridge import fixing
from opbridge.fixing.evaluator import compare_with_evaluator
from opbridge.onnx import serialize
from opbridge.runtimes.onnxruntime import open_session
from opbridge.side_by_side import compare
from opbridge.targets import find_target


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ([3, 4], [4, 5])),
        ("bij,bjk->bik", (["b", 3, "n"], ["b", "n", 5])),
        ("bhid,bhjd->bhij", (["b", 2, "n", 4], ["b", 2, "m", 4])),
        ("bhij,bhjd->bihd", (["b", 2, 3, "n"], ["b", 2, "n", 4])),
        ("...ij,jk", (["b", 2, 3, 4], [4, 5])),
        ("ii->i", ([4, 4],)),
        ("ii", (["n", "n"],)),
        ("ij->ji", ([3, "n"],)),
        ("ij->", ([3, "n"],)),
        ("i,j->ij", (["n"], ["m"])),
        ("bi,bi->b", (["b", 4], ["b", 4])),
        ("ijk,ilm,njm,nlk,abc->", ([2, 3, 2], [2, 2, 3], [2, 3, 3], [2, 2, 2], [2, 2, 2])),
        ("abc,cd,de->abe", ([2, 3, 4], [4, 2], [2, 3])),
        ("bnij,bnjkl->bnikl", ([2, 1, 3, 4], [2, 5, 4, 2, 3])),
        ("bxy,ioxy->bi", ([2, 3, 4], [5, 2, 3, 4])),
        ("aij,ajk->ik", ([2, 3, 4], [2, 4, 3])),
    ],
)
def test_einsum(lacking, equation, shapes):
    inputs = ranked({f"x{at}": each for at, each in enumerate(shapes)})
    names = ", ".join(f"x{at}" for at in range(len(shapes)))
    made = model(f'({inputs}) => (float[] y) {{ y = Einsum <equation = "{equation}"> ({names}) }}')
    made.graph.output[0].type.tensor_type.ClearField("shape")
    fixed = repaired(made, lacking("Einsum"))
    assert operators(fixed) <= {
        *("MatMul", "Mul", "Transpose", "Reshape", "ReduceSum", "Constant", "Unsqueeze", "Squeeze", "Where", "Range"),
        *("Equal", "Shape", "Gather", "Concat", "Identity"),
    }


def test_einsum_of_unknown_rank_is_kept(lacking):
    made = model(
        '(float[2, 2] x) => (float[2] y) { a, b = Split <num_outputs = 2> (x) y = Einsum <equation="i,i"> (a) }'
    )
    kept(made, lacking("Einsum"), said="number of terms")


_LIMIT = '[[fact]]\nkind = "below"\noperators = ["TopK"]\ninput = "K"\nbound = 5\nsource = "published: x"\n'


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("k", "axis", "shape"), [(5, -1, "2, 9"), (9, 1, "2, 9"), (13, 0, "13, b"), (6, 1, "b, 8, 2")])
def test_topk_in_parts(lacking, k, axis, shape, largest):
    call = f"v, i = TopK <axis = {axis}, largest = {largest}> (x, k)"
    made = model(f"(float[{shape}] x) => (float[p, q] v, int64[p, q] i) {{ {call} }}", k=np.array([k]))
    for each in made.graph.output:
        each.type.tensor_type.ClearField("shape")
    fixed = repaired(made, lacking(facts=_LIMIT), "too-large")
    assert fixed.comparison.largest == 0 and {len(each.shapes) for each in fixed.comparison.runs} == {1}


def test_topk_in_parts_of_equal_infinite_and_missing_numbers(lacking):
    made = model("(float[12] x) => (float[11] v, int64[11] i) { v, i = TopK (x, k) }", k=np.array([11]))
    fixed = fix(made, lacking(facts=_LIMIT))
    x = np.float32([1, -np.inf, 1, -np.inf, -3.4028235e38, np.inf, np.inf, 0, -np.inf, 1, 2, -np.inf])
    (expected, found) = (each.run(None, {"x": x}) for each in map(_session, (made.SerializeToString(), fixed.content)))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def _session(content):
    return open_session(content, False, optimised=False)


def test_topk_of_a_computed_number_is_no_finding(lacking):
    made = model("(float[9] x, int64[1] k) => (float[k] v, int64[k] i) { v, i = TopK (x, k) }")
    assert not fix(made, lacking(facts=_LIMIT)).changes


@pytest.mark.parametrize(
    ("attributes", "numbers"),
    [
        ('mode = "cubic"', [1, 1, 2, 1.5]),
        ('mode = "cubic", antialias = 1', [1, 1, 0.5, 0.25]),
        ('mode = "linear", antialias = 1', [1, 1, 0.5, 0.5]),
        ('mode = "cubic", coordinate_transformation_mode = "align_corners", cubic_coeff_a = -0.5', [1, 1, 2, 2]),
        ('mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel", exclude_outside = 1', [1, 1, 2, 0.5]),
        ('mode = "linear", antialias = 1', np.array([2, 3, 5, 4])),
    ],
)
def test_resize(attributes, numbers):
    at = "s, " if isinstance(numbers, list) else ", s"
    made = model(
        f"(float[2, 3, 8, 12] x) => (float[a, b, c, d] y) {{ y = Resize <{attributes}> (x, , {at.strip(', ')}) }}"
        if isinstance(numbers, list)
        else f"(float[2, 3, 8, 12] x) => (float[a, b, c, d] y) {{ y = Resize <{attributes}> (x, , , s) }}",
        s=np.float32(numbers) if isinstance(numbers, list) else numbers,
    )
    assert "Resize" not in operators(repaired(made, "tensorrt:10.1", "unsupported-attribute"))


def test_antialiased_resize_of_a_dynamic_size_is_kept():
    made = model(
        '(float[1, 1, n, 4] x) => (float[a, b, c, d] y) { y = Resize <mode = "cubic", antialias = 1> (x, , s) }',
        s=np.float32([1, 1, 2, 2]),
    )
    kept(made, "tensorrt:10.1", "unsupported-attribute", "There is no repair for Resize of a dynamic size with anti")


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("dims", [2, 3])
def test_grid_sample(lacking, dims, mode, padding, align):
    if dims == 3 and mode == "cubic":
        return  # ONNX Runtime has no kernel to compare with
    data, grid = (["n", 2, *[4, 5, 3][:dims]], ["n", *[3, 2, 4][:dims], dims])
    made = model(
        f'({ranked({"x": data, "g": grid})}) => (float[] y) {{ y = GridSample <mode = "{mode}", padding_mode ='
        f' "{padding}", align_corners = {align}> (x, g) }}',
        opset=20,
        ir_version=9,
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    target = ("tensorrt:10.1", "unsupported-rank") if dims == 3 else (lacking("GridSample"), "missing-operator")
    assert "GridSample" not in operators(repaired(made, *target))


@pytest.mark.parametrize(
    ("attributes", "image", "block", "count"),
    [
        ("", [5, 6], [2, 3], 16),
        ("strides = [2, 2], pads = [1, 1, 1, 1]", [6, 5], [3, 3], 9),
        ("dilations = [2, 1], strides = [1, 3]", [7, 8], [2, 2], 15),
    ],
)
def test_col2im(attributes, image, block, count):
    within = block[0] * block[1]
    call = f"y = Col2Im <{attributes}> (x, i, b)" if attributes else "y = Col2Im (x, i, b)"
    made = model(
        f"(float[n, {2 * within}, {count}] x) => (float[n, 2, {image[0]}, {image[1]}] y) {{ {call} }}",
        i=np.array(image),
        b=np.array(block),
    )
    assert "ConvTranspose" in operators(repaired(made, "tensorrt:10.1"))


@pytest.mark.parametrize("attributes", ["", "inverse = 1", "onesided = 1"])
@pytest.mark.parametrize(("shape", "axis"), [("n, 6, 1", 1), ("n, 7, 2", 1), ("5, n, 3, 2", 0)])
def test_dft(shape, axis, attributes):
    parts = 1 if shape.endswith("1") else 2
    if attributes == "onesided = 1" and parts == 2:
        return  # for real numbers only
    setting = ", ".join(filter(None, [attributes, f"axis = {axis}"]))
    made = model(f"(float[{shape}] x) => (float[] y) {{ y = DFT <{setting}> (x) }}", opset=17)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert "MatMul" in operators(repaired(made, "tensorrt:8.6"))


def test_dft_of_a_dynamic_length_that_is_cut_is_kept():
    made = model("(float[1, n, 1] x) => (float[1, 4, 2] y) { y = DFT <axis = 1> (x, l) }", opset=17, l=np.array(4))
    kept(made, "tensorrt:8.6", said="There is no repair for DFT of a dynamic length")


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided):
    made = model(
        f"(float[n, 40, 1] x) => (float[n, f, k, 2] y) {{ y = STFT <onesided = {onesided}> (x, h, w, l) }}",
        h=np.array(5),
        w=np.hanning(16).astype("f"),
        l=np.array(16),
    )
    assert "Conv" in operators(repaired(made, "tensorrt:10.1"))


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(("depth", "updates"), [(1, "5, n, 3"), (2, "5, 3"), (3, "5")])
def test_scatter_nd(reduction, depth, updates):
    index = np.random.default_rng(0).integers(-2, 2, (5, depth))
    call = f'y = ScatterND <reduction = "{reduction}"> (x, i, u)'
    made = model(f"(float[4, n, 3] x, float[{updates}] u) => (float[4, n, 3] y) {{ {call} }}", i=index)
    assert "ScatterElements" in operators(repaired(made, "tensorrt:10.1", "unsupported-attribute"))


_WITHOUT_REDUCTION = (
    '[[fact]]\nkind = "attribute"\noperators = ["ScatterElements", "ScatterND"]\nattribute = "reduction"\n'
    'allowed = ["none"]\nsource = "published: x"\n'
)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(
    "call", ["ScatterElements <axis = 1, {}> (x, i, u)", "ScatterND <{}> (x, j, v)"], ids=["elements", "slices"]
)
def test_scattering_with_a_reduction(lacking, call, reduction):
    made = model(
        "(float[3, n] x, float[3, 5] u, float[5, n] v) => (float[3, n] y)"
        f""" {{ y = {call.format(f'reduction = "{reduction}"')} }}""",
        i=np.array([[0, 0, -1, 0, 0]] * 3),
        j=np.array([[0], [2], [0], [-3], [1]]),
    )
    fixed = repaired(made, lacking(facts=_WITHOUT_REDUCTION), "unsupported-attribute")
    assert "Loop" in operators(fixed)
    kept(made, lacking("Loop", facts=_WITHOUT_REDUCTION), "unsupported-attribute")


@pytest.mark.parametrize("attributes", ["", "<reverse = 1>", "<exclusive = 1>", "<reverse = 1, exclusive = 1>"])
@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_cumsum(lacking, attributes, size):
    made = model(f"(float[n, {size}] x) => (float[n, {size}] y) {{ y = CumSum {attributes} (x, a) }}", a=np.array(-1))
    assert "CumSum" not in operators(repaired(made, lacking("CumSum")))


def test_cumsum_of_a_dynamic_size_is_kept(lacking):
    made = model("(float[n] x) => (float[n] y) { y = CumSum (x, a) }", a=np.array(0))
    kept(made, lacking("CumSum"), said="There is no repair for CumSum of a dynamic size.")


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("(float[n, 3] x) => (float[n, 3] y) { y = Gelu (x) }", 20),
        ('(float[n, 3] x) => (float[n, 3] y) { y = Gelu <approximate = "tanh"> (x) }', 20),
        ("(float[n, 3] x) => (float[n, 3] y) { y = Swish (x) }", 24),
        ("(float[n, 3] x, float[3] s) => (float[n, 3] y) { y = RMSNormalization (x, s) }", 23),
        ("(float[n, 3] x, float[3] s) => (float[n, 3] y) { y = LayerNormalization (x, s) }", 17),
        (
            "(float[n, 4, 5] x, float[4] s, float[4] b) => (float[n, 4, 5] y)"
            " { y = GroupNormalization <num_groups = 2> (x, s, b) }",
            21,
        ),
        (
            "(float[2, 2, 3, 4] q, float[2, 2, 5, 4] k, float[2, 2, 5, 4] v) => (float[2, 2, 3, 4] y)"
            " { y = Attention (q, k, v) }",
            23,
        ),
        (
            "(float[2, 2, 3, 4] q, float[2, 2, 5, 4] k, float[2, 2, 5, 4] v, float[3, 5] m) => (float[2, 2, 3, 4] y)"
            " { y = Attention <is_causal = 0, scale = 0.3> (q, k, v, m) }",
            23,
        ),
        ("(float[n, 3] x) => (float[n, 3] y) { y = Mish (x) }", 18),
        ("(float[n, 3] x) => (float[n, 3] y) { y = HardSwish (x) }", 18),
        ("(float[n, 3] x) => (float[n, 3] y) { y = Celu (x) }", 18),
        ("(float[3, n] x) => (float[3, n] y) { y = Trilu (x) }", 18),
        ("(float[n, 3] x) => (float[a, b] y) { y = CenterCropPad <axes = [1]> (x, s) }", 18),
    ],
    ids=lambda each: each.partition("= ")[2].partition(" ")[2][:9] if isinstance(each, str) else str(each),
)
def test_operators_in_older_ones(lacking, text, opset):
    made = model(text, opset, 10, **({"s": np.array([5])} if "CenterCropPad" in text else {}))
    (operator,) = {each.op_type for each in made.graph.node}
    assert operator not in operators(repaired(made, lacking(operator)))


_LOOP = """(float[n] x) => (float[n] y, float[k, n] z) {{ c = Constant <value = bool {{1}}> ()
 y, z = Loop ({count}, {cond}, x) <body = b (int64 i, bool going, float[n] s) => (bool {end}, float[n] t, float[n] u)
 {{ {extra} f = Cast <to = 1> (i) a = Add (s, f) t = Mul (a, x) u = Neg (t) }}> }}"""


@pytest.mark.parametrize(
    ("count", "cond", "end", "extra"), [(3, "c", "going", ""), (1, "", "e", "e = Identity (going)")]
)
def test_loop_with_a_constant_count(lacking, count, cond, end, extra):
    made = model(_LOOP.format(count="m", cond=cond, end=end, extra=extra), m=np.array(count))
    fixed = repaired(made, lacking("Loop"))
    assert "Loop" not in operators(fixed)


def test_loop_that_its_body_ends_is_kept(lacking):
    extra = "q = ReduceMax <keepdims = 0> (s) l = Constant <value_float = 5.0> () e = Less (q, l)"
    made = model(_LOOP.format(count="m", cond="c", end="e", extra=extra), m=np.array(3))
    kept(made, lacking("Loop"), said="There is no repair for Loop whose body computes the condition.")


_CONSTANT = '[[fact]]\nkind = "constant"\noperators = ["{}"]\ninputs = [{}]\nsource = "published: x"\n'


def test_clip_with_computed_bounds(lacking):
    made = model("(float[n, 3] x, float low, float high) => (float[n, 3] y) { y = Clip (x, low, high) }")
    target = lacking(facts=_CONSTANT.format("Clip", '"min", "max"'))
    assert operators(repaired(made, target, "constant-input")) == {"Max", "Min"}


def test_pad_with_computed_amounts(lacking):
    made = model("(float[2, 3] x, int64[4] p, float v) => (float[a, b] y) { y = Pad (x, p, v) }")
    target = lacking(facts=_CONSTANT.format("Pad", '"pads"'))
    fixed = fix(made, target)
    assert "Pad" not in operators(fixed)
    for amounts in ([1, 0, 2, 1], [-1, 1, 0, -1], [0, 0, 0, 0]):
        feeds = {"x": np.arange(6, dtype="f").reshape(2, 3), "p": np.array(amounts), "v": np.array(7, "f")}
        (expected,), (found,) = (
            each.run(None, feeds) for each in map(_session, (made.SerializeToString(), fixed.content))
        )
        np.testing.assert_array_equal(expected, found)


def test_nonzero_of_a_constant():
    made = model(
        "(float[4, n] x) => (float[2, n] y) { i = NonZero (m) f = Constant <value_ints = [-1]> () j = Reshape (i, f)"
        " y = Gather (x, j) }", m=np.array([1, 0, 0, 2]),
    )  # fmt: skip
    assert operators(repaired(made, "tensorrt:10.1", "data-dependent-shape")) == {"Gather"}


_QUANTIZED = """(float[n, 3] x) => (float[n, 3] y) { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z)
 y = Relu (d) }"""


def test_zero_points():
    made = model(_QUANTIZED, s=np.float32(0.05), z=np.uint8(100))
    assert "Round" in operators(repaired(made, "tensorrt:8.6", "nonzero-input"))
    made = model(_QUANTIZED, s=np.float32([0.05, 0.1, 0.2]), z=np.int8([3, -4, 0]))
    assert "Round" in operators(repaired(made, "tensorrt:8.6", "nonzero-input"))


@pytest.mark.parametrize("zero", [np.uint8(3), np.int8(-4)])
def test_zero_points_of_a_value_that_the_model_gives(zero):
    text = "(float[n, 3] x) => (float[n, 3] y) { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    assert "Round" in operators(repaired(model(text, s=np.float32(0.05), z=zero), "tensorrt:8.6", "nonzero-input"))
    text = """(float[n, 3] x) => (float[n, 3] y, float[n, 3] v, float[n, 3] w) { q = QuantizeLinear (x, s, z)
 y = DequantizeLinear (q, s, z) w = Relu (y) v = DequantizeLinear (q, s, z) }"""
    assert "Round" in operators(repaired(model(text, s=np.float32(0.05), z=zero), "tensorrt:8.6", "nonzero-input"))


@pytest.mark.parametrize("zero", [np.uint8(3), np.int8(-4)])
@pytest.mark.parametrize(
    ("moving", "shape"),
    [
        ("m = Reshape (q, k)", "[2, 8]"),
        ("m = Transpose <perm = [0, 1, 3, 2]> (q)", "[1, 1, 4, 4]"),
        ("p = Transpose <perm = [0, 1, 3, 2]> (q) m = MaxPool <kernel_shape = [2, 2]> (p)", "[1, 1, 3, 3]"),
    ],
)
def test_quantized_elements_are_moved_after_they_are_dequantized(zero, moving, shape):
    text = f"""(float[1, 1, 4, 4] x) => (float{shape} y, float{shape} v)
 {{ q = QuantizeLinear (x, s, z) {moving} y = DequantizeLinear (m, s, z) v = DequantizeLinear (m, s, z) }}"""
    made = model(text, 21, s=np.float32(0.05), z=zero, k=np.int64([2, 8]))
    fixed = repaired(made, "tensorrt-rtx", "unsupported-number")
    assert "Round" in operators(fixed) and "QuantizeLinear" not in operators(fixed)


@pytest.mark.parametrize("zero, rule", [(np.uint8(0), "quantized-uint8"), (np.uint8(3), "unsupported-number")])
def test_quantized_parts_are_split_after_they_are_dequantized(zero, rule):
    text = """(float[2, 4] x) => (float[2, 2] y, float[2, 2] v) { q = QuantizeLinear (x, s, z) t = Transpose (q)
 r = Reshape (t, k) a, b = Split <axis = 1, num_outputs = 2> (r)
 y = DequantizeLinear (a, s, z) v = DequantizeLinear (b, s, z) }"""
    made = model(text, 21, s=np.float32(0.05), z=zero, k=np.int64([2, 4]))
    fixed = repaired(made, "tensorrt-rtx", rule)
    assert {"Round", "Split"} <= operators(fixed) and "QuantizeLinear" not in operators(fixed)


@pytest.mark.parametrize("opset", [18, 21])
def test_numbers_of_uint8_above_those_of_int8(opset):
    """TensorRT-RTX quantizes to int8 where the zero point is 0 of uint8."""
    fixed = repaired(model(_QUANTIZED, opset, s=np.float32(0.01), z=np.uint8(0)), "tensorrt-rtx", "quantized-uint8")
    assert "Round" in operators(fixed) and "QuantizeLinear" not in operators(fixed)
    fixed = fix(model(_QUANTIZED, opset, s=np.float32(0.01), z=np.int8(0)), "tensorrt-rtx")
    assert "QuantizeLinear" in operators(fixed)


def test_quantized_elements_that_are_read_as_such_stay():
    text = """(float[2, 3] x) => (float[3, 2] y, uint8[3, 2] t)
 { q = QuantizeLinear (x, s, z) t = Transpose (q) y = DequantizeLinear (t, s, z) }"""
    kept(model(text, s=np.float32(0.05), z=np.uint8(0)), "tensorrt-rtx", "dequantized-uint8")


def test_unsigned_numbers_with_their_middle_as_zero_are_signed_ones():
    fixed = repaired(model(_QUANTIZED, s=np.float32(0.05), z=np.uint8(128)), "tensorrt:8.6", "nonzero-input")
    assert [each.op_type for each in fixed.model.graph if each.op_type != "Constant"][:2] == [
        "QuantizeLinear",
        "DequantizeLinear",
    ]
    text = "(float[n, 3] x) => (float[n, 3] y) { w = DequantizeLinear (q, s, z) y = MatMul (x, w) }"
    q = np.random.default_rng(0).integers(0, 256, (3, 3)).astype("u1")
    fixed = repaired(model(text, q=q, s=np.float32(0.1), z=np.uint8(128)), "tensorrt:8.6", "nonzero-input")
    assert "DequantizeLinear" in operators(fixed)


@pytest.mark.parametrize("unread", ["m, d", "m", ", d"])
def test_outputs_that_nothing_reads_are_left_out(unread):
    text = f"(float[n, 3] x, float[3] s) => (float[n, 3] y) {{ y, {unread} = LayerNormalization (x, s) }}"
    fixed = repaired(model(text), "tensorrt:10.1", "unsupported-argument")
    [node] = fixed.model.graph
    assert node.op_type == "LayerNormalization" and [each.name for each in node.outputs] == ["y"]


@pytest.mark.slow
def test_attributes_and_outputs_of_newer_forms(lacking):
    made = model(
        "(float[2, n, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[2, n, 1, 2] y)"
        " { y = LSTM <hidden_size = 2, layout = 1> (x, w, r) }"
    )
    fixed = repaired_by_reference(made, "tensorrt:10.1", "unsupported-attribute")
    assert "LSTM" in operators(fixed)
    made = model(
        "(float[n, 3] x, float[3] s) => (float[n, 3] y, float[n, 1] m, float[n, 1] d)"
        " { y, m, d = LayerNormalization (x, s) }"
    )
    repaired(made, "tensorrt:10.1", "unsupported-argument")


def test_zero_points_of_constants_and_biases():
    text = "(float[n, 3] x) => (float[n, 3] y) { w = DequantizeLinear <axis = 1> (q, s, z) y = MatMul (x, w) }"
    rng = np.random.default_rng(0)
    q, s, z = rng.integers(-9, 9, (3, 3)).astype("i1"), np.float32([0.5, 2, 0.1]), np.int8([1, 2, 3])
    repaired(model(text, q=q, s=s, z=z), "tensorrt:8.6", "nonzero-input")
    text = "(float[n, 3] x) => (float[n, 3] y) { b = DequantizeLinear (q, s) y = Add (x, b) }"
    fixed = fix(model(text, q=np.int32([1, -200, 7]), s=np.float32(0.01)), "tensorrt:8.6")
    assert fixed.comparison.runs and fixed.comparison.ok and "DequantizeLinear" not in operators(fixed)


@pytest.mark.parametrize(
    "target, rule", [("tensorrt:10.15", "unsupported-type"), ("tensorrt-rtx", "quantized-constant")]
)
@pytest.mark.parametrize("opset", [18, 19])
@pytest.mark.parametrize("kind, code", [("float", 1), ("float16", 10)])
def test_weights_of_int8_that_are_cast(kind, code, opset, target, rule):
    w = np.int8([[-128, 127, 3], [0, -1, 7], [100, 2, -99]])
    text = f"""({kind}[n, 3] x, {kind} s) => ({kind}[n, 3] y)
 {{ c = Cast <to = {code}> (w) d = Mul (c, s) y = MatMul (x, d) }}"""
    fixed = repaired(model(text, opset, w=w), target, rule)
    assert "DequantizeLinear" in operators(fixed) and ("Cast" in operators(fixed)) == (code == 10 and opset == 18)
    assert fixed.model.graph.initializers["w"].dtype == ir.DataType.INT8


def test_rows_of_a_table_of_int8_that_are_cast():
    w = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    text = """(int64[n] i) => (float[n, 3] y)
 { r = Gather (w, i) a = Cast <to = 1> (r) b = Cast <to = 1> (r) y = Mul (a, b) }"""
    fixed = repaired(model(text, w=w), "tensorrt-rtx", "quantized-constant")
    assert operators(fixed) == {"Constant", "DequantizeLinear", "Gather", "Mul"}
    text = """(int64[n] i) => (float[n, 3] y, float[n, 3] z)
 { r = Gather (w, i) y = Cast <to = 1> (r) z = Cast <to = 1> (r) }"""
    fixed = repaired(model(text, w=w), "tensorrt-rtx", "quantized-constant")
    assert [each.name for each in fixed.model.graph.outputs] == ["y", "z"]
    text = "(int64[n] i) => (float[n, 3] y, int8[n, 3] r) { r = Gather (w, i) y = Cast <to = 1> (r) }"
    kept(model(text, w=w), "tensorrt-rtx", "quantized-constant", "used in int8")


@pytest.mark.parametrize("kind", ["uint16", "int16"])
def test_small_integers_that_are_cast_are_stored_so(kind):
    text = "(float[n, 3] x) => (float[n, 3] y) { c = Cast <to = 1> (w) y = Mul (x, c) }"
    fixed = repaired(model(text, w=np.array([0, 1, np.iinfo(kind).max], kind)), "tensorrt:10.15", "unsupported-type")
    assert operators(fixed) == {"Constant", "Mul"}


def test_a_quantized_value_that_others_read_is_kept():
    text = "(float[n, 3] x) => (int8[n, 3] q) { q = QuantizeLinear (x, s, z) }"
    kept(model(text, s=np.float32(0.05), z=np.int8(4)), "tensorrt:8.6", "nonzero-input", "also used by nodes")


_TYPES = '[[fact]]\nkind = "types"\noperators = ["{}"]\nallowed = [{}]\nsource = "published: x"\n'


@pytest.mark.parametrize(
    ("operator", "dtype", "allowed"),
    [
        ("Relu", "float16", '"float32"'),
        ("Neg", "int8", '"int32", "float32"'),
        ("Abs", "int16", '"float32"'),
        ("Transpose", "bool", '"float32", "int32"'),
    ],
)
def test_types_that_are_not_taken(lacking, operator, dtype, allowed):
    made = model(f"({dtype}[n, 3] x) => ({dtype}[a, b] y) {{ y = {operator} (x) }}")
    assert "Cast" in operators(repaired(made, lacking(facts=_TYPES.format(operator, allowed)), "unsupported-type"))


def test_wrapping_integers_are_not_computed_in_floats(lacking):
    made = model("(int8[n, 3] x, int8[3] z) => (int8[n, 3] y) { y = Mul (x, z) }")
    kept(made, lacking(facts=_TYPES.format("Mul", '"float32"')), "unsupported-type")
    assert "Cast" in operators(
        repaired(made, lacking(facts=_TYPES.format("Mul", '"float32", "int32"')), "unsupported-type")
    )


def test_a_measured_form_of_integers_is_computed_in_those_that_are_taken():
    made = model("(uint8[n, 3] x, uint8[n, 3] z) => (uint8[n, 3] y) { y = Add (x, z) }")
    fixed = repaired(made, "tensorrt-rtx", "unsupported-form")
    assert [each.done for each in fixed.changes] == ["computed Add in int32"]


def test_types_that_no_other_holds_are_kept(lacking):
    made = model("(float[n, 3] x) => (float[n, 3] y) { y = Sin (x) }")
    kept(made, lacking(facts=_TYPES.format("Sin", '"float16"')), "unsupported-type")


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("(float[n, 3] x) => (bool[n, 3] y) { d = Div (x, x) z = Sub (d, d) e = Div (z, z) y = IsNaN (e) }", "IsNaN"),
        ("(bool[n, 3] x, bool[3] z) => (bool[n, 3] y) { y = Xor (x, z) }", "Xor"),
        ("(float[n, 3] x) => (int64 y) { y = Size (x) }", "Size"),
        ("(int64[n, 3] x, float[2] v) => (float[n, 7, 3] y) { y = OneHot <axis = 1> (x, d, v) }", "OneHot"),
    ],
    ids=["IsNaN", "Xor", "Size", "OneHot"],
)
def test_small_operators(lacking, text, operator):
    made = model(text, **({"d": np.array(7)} if operator == "OneHot" else {}))
    assert operator not in operators(repaired(made, lacking(operator)))


def test_one_hot_of_a_computed_depth_is_kept(lacking):
    made = model("(int64[n] x, int64 d, float[2] v) => (float[n, k] y) { y = OneHot (x, d, v) }")
    kept(made, lacking("OneHot"), said="with a depth computed at run time")


def test_what_is_defined_by_a_loop_stays_where_there_are_none(lacking):
    made = model("(int64 n) => (int64[k] y) { y = Range (zero, n, one) }", zero=np.array(0), one=np.array(1))
    kept(made, lacking("Range", "Loop"))


def test_truth_values_in_a_type_that_is_not_taken(lacking):
    made = model("(float[n, 3] x) => (int64[n, 1] y) { n = IsNaN (x) i = Cast <to = 6> (n) y = ArgMax <axis = 1> (i) }")
    repaired(made, "tensorrt:8.5", "unsupported-type")


def test_an_input_of_a_type_that_the_target_does_not_have_is_left(lacking):
    made = model("(float[4] x, double[4] z) => (float[4] y) { d = Cast <to = 1> (z) y = Add (x, d) }")
    fixed = fix(made, "tensorrt:10.1")
    assert not fixed.changes and {each.rule for each in fixed.left} == {"value-type"}


@pytest.mark.slow
def test_bfloat16_without_a_kernel(lacking):
    made = model("(bfloat16[n, 3] x, bfloat16[3] z) => (bfloat16[n, 3] y) { y = Add (x, z) }")
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target("onnxruntime")])
    assert [each.done for each in changes] == ["computed Add in float32"] and not left
    found = compare_with_evaluator(made.SerializeToString(), serialize.to_bytes(changed))
    assert found.runs and found.ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "text", "weight"),
    [
        ("MatMul", "y = MatMul (x, w)", (3, 3)),
        ("Gemm", "y = Gemm (x, w)", (3, 3)),
        ("Sigmoid", "y = Sigmoid (x)", ()),
        ("Softmax", "y = Softmax (x)", ()),
        ("Tanh", "y = Tanh (x)", ()),
    ],
)
def test_bfloat16_is_computed_in_float32_where_there_is_no_kernel(operator, text, weight):
    made = model(f"(bfloat16[n, 3] x) => (bfloat16[n, 3] y) {{ {text} }}")
    if weight:
        numbers = np.random.default_rng(0).standard_normal(weight).astype(ml_dtypes.bfloat16)
        made.graph.initializer.append(ir.to_proto(ir.tensor(numbers, name="w")))
    changed = ir.from_proto(made)
    changes, left = fixing.repaired(changed, [find_target("onnxruntime")])
    assert [each.done for each in changes] == [f"computed {operator} in float32"] and not left
    found = compare_with_evaluator(made.SerializeToString(), serialize.to_bytes(changed))
    assert found.runs and found.ok


@pytest.mark.slow
def test_models_of_bfloat16_are_compared_at_its_rounding():
    text = "(bfloat16[n, 3] x) => (bfloat16[n, 3] y) { f = Cast <to = 1> (x) c = Mul (f, k) y = Cast <to = 16> (c) }"
    one, other = (model(text, k=np.float32(factor)) for factor in (1, 1.001))
    same, near = (compare(one.SerializeToString(), each.SerializeToString(), random=False) for each in (one, other))
    assert len(same.runs) == len(near.runs) == 4 and same.ok and near.ok and same.largest == 0
    far = model("(bfloat16[n, 3] x) => (bfloat16[n, 3] y) { y = Identity (n) n = Cast <to = 16> (x) }")
    del far.graph.node[:]
    far.graph.node.append(onnx.helper.make_node("Concat", ["x", "x"], ["w"], axis=1))
    far.graph.node.append(onnx.helper.make_node("Slice", ["w", "a", "b", "c"], ["y"]))
    for name, at in (("a", 1), ("b", 4), ("c", 1)):
        far.graph.initializer.append(onnx.numpy_helper.from_array(np.array([at]), name))
    assert not compare(one.SerializeToString(), far.SerializeToString(), random=False).ok


def test_int64_where_int32_holds_it(lacking):
    target = lacking(facts=_TYPES.format("Less", '"int32", "float32"'))
    made = model(
        "(float[n, 3] x) => (bool[n] y) { i = ArgMax <axis = 1, keepdims = 0> (x) y = Less (i, t) }", t=np.array(2)
    )
    repaired(made, target, "unsupported-type")
    made = model("(int64[n] i) => (bool[n] y) { y = Less (i, t) }", t=np.array(2))
    kept(made, target, "unsupported-type", "which int32 cannot represent")
    made = model(
        "(float[n, 3] x) => (bool[n] y) { i = ArgMax <axis = 1, keepdims = 0> (x) y = Less (i, t) }", t=np.array(2**40)
    )
    kept(made, target, "unsupported-type", "which int32 cannot represent")


def test_marks_of_truth_values():
    made = model(
        "(float[2, 3] x) => (int64[2, 1] y, bool[2, 1] z) { n = IsNaN (x) u = Cast <to = 2> (n)"
        " y = ArgMax <axis = 1> (u) m = ReduceMax (u, a) z = Cast <to = 9> (m) }",
        a=np.array([1]),
    )
    fixed = repaired(made, "tensorrt:10.1", "value-type")
    assert not fixed.left


def test_float64_is_left_unless_it_is_asked_for():
    text = "(float[n, 3] x) => (float[n, 3] y) { d = Cast <to = 11> (x) e = Mul (d, k) y = Cast <to = 1> (e) }"
    made = model(text, k=np.float64([0.1, 0.2, 0.3]))
    assert not fix(made).changes
    fixed = fix(made, select=("float64",))
    assert fixed.changes and not fixed.left and fixed.comparison.ok


def test_an_input_that_is_an_output():
    made = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> g (float[n] x) => (float[n] x) { }')
    fixed = fix(made)
    assert fixed.comparison.ok and [each.op_type for each in fixed.model.graph] == ["Identity"] and not fixed.left
    made = model("(float[n] x) => (float[2] w, float[n] y) { y = Relu (x) }", w=np.float32([1, 2]))
    fixed = fix(made)
    assert fixed.comparison.ok and [each.name for each in fixed.model.graph.outputs] == ["w", "y"] and not fixed.left


_POSITIONS = "s = Shape (x) n = Gather (s, one) r = Range (zero, n, one)"
_NUMBERS = {"zero": np.array(0), "one": np.array(1)}


@pytest.mark.parametrize(
    "text",
    [
        f"{_POSITIONS} a = ArgMax <axis = 0, keepdims = 0> (r) b = Add (a, one) y = Range (zero, b, one)",
        f"{_POSITIONS} k = Constant <value_ints = [1]> () v, i = TopK (r, k) f = Squeeze (v) b = Add (f, one)"
        " y = Range (zero, b, one)",
        "s = Shape (x) o = ConstantOfShape <value = int64[1] {1}> (s) c = CumSum (o, one) m = ArgMax <axis = 1> (c)"
        " e = Constant <value_ints = [-1]> () f = Reshape (m, e) g = Gather (f, zero) b = Add (g, one)"
        " y = Range (zero, b, one)",
        f"{_POSITIONS} w = Constant <value_ints = [0]> () q = Unsqueeze (r, w) p = Expand (q, s)"
        " a = ArgMax <axis = 1, keepdims = 0> (p) g = Gather (a, zero) b = Add (g, one) y = Range (zero, b, one)",
        "s = Shape <start = 1> (x) o = ConstantOfShape <value = int64[1] {7}> (s) z = NonZero (o)"
        " a = ArgMax <axis = 1, keepdims = 0> (z) f = Squeeze (a) b = Add (f, one) y = Range (zero, b, one)",
    ],
    ids=["argmax", "topk", "cumsum", "expanded", "nonzero"],
)
def test_a_bound_that_is_a_dimension(text):
    made = model(f"(float[b, n] x) => (int64[k] y) {{ {text} }}", **_NUMBERS)
    fixed = repaired(made, "tensorrt:10.1", "size-of-data")
    assert not {"ArgMax", "TopK", "NonZero"} & operators(fixed)


def test_a_bound_of_data_is_refused():
    text = "(float[n] x) => (int64[k] y) { a = ArgMax <axis = 0, keepdims = 0> (x) y = Range (zero, a, one) }"
    kept(model(text, **_NUMBERS), "tensorrt:10.1", "size-of-data", "whose size 'a' is no dimension of a tensor")


def test_branches_of_unlike_rank_whose_condition_the_shapes_decide():
    made = model(
        "(float[1, n] x) => (float[] y) { s = Shape <start = 0, end = 1> (x) c = Equal (s, one) d = Squeeze (c)"
        " y = If (d) <then_branch = t () => (float[n] a) { a = Squeeze (x, at) }, else_branch = e () => (float[1, n] b)"
        " { b = Identity (x) }> }", one=np.array([1]), at=np.array([0]),
    )  # fmt: skip
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert "If" not in operators(repaired(made, "tensorrt:10.1", "branch-ranks"))
