"""Problems that people reported of TensorRT."""

from __future__ import annotations

import dataclasses

import numpy as np

from helpers.problems.problem import Problem, model

__all__ = ["PROBLEMS"]

_UNTIL = {"S15": "8.6", **dict.fromkeys(("T1", "T9", "T11", "T21", "T30"), "10.1")}
"""The newest release of TensorRT that a report is known for, where TensorRT-RTX builds the model."""

_REFUSED_BY_RTX = {
    **dict.fromkeys(("T5", "T8", "T15", "T34", "S15", "S16b"), "parse"),
    **dict.fromkeys(("T3", "T16"), "build"),
}
"""Where TensorRT-RTX 1.7.1 refuses a model; it builds the others."""

I64, F32, F16 = np.int64, np.float32, np.float16


def _branches(condition: str, other: str, inputs: str = "float[2] x", outputs: str = "float[k] y") -> str:
    return (
        f"({inputs}) => ({outputs}) {{ {condition} y = If (c) <then_branch = t () => (float[2] a) {{ a = Relu (x) }},"
        f" else_branch = e () => ({other} }}> }}"
    )


_SLICED = "float[1] b) { b = Slice (x, zero, one)"
_SAME = "float[2] b) { b = Abs (x)"
_BOUNDS = {"zero": I64([0]), "one": I64([1])}
_DECIDED = "s = Shape (x) d = Gather (s, first) c = Equal (d, first)"

_ATTENTION = (
    "(float16[2, 4, 4] q, bool[4, 4] m) => (float16[2, 4, 4] y) { f = Cast <to = 10> (fill) s = Where (m, f, q)"
    " y = Softmax (s) }"
)
_SQUARES = (
    "(float16[n, 8] x) => (float16[n, 8] y) {{ s = Pow (x, two) v = ReduceMean <axes = [-1]> (s) e = Add (v,"
    " eps) r = Sqrt (e) y = Div (x, r) }}"
)
_PADS = (
    "(float[1, 3, h, w] x) => (float[1, 3, k, l] y) { s = Shape <start = 2> (x) m = Mod (s, eight) z ="
    " ConstantOfShape"
    " <value = int64[1] {0}> (six) p = Concat <axis = 0> (m, z) r = Reshape (p, pairs) t = Transpose <perm = [1,"
    " 0]> (r)"
    " f = Reshape (t, flat) y = Pad (x, f) }"
)
_NO_PAIRS = (
    "(float[1, 3, h, w] x) => (float[1, 3, k, l] y) { s = Shape <start = 2> (x) m = Mod (s, eight) z ="
    " ConstantOfShape"
    " <value = int64[1] {0}> (six) f = Concat <axis = 0> (z, m) y = Pad (x, f) }"
)
_QUANTIZED = (
    "(float[1, 2, 5, 5] x) => (float[1, 3, a, b] y) {{ w = DequantizeLinear <axis = {axis}> (q, s) y ="
    " ConvTranspose (x, w) }}"
)
_BIASED = "(float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y) { b = DequantizeLinear (q, s) y = Conv (x, w, b) }"
_CHOSEN_THEN_RESIZED = (
    "(bool c, float[1, 1, h, w] x) => (float[1, 1, k, l] y) {"
    " a = If (c) <then_branch = t () => (float[1, 1, h, w] u) { u = Add (x, two) },"
    " else_branch = e () => (float[1, 1, h, w] v) { v = Add (x, one) }>"
)
_RANGE = (
    "(float[n] x) => (int64[m] y) { i = ArgMax <axis = 0, keepdims = 0> (x) y = Range (zero, i, one) }",
    "(float[n] x) => (int64[m] y) { i = Size (x) y = Range (zero, i, one) }",
)
_SCALARS = {"zero": I64(0), "one": I64(1)}
_K = "(float[2, 5000] x) => (float[2, k] v, int64[2, k] i) { v, i = TopK (x, k) }"
_INDEXED = (
    "(float[n, 4] x, int64[e] i, float[e, 2, 2] k) => (float[e, 2] y) { g = Gather (x, i) q = Reshape (g, heads)"
    " p = Mul (q, k) y = ReduceSum <keepdims = 0> (p, last) }"
)

