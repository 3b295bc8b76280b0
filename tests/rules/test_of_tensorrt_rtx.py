"""What TensorRT-RTX refuses by more than the form of one operator; the verdicts are those of its parser and builder."""

from __future__ import annotations

import onnx
import pytest
from helpers.repairs import fix

import opbridge

TARGET = "tensorrt-rtx"


def _model(text: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {text}')


def _errors(text: str, opset: int = 18) -> set[str]:
    found = opbridge.lint(_model(text, opset).SerializeToString(), TARGET, ignore=["declared-shape"])
    return {each.rule for each in found if each.severity == "error"}


def _attention(dtype="float", heads=4, of_keys=4, size=16, queries=4, keys=8, rank=4, mask="", causal=0, values=0):
    v_size = values or size
    if rank == 4:
        shapes = f"2, {heads}, {queries}, {size}", f"2, {of_keys}, {keys}, {size}", f"2, {of_keys}, {keys}, {v_size}"
        attributes = []
    else:
        shapes = (
            f"2, {queries}, {heads * size}",
            f"2, {keys}, {of_keys * size}",
            f"2, {keys}, {of_keys * v_size}",
        )
        attributes = [f"q_num_heads = {heads}", f"kv_num_heads = {of_keys}"]
    attributes += ["is_causal = 1"] * causal
    given = f"<{', '.join(attributes)}>" if attributes else ""
    inputs = ", ".join(f"{dtype}[{shape}] {name}" for shape, name in zip(shapes, "qkv", strict=True))
    inputs += f", {dtype}[{mask}] m" if mask else ""
    return f"({inputs}) => ({dtype} y) {{ y = Attention {given} (q, k, v{', m' if mask else ''}) }}"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"keys": "s"},
        {"mask": "4, 8"},
        {"causal": 1},
        {"rank": 3, "causal": 1},
        {"rank": 3, "mask": "4, 8"},
        {"rank": 3, "of_keys": 2},
        {"rank": 3, "queries": "l"},
        {"dtype": "float16", "size": 8},
        {"dtype": "bfloat16", "size": 4},
        {"dtype": "float16", "size": 512},
        {"dtype": "float16", "size": 8, "rank": 3, "causal": 1},
    ],
)
def test_an_attention_without_a_kernel(given):
    assert "attention-kernel" in _errors(_attention(**given), 23)


@pytest.mark.parametrize(
    "given",
    [
        {"queries": 1},
        {"queries": 1, "mask": "1, 8"},
        {"queries": 1, "of_keys": 2, "causal": 1},
        {"rank": 3},
        {"rank": 3, "size": 8},
        {"dtype": "float16"},
        {"dtype": "float16", "size": 12},
        {"dtype": "float16", "size": 256, "mask": "4, 8"},
        {"dtype": "bfloat16", "of_keys": 2, "causal": 1},
        {"dtype": "float16", "queries": "l", "keys": "s"},
    ],
)
def test_an_attention_that_is_built(given):
    assert not _errors(_attention(**given), 23)


def test_constant_keys_need_a_kernel():
    text = (
        "(float[2, 4, 16] q, float[2, 1, 16] k, float[2, 1, 16] v) => (float y)"
        " { y = Attention <q_num_heads = 1, kv_num_heads = 1> (q, k, v) }"
    )
    assert not _errors(text, 23)
    model = _model(text, 23)
    del model.graph.input[1:]
    for name in "kv":
        model.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, (2, 1, 16), [0.5] * 32))
    assert "attention-kernel" in {each.rule for each in opbridge.lint(model.SerializeToString(), TARGET)}


def test_keys_and_values_of_unlike_sizes():
    assert _errors(_attention("float16", values=32), 23) == {"attention-shapes"}
    assert _errors(_attention("float16", mask="4, 6"), 23) == {"attention-shapes"}
    assert not _errors(_attention("float16", mask="4, 1"), 23)


