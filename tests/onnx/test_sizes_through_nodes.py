"""Sizes that nodes compute, as far as the inference of shapes goes through them."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from opbridge.rules.looking import Looked

IF = """c = Equal (n, two) a = If (c) <then_branch = t () => (int64[] p) { p = Concat <axis = 0> (d, d) },
    else_branch = e () => (int64[] q) { q = Identity (d) }>"""
TWICE = " ".join(f"s{at + 1} = Add (s{at}, s{at})" for at in range(200))


def _shapes(body: str) -> list:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 6] x, float[n, 6] z, int64[1] k) => (float[] y)
        <int64[1] two = {{2}}, int64[1] one = {{1}}, int64 zero = {{0}}> {{ {body} }}"""
    made = onnx.parser.parse_model(text)
    looked = Looked(ir.from_proto(made))
    return [looked.shape(each) for each in looked.nodes[-1].outputs]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("s = Shape (x) t = Sub (s, one) y = Expand (one, t)", [1, 5]),
        ("s = Shape (x) t = Add (s, k) y = ConstantOfShape (t)", [None, None]),
        (
            "s = Shape <start = 1> (x) i = Identity (s) r = Sub (s, i) c = Concat <axis = 0> (s, r) "
            "y = ConstantOfShape (c)",
            [6, 0],
        ),
        ("s = Shape (z) t = Add (s, one) y = ConstantOfShape (t)", [None, 7]),
        (f"n = Shape <end = 1> (x) d = Shape <start = 1> (x) {IF} y = ConstantOfShape (a)", [6, 6]),
        (f"n = Shape <start = 1> (x) d = Shape <start = 1> (x) {IF} y = ConstantOfShape (a)", [6]),
        (f"n = Shape <end = 1> (z) d = Shape <start = 1> (x) {IF} y = ConstantOfShape (a)", None),
        (f"s0 = Shape (x) {TWICE} y = ConstantOfShape (s200)", [None, None]),
    ],
)  # fmt: skip
def test_sizes_that_nodes_compute(body, wanted):
    assert _shapes(body) == [wanted]


def test_the_parts_of_computed_lengths():
    body = "s = Shape <start = 1> (x) r = Sub (s, two) c = Concat <axis = 0> (two, r) y, z2 = Split <axis = 1> (x, c)"
    assert _shapes(body) == [[2, 2], [2, 4]]