_REPORTED = (
    Problem(
        "T1", "If whose branches give shapes [2] and [1]", "tensorrt:10.1", "branch-shapes",
        model(_branches(_DECIDED, _SLICED), constants={**_BOUNDS, "first": I64(0)}),
        (model(_branches("", _SAME, "float[2] x, bool c", "float[2] y")),),
        repairable=True,
    ),
    Problem(
        "T3", "TopK with K above 3840", "tensorrt:10.1", "too-large",
        model(_K, constants={"k": I64([4000])}),
        (model(_K, constants={"k": I64([3839])}),),
        repairable=True,
    ),
    Problem(
        "T4", "K of TopK computed from constants", "tensorrt:8.5", "constant-input",
        model(
            "(float[2, 9] x) => (float[2, k] v, int64[2, k] i) { g = Gather (sizes, at) k = Reshape (g, flat)"
            " v, i = TopK (x, k) }",
            constants={"sizes": I64([3, 5]), "at": I64(1), "flat": I64([-1])},
        ),
        (model("(float[2, 9] x) => (float[2, 5] v, int64[2, 5] i) { v, i = TopK (x, k) }", constants={"k": I64([5])}),),
        repairable=True,
    ),
    Problem(
        "T5", "Resize with antialias", "tensorrt:10.1", "unsupported-attribute",
        model(
            '(float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y) { y = Resize <mode = "linear", antialias = 1> (x, , s) }',
            opset=18, constants={"s": F32([1, 1, 0.5, 0.5])},
        ),
        (
            model(
                '(float[1, 2, 8, 8] x) => (float[1, 2, 4, 4] y) { y = Resize <mode = "linear"> (x, , s) }',
                opset=18, constants={"s": F32([1, 1, 0.5, 0.5])},
            ),
        ),
        repairable=True,
    ),
    Problem(
        "T8", "DequantizeLinear of an int32 bias", "tensorrt:10.1", "quantized-bias",
        model(
            _BIASED,
            constants={
                "q": np.int32([100, -200, 300]), "s": F32(0.001),
                "w": np.linspace(-1, 1, 54, dtype=F32).reshape(3, 2, 3, 3)
            },
        ),
        (
            model(
                "(float[1, 2, 5, 5] x) => (float[1, 3, 3, 3] y) { w = DequantizeLinear <axis = 0> (q, s) y ="
                " Conv (x, w, b) }",
                constants={
                    "q": np.ones((3, 2, 3, 3), np.int8), "s": F32([0.1, 0.2, 0.3]), "b": F32([0.1, -0.2, 0.3])
                },
            ),
        ),
        repairable=True,
    ),
    Problem(
        "T9", "weights of ConvTranspose quantised along axis 1", "tensorrt:8.5", "quantized-axis",
        model(
            _QUANTIZED.format(axis=1), constants={"q": np.ones((2, 3, 3, 3), np.int8), "s": F32([0.1, 0.2, 0.3])}
        ),
        (model(_QUANTIZED.format(axis=0), constants={"q": np.ones((2, 3, 3, 3), np.int8), "s": F32([0.1, 0.2])}),),
    ),
    Problem(
        "T11", "LayerNormalization whose scale broadcasts", "tensorrt:10.11", "broadcast-scale",
        model(
            "(float[n, 3, 4] x) => (float[n, 3, 4] y) { y = LayerNormalization <axis = -2> (x, s) }",
            constants={"s": F32([1, 2, 3, 4])},
        ),
        (
            model(
                "(float[n, 3, 4] x) => (float[n, 3, 4] y) { y = LayerNormalization <axis = -2> (x, s) }",
                constants={"s": np.arange(12, dtype=F32).reshape(3, 4)},
            ),
        ),
        repairable=True,
    ),
    Problem(
        "T12", "LayerNormalization before 8.6", "tensorrt:8.5", "missing-operator",
        model("(float[n, 4] x, float[4] s, float[4] b) => (float[n, 4] y) { y = LayerNormalization (x, s, b) }"),
        (
            model(
                "(float[n, 4] x) => (float[n, 4] y) { m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) s = Mul (d, d)"
                " v = ReduceMean <axes = [-1]> (s) r = Sqrt (v) y = Div (d, r) }"
            ),
        ),
        repairable=True,
    ),
    Problem(
        "T14", "If, Transpose and Resize in a row", "tensorrt:11.1", "faulty-chain",
        model(
            f'{_CHOSEN_THEN_RESIZED} b = Transpose <perm = [0, 1, 3, 2]> (a) y = Resize <mode = "linear"> (b, ,'
             ' s) }',
            constants={"one": F32(1), "two": F32(2), "s": F32([1, 1, 2, 2])},
        ),
        (
            model(
                f'{_CHOSEN_THEN_RESIZED} y = Resize <mode = "linear"> (a, , s) }}',
                constants={"one": F32(1), "two": F32(2), "s": F32([1, 1, 2, 2])},
            ),
        ),
        kind="fault",
    ),
    Problem(
        "T15", "indexing with a mask: NonZero", "tensorrt:10.1", "data-dependent-shape",
        model(
            "(float[n] x, float[n] z) => (float[m] y) { c = Greater (x, z) i = NonZero (c) t = Transpose (i)"
            " y = GatherND (x, t) }"
        ),
        (model("(float[n] x, float[n] z) => (float[n] y) { c = Greater (x, z) y = Where (c, x, z) }"),),
    ),
    Problem(
        "T16", "the boxes that NonMaxSuppression leaves", "tensorrt:10.1", "data-dependent-shape",
        model(
            "(float[1, n, 4] b, float[1, 1, n] s) => (float[m] y) { i = NonMaxSuppression (b, s, most, o, t)"
            " j = Gather <axis = 1> (i, two) f = Reshape (s, flat) y = Gather (f, j) }",
            constants={"most": I64([3]), "o": F32([0.5]), "t": F32([0.1]), "two": I64(2), "flat": I64([-1])},
        ),
        (
            model(
                "(float[1, n, 4] b, float[1, 1, n] s) => (float[3] y) { f = Reshape (s, flat) y, i = TopK (f,"
                " most) }",
                constants={"most": I64([3]), "flat": I64([-1])},
            ),
        ),
    ),
    Problem(
        "T18", "Einsum with an ellipsis", "tensorrt:8.5", "einsum-form",
        model('(float[2, 3, 4] x, float[2, 4, 5] z) => (float[2, 3, 5] y) { y = Einsum <equation ='
              ' "...ij,...jk->...ik"> (x, z) }'),
        (model('(float[2, 3, 4] x, float[2, 4, 5] z) => (float[2, 3, 5] y) { y = Einsum <equation ='
               ' "bij,bjk->bik"> (x, z) }'),),
        repairable=True,
    ),
    Problem(
        "T18b", "Einsum of a diagonal", "tensorrt:8.6", "einsum-form",
        model('(float[3, 3] x) => (float[3] y) { y = Einsum <equation = "ii->i"> (x) }'),
        (model('(float[3, 4] x) => (float[4, 3] y) { y = Einsum <equation = "ij->ji"> (x) }'),),
        repairable=True,
    ),
    Problem(
        "T21", "pads computed by way of a tensor of two dimensions", "tensorrt:8.5", "shape-of-rank",
        model(_PADS, constants={"eight": I64(8), "six": I64([6]), "pairs": I64([-1, 2]), "flat": I64([-1])}),
        (model(_NO_PAIRS, constants={"eight": I64(8), "six": I64([6])}),),
    ),
    Problem(
        "T23", "three-dimensional ConvTranspose with asymmetric padding", "tensorrt:8.5", "asymmetric-pads",
        model(
            "(float[1, 2, 3, 3, 3] x, float[2, 2, 3, 3, 3] w) => (float[1, 2, 5, 6, 6] y)"
            " { y = ConvTranspose <strides = [2, 2, 2], pads = [1, 1, 1, 1, 0, 0]> (x, w) }"
        ),
        (
            model(
                "(float[1, 2, 3, 3, 3] x, float[2, 2, 3, 3, 3] w) => (float[1, 2, 5, 5, 5] y)"
                " { y = ConvTranspose <strides = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1]> (x, w) }"
            ),
        ),
        repairable=True,
    ),
    Problem(
        "T27", "squares summed in float16", "tensorrt:10.1", "float16-squares",
        model(_SQUARES.format(), constants={"two": F16(2), "eps": F16(1e-3)}),
        (
            model(
                "(float16[n, 8] x) => (float16[n, 8] y) { w = Cast <to = 1> (x) s = Mul (w, w)"
                " v = ReduceMean <axes = [-1]> (s) e = Add (v, eps) r = Sqrt (e) d = Div (w, r) y = Cast <to ="
                " 10> (d) }",
                constants={"eps": F32(1e-3)},
            ),
        ),
        repairable=True, kind="model",
    ),
    Problem(
        "T28", "nan of attention in float16: a mask that float16 does not hold", "tensorrt:11.0", "float16-constant",
        model(_ATTENTION, constants={"fill": F32(-1e9)}),
        (model(_ATTENTION, constants={"fill": F32(-6e4)}),),
        kind="model",
    ),
    Problem(
        "T30", "Pow of a number and an integer tensor", "tensorrt:10.1", "mixed-pow",
        model("(int64[n] e) => (float[n] y) { y = Pow (b, e) }", constants={"b": F32(2)}),
        (model("(float[n] e) => (float[n] y) { y = Pow (b, e) }", constants={"b": F32(2)}),),
        repairable=True,
    ),
    Problem(
        "T31", "Transpose and Resize (nearest) in a row", "tensorrt:8.5", "faulty-chain",
        model(
            "(float[1, 8, 4, 6] x) => (float[1, 12, 8, 8] y) { t = Transpose <perm = [0, 3, 2, 1]> (x) y ="
            " Resize (t, , s) }",
            opset=13, constants={"s": F32([1, 2, 2, 1])},
        ),
        (
            model(
                "(float[1, 8, 4, 6] x) => (float[1, 8, 8, 12] y) { y = Resize (x, , s) }",
                opset=13, constants={"s": F32([1, 1, 2, 2])},
            ),
        ),
        kind="fault",
    ),
    Problem(
        "T32", "Gather, Reshape, Mul and ReduceSum in a row", "tensorrt:8.6", "faulty-chain",
        model(_INDEXED, constants={"heads": I64([-1, 2, 2]), "last": I64([-1])}),
        (
            model(
                "(float[n, 4] x, float[n, 4] k) => (float[n, 2] y) { p = Mul (x, k) q = Reshape (p, heads)"
                " y = ReduceSum <keepdims = 0> (q, last) }",
                constants={"heads": I64([-1, 2, 2]), "last": I64([-1])},
            ),
        ),
        kind="fault",
    ),
    Problem(
        "T34", "a Cast to float32 that a converter to float16 left", "tensorrt:11.0", "mixed-types",
        model(
            "(float16[n, 4] x, float16[n, 4] z) => (float16[n, 8] y)"
            " { a = Relu (x) b = Cast <to = 1> (a) c = Concat <axis = 1> (b, z) y = Cast <to = 10> (c) }"
        ),
        (
            model(
                "(float16[n, 4] x, float16[n, 4] z) => (float16[n, 8] y) { a = Relu (x) b = Cast <to = 10> (a)"
                " y = Concat <axis = 1> (b, z) }"
            ),
        ),
        repairable=True, kind="model",
    ),
    Problem(
        "T35", "the largest number of an input, used at the end", "tensorrt:11.2", "faulty-chain",
        model(
            "(float[1, 3, h, w] x) => (float[1, 3, h, w] y) { m = ReduceMax <keepdims = 0> (x) a = Relu (x) y ="
            " Div (a, m) }"
        ),
        (
            model(
                "(float[1, 3, h, w] x) => (float[1, 3, h, w] y) { a = Relu (x) m = ReduceMax <keepdims = 0> (a)"
                " y = Div (x, m) }"
            ),
        ),
        kind="fault",
    ),
    Problem(
        "S15", "a bound of Range that is computed from data", "tensorrt:10.1", "size-of-data",
        model(_RANGE[0], constants=_SCALARS),
        (model(_RANGE[1], constants=_SCALARS),),
    ),
    Problem(
        "S16", "ScatterND whose updates have another type", "tensorrt:10.1", "mixed-types",
        model("(float[4] x, int64[2, 1] i, double[2] u) => (float[4] y) { y = ScatterND (x, i, u) }"),
        (model("(float[4] x, int64[2, 1] i, float[2] u) => (float[4] y) { y = ScatterND (x, i, u) }"),),
        repairable=True, kind="model",
    ),
    Problem(
        "S16b", "ScatterElements whose updates have another type", "tensorrt:10.1", "mixed-types",
        model("(float[4] x, int64[2] i, int64[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }"),
        (model("(float[4] x, int64[2] i, float[2] u) => (float[4] y) { y = ScatterElements (x, i, u) }"),),
        repairable=True, kind="model",
    ),
)  # fmt: skip

PROBLEMS = tuple(
    dataclasses.replace(
        each, until=_UNTIL.get(each.identifier, ""), refused_by_rtx=_REFUSED_BY_RTX.get(each.identifier, "")
    )
    for each in _REPORTED
)