@pytest.mark.slow
def test_an_attention_is_computed_in_other_operators():
    fixed = fix(_model(_attention(causal=1), 23), TARGET)
    assert fixed.comparison.ok and fixed.comparison.runs
    assert "attention-kernel" not in {each.rule for each in fixed.left}
    assert "Attention" not in {each.op_type for each in fixed.model.graph}


AXES = (
    "(float[2, 4] x) => (float y) <int64[1] one = {{1}}, int64[1] zero = {{0}}, int32[1] narrow = {{1}},"
    " int64 n = {{1}}, int64 m = {{2}}> {{ {made} y = {operator} (x, a) }}"
)


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceSum", "ReduceMax"])
@pytest.mark.parametrize("made", ["a = Add (one, zero)", "a = Range (n, m, n)", "a = Concat <axis = 0> (one)"])
def test_axes_that_are_computed_from_constants(operator, made):
    text = AXES.format(operator=operator, made=made)
    assert "constant-input" in _errors(text)
    fixed = fix(_model(text, 18), TARGET)
    assert "constant-input" not in {each.rule for each in fixed.left} and fixed.comparison.ok


@pytest.mark.parametrize(
    "made", ["a = Identity (one)", "a = Cast <to = 7> (narrow)", "a = Constant <value = int64[1] {{1}}> ()"]
)
def test_axes_that_the_parser_evaluates(made):
    assert not _errors(AXES.replace("{made}", made).format(operator="ReduceMean"))


@pytest.mark.parametrize("operator", ["Unsqueeze", "Squeeze"])
def test_axes_of_others_may_be_computed(operator):
    text = AXES.format(operator=operator, made="a = Add (zero, zero)").replace("float[2, 4]", "float[1, 4]")
    assert not _errors(text)


QUANTISED = "(float[2, 3] x) => (float[2, 3] y) <float s = {{0.5}}, {dtype} z = {{0}}, int8[3] w = {{1, 2, 3}}>"


