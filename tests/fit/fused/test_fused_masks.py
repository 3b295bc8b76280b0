"""What is proved of a mask, from the nodes that compute it."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from opbridge.fit.fused.elements import Elements, Linear, Unknown, axis, size
from opbridge.fit.fused.masks import Visible, visible

_SIZES = """
    <ir_version: 10, opset_import: ["" : 21]>
    agraph (int64[batch, total] mask, float[batch, 2, past, 8] cache, int64[batch, new] tokens) => ({kind}[{shape}] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64[1] first = {{0}}, int64[1] second = {{1}},
     int64 window = {{5}}, float shown = {{0.0}}, float hidden = {{-inf}}, float little = {{-1.0}}>
    {{
        past = Shape <start = 2, end = 3> (cache)
        past_scalar = Squeeze (past, first)
        new = Shape <start = 1, end = 2> (tokens)
        new_scalar = Squeeze (new, first)
        keys_size = Shape <start = 1, end = 2> (mask)
        keys_scalar = Squeeze (keys_size, first)
        steps = Range (zero, new_scalar, one)
        queries_flat = Add (steps, past_scalar)
        queries = Unsqueeze (queries_flat, second)
        keys = Range (zero, keys_scalar, one)
        seen_mask = Cast <to = 9> (mask)
        {nodes}
    }}
"""


def _proved(nodes, *, kind="bool", shape="new, total", past="past"):
    model = ir.from_onnx_text(_SIZES.format(nodes=nodes, kind=kind, shape=shape))
    for node in model.graph:
        for each in node.outputs:
            each.shape = each.shape or _RANKS.get(each.name)
    return visible(Elements(), model.graph.outputs[0], size(past))


_RANKS = {
    "past_scalar": ir.Shape([]),
    "new_scalar": ir.Shape([]),
    "keys_scalar": ir.Shape([]),
    "steps": ir.Shape(["new"]),
    "queries_flat": ir.Shape(["new"]),
    "queries": ir.Shape(["new", 1]),
    "keys": ir.Shape(["total"]),
}


def test_causal():
    assert _proved("y = LessOrEqual (keys, queries)") == Visible()
    assert _proved("y = GreaterOrEqual (queries, keys)") == Visible()


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Less (keys, queries)",  # a query does not see itself
        "y = GreaterOrEqual (keys, queries)",
        "steps_column = Unsqueeze (steps, second) y = LessOrEqual (keys, steps_column)",  # without the cache
    ],
)
def test_other_orders_are_not_causal(nodes):
    assert _proved(nodes) is None


def test_a_window():
    nodes = """
        causal = LessOrEqual (keys, queries)
        start = Sub (queries, window)
        near = Greater (keys, start)
        y = And (causal, near)
    """
    assert _proved(nodes) == Visible(window=5)
    assert _proved(nodes.replace("Greater (", "GreaterOrEqual (")) == Visible(window=6)
    assert _proved(nodes.replace("And (causal, near)", "And (near, near)")) is None
    assert _proved(nodes.replace("And (causal", "Or (causal")) is None


def test_padding():
    nodes = """
        causal = LessOrEqual (keys, queries)
        third_column = Unsqueeze (seen_mask, second)
        y = And (causal, third_column)
    """
    assert _proved(nodes, shape="batch, new, total") is None  # the batch is not the first of four dimensions
    nodes = nodes.replace("y = And (causal, third_column)", "z = Unsqueeze (third_column, second) y = And (causal, z)")
    assert _proved(nodes, shape="batch, 1, new, total") == Visible(padding="mask")


def test_numbers_that_are_added():
    nodes = "causal = LessOrEqual (keys, queries) y = Where (causal, shown, hidden)"
    assert _proved(nodes, kind="float") == Visible()
    assert _proved(nodes.replace("hidden)", "little)"), kind="float") is None  # which hides nothing
    assert _proved(nodes.replace("shown, hidden", "hidden, shown"), kind="float") is None


def test_expressions_that_grow_without_end_are_not_followed():
    steps = " ".join(f"x{at + 1} = Mul (x{at}, x{at})" for at in range(64))
    nodes = f"x0 = Cos (shown) {steps} wide = Expand (x64, keys_size) y = Identity (wide)"
    assert _proved(nodes, kind="float", shape="total") is None
    steps = " ".join(f"x{at + 1} = Identity (x{at})" for at in range(2000))
    assert _proved(f"x0 = LessOrEqual (keys, queries) {steps} y = Identity (x2000)") is None


def test_sizes_are_sums_of_names():
    past = Linear(frozenset([(("size", "past"), 1)]))
    assert size("past + 3") == past.plus(Linear(number=3))
    assert size("2*past").terms == frozenset([(("size", "2*past"), 1)])
    assert size("past + past") == past.times(2)
    with pytest.raises(Unknown):
        size(None)
    assert axis(0).plus(axis(0), -1) == Linear()