@pytest.mark.parametrize("opset", [18, 21, 23])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantisation_with_a_zero_point_of_0_is_built(dtype, opset):
    text = QUANTISED.format(dtype=dtype) + " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    assert not _errors(text, opset)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_zero_point_that_is_computed(dtype):
    text = (
        f"(float[2, 3] x, {dtype} z) => (float[2, 3] y) <float s = {{0.5}}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    )
    assert "unsupported-form" in _errors(text)


def test_a_dequantisation_of_uint8_that_was_not_quantised():
    text = "(uint8[2, 3] x) => (float[2, 3] y) <float s = {0.5}> { y = DequantizeLinear (x, s) }"
    assert "dequantized-uint8" in _errors(text)


def test_a_constant_of_int8():
    def errors(body: str) -> set[str]:
        return _errors(QUANTISED.format(dtype="int8") + f" {{ {body} }}")

    assert not errors("d = DequantizeLinear (w, s, z) y = Add (x, d)")
    assert not errors("q = QuantizeLinear (x, s, z) c = Clip (q, z) y = DequantizeLinear (c, s, z)")
    assert "quantized-constant" in errors("c = Identity (w) d = DequantizeLinear (c, s, z) y = Add (x, d)")
    assert "quantized-constant" in errors("c = Cast <to = 1> (w) y = Add (x, c)")


def test_a_mixed_pow_is_a_warning_where_a_relative_builds_it():
    text = "(float[2] x, int64[2] e) => (float[2] y) { y = Pow (x, e) }"

    def severities(target: str) -> list[str]:
        found = opbridge.lint(_model(text, 17).SerializeToString(), target)
        return [each.severity for each in found if each.rule == "mixed-pow"]

    assert severities("tensorrt:10.1") == ["error"] and severities("tensorrt:10.15") == ["warning"]
    assert severities("tensorrt:11.2") == ["warning"] and severities(TARGET) == []


LOOP = """(float[2] x, int64 n) => (float[2] y) {{
  {before} y = Loop (n, {condition}, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] z) {{
    d = {kept} z = Add (a, a)
  }}>
}}"""


@pytest.mark.parametrize("kept", ["Identity (c)", "Not (c)"])
def test_a_loop_without_a_condition_whose_body_reads_it(kept):
    text = LOOP.format(before="", condition="", kept=kept)
    assert "unsupported-form" in _errors(text)
    assert not _errors(LOOP.format(before="", condition="", kept="Constant <value = bool {1}> ()"))
    given = LOOP.format(before="t = Constant <value = bool {1}> ()", condition="t", kept=kept)
    assert "unsupported-form" not in _errors(given)
    fixed = fix(_model(text, 18), TARGET)
    assert "unsupported-form" not in {each.rule for each in fixed.left}
    assert fixed.comparison.ok and fixed.comparison.runs


def test_a_reduction_of_one_number():
    assert "unsupported-form" in _errors("(float x) => (float y) { y = ReduceMax (x) }")
    assert not _errors("(float[1] x) => (float[1] y) { y = ReduceMax (x) }")


@pytest.mark.parametrize(("count", "found"), [(3840, set()), (3841, {"too-large"})])
def test_a_topk_of_many_elements(count, found):
    text = f"(float[5000] x) => (float[{count}] y, int64[{count}] i) <int64[1] k = {{{count}}}>"
    assert _errors(text + " { y, i = TopK (x, k) }") == found


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_softmax_of_a_vector(operator):
    text = f"(float[4] x) => (float[4] y) {{ y = {operator} <axis = 0> (x) }}"
    assert "unsupported-form" in _errors(text) and not _errors(text, 11)
    assert not _errors(text.replace("[4]", "[1, 4]").replace("axis = 0", "axis = 1"))


@pytest.mark.parametrize("target", ["tensorrt-rtx", "tensorrt:10.15"])
@pytest.mark.parametrize(("operator", "is_missing"), [("Relu", False), ("Magic", True), ("FastGelu", True)])
def test_its_parser_goes_by_the_names_of_operators(operator, is_missing, target):
    text = (
        f'<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]> g (float[2, 3] x) => (float[2, 3] y) '
        f"{{ y = com.microsoft.{operator} (x) }}"
    )
    model = onnx.parser.parse_model(text)
    found = [each for each in opbridge.lint(model.SerializeToString(), target) if each.rule == "missing-operator"]
    assert bool(found) == is_missing
    provided = opbridge.lint(model.SerializeToString(), target, provides=["com.microsoft::*"])
    assert not any(each.rule == "missing-operator" for each in provided)


BODY = """(float[4] x, int64[1] k) => (float y) {{
  n = Constant <value = int64 {{3}}> () t = Constant <value = bool {{1}}> () f = Constant <value = float {{0.0}}> ()
  one = Constant <value_ints = [1]> () zero = Constant <value_ints = [0]> ()
  y = Loop (n, t, f) <body = b (int64 i, bool c, float a) => (bool d, float z) {{
    d = Identity (c) j = Reshape (i, one) e = Add (j, one) {made} r = ReduceSum <keepdims = 0> (s) z = Add (a, r)
  }}>
}}"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("s = Slice (x, j, e, zero)", {"size-in-loop"}),
        ("s = Expand (f, e)", {"size-in-loop"}),
        ("g = Gather (e, zero) h = Mul (g, one) s = Tile (x, h)", {"size-in-loop"}),
        ("s, p = TopK (x, e)", {"size-in-loop"}),
        ("g = Add (e, k) h = Shape (g) s = Expand (f, h)", set()),
        ("s = Gather (x, j)", set()),
        ("s = Slice (x, zero, k, zero)", set()),
    ],
)
def test_a_size_that_varies_with_the_iterations(made, found):
    assert _errors(BODY.format(made=made)) == found


CARRYING = """(float[1, 2] x, float[1, 2] v, bool q, int64 n) => (float[k, 2] y) {{
  t = Constant <value = bool {{1}}> ()
  y = Loop (n, t, x) <body = b (int64 i, bool c, float[m, 2] a) => (bool d, float[p, 2] z) {{
    d = Identity (c) {made}
  }}>
}}"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("z = Concat <axis = 0> (a, v)", {"loop-sizes"}),
        (
            "z = If (q) <then_branch = l () => (float[g, 2] o) {{ o = Concat <axis = 0> (a, v) }},"
            " else_branch = r () => (float[h, 2] w) {{ w = Identity (a) }}>",
            {"loop-sizes"},
        ),
        ("z = Add (a, v)", set()),
    ],
)
def test_a_size_that_a_loop_carries(made, found):
    assert _errors(CARRYING.format(made=made.format())) == found


def test_rows_of_iterations_without_a_limit():
    text = """(float[2] x, int64 n) => (float[2] w, float[k, 2] y) {{
      h = Constant <value = float {{100.0}}> () t = Constant <value = bool {{1}}> ()
      w, y = Loop ({limit}, t, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] z, float[2] o) {{
        s = ReduceSum <keepdims = 0> (a) d = Less (s, h) z = Add (a, a) o = Identity (z)
      }}>
    }}"""
    assert _errors(text.format(limit="")) == {"loop-sizes"} and not _errors(text.format(limit="n"))


BRANCH = """(float[6, 2] x, bool q, int64[1] k) => (float[2] y) {{
  zero = Constant <value_ints = [0]> ()
  i = ArgMax <axis = 0, keepdims = 0> (x) n = ReduceMax <keepdims = 1> (i) {before}
  y = If (q) <then_branch = t () => (float[2] w) {{ {made} w = ReduceSum <keepdims = 0> (s, zero) }},
              else_branch = e () => (float[2] v) {{ v = ReduceMax <keepdims = 0> (x, zero) }}>
}}"""


@pytest.mark.parametrize(
    ("before", "made", "found"),
    [
        ("", "s = Slice (x, zero, n, zero)", {"size-in-branch"}),
        ("", "s = Slice (x, zero, k, zero)", {"size-in-branch"}),
        ("", "o = ConstantOfShape (k) p = ReduceSum (o) s = Mul (x, p)", set()),
        ("", "o = ConstantOfShape (n) p = ReduceSum (o) s = Mul (x, p)", {"size-in-branch"}),
        ("", "m = Abs (x) s = Slice (m, zero, n, zero)", {"size-in-branch"}),
        ("r = Slice (x, zero, n, zero)", "s = Abs (r)", set()),
        ("r = Slice (x, zero, n, zero)", "f = Shape (r) z = ConstantOfShape (f) s = Add (z, r)", set()),
    ],
)
def test_a_size_of_values_in_a_branch(before, made, found):
    assert _errors(BRANCH.format(before=before, made=made)) == found


RESULT = """(float[6, s] x, bool q) => (float[r, s] y) {{
  zero = Constant <value_ints = [0]> ()
  i = ArgMax <axis = 0, keepdims = 0> (x) n = ReduceMax <keepdims = 1> (i) f = Cast <to = 1> (n)
  d = {cut}
  y = If (q) <then_branch = t () => (float[u, s] w) {{ w = {one} }},
              else_branch = e () => (float[{size}, s] v) {{ v = {other} }}>
}}"""


@pytest.mark.parametrize(
    ("cut", "one", "size", "other", "found"),
    [
        ("Slice (x, zero, n, zero)", "Abs (d)", "u", "Neg (d)", set()),
        ("Slice (x, zero, n, zero)", "Abs (d)", "6", "Neg (x)", {"size-in-branch"}),
        ("Slice (x, zero, n, zero)", "Abs (d)", "t", "Concat <axis = 0> (d, x)", {"size-in-branch"}),
        ("Mul (x, f)", "Abs (d)", "6", "Neg (x)", set()),
    ],
    ids=["same", "one", "both", "no size"],
)
def test_results_of_sizes_of_values_that_branches_give(cut, one, size, other, found):
    """Built by TensorRT-RTX 1.7.1 where there is no finding, and else rejected."""
    assert _errors(RESULT.format(cut=cut, one=one, size=size, other=other)) == found
