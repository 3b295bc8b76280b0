"""Sizes that are known at export or only when the model runs, and arithmetic with them."""

from __future__ import annotations

import operator

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from opbridge.errors import TranslationError
from opbridge.onnx.builder import Builder
from opbridge.translations.lib.dims import (
    Dim,
    all_known,
    as_dims,
    axes_of,
    axis_of,
    dim_of,
    dims_of,
    element_count,
    is_static,
    maximum,
    may_be_empty,
    minimum,
    per_dim,
    positions,
    product,
    shape_of,
)

OPSET = 18


@pytest.fixture
def builder():
    builder = Builder(OPSET)
    with builder.translating():
        yield builder


def _scalar(builder, name="n"):
    return builder.value(name, ir.DataType.INT64, [])


def _tensor(builder, *shape):
    return builder.value(builder.unique("x"), ir.DataType.FLOAT, list(shape))


def _operators(builder):
    return [node.op_type for node in builder.nodes]


def _run(builder, output, feeds):
    """The number that a size has when the model runs."""
    given = {value for node in builder.nodes for value in node.inputs if value.producer() is None}
    inputs = [value for value in given if value.name in feeds]
    graph = builder.graph(inputs, [output])
    model = ir.serde.serialize_model(ir.Model(graph, ir_version=8))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)[0]


OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "minimum": lambda x, y: minimum(x, y) if isinstance(x, Dim) or isinstance(y, Dim) else min(x, y),
    "maximum": lambda x, y: maximum(x, y) if isinstance(x, Dim) or isinstance(y, Dim) else max(x, y),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_known_sizes_give_a_known_size_without_nodes(builder, name):
    apply = OPERATIONS[name]
    for left, right in ((Dim(17), Dim(5)), (Dim(17), 5), (17, Dim(5))):
        result = apply(left, right)
        assert isinstance(result, Dim)
        assert result.known == apply(17, 5)
    assert not builder.nodes


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("left, right", [("n", 5), (17, "n"), ("n", "m")])
def test_what_is_not_known_is_computed_when_the_model_runs(builder, name, left, right):
    apply, numbers = OPERATIONS[name], {"n": 17, "m": 4}
    sides = [Dim(_scalar(builder, side)) if side in numbers else side for side in (left, right)]
    result = apply(*sides)
    assert not result.is_known
    assert result.known is None
    feeds = {side: np.array(numbers[side]) for side in (left, right) if side in numbers}
    assert _run(builder, result.value, feeds) == apply(*(numbers.get(side, side) for side in (left, right)))


def test_known_divisions_round_down():
    assert (Dim(-7) // 2).known == -4
    assert (Dim(-7) % 2).known == 1
    assert (-Dim(7)).known == -7


def test_operations_that_change_nothing_build_no_nodes(builder):
    n = Dim(_scalar(builder))
    assert all(same == n for same in (n + 0, 0 + n, n - 0, n * 1, 1 * n, n // 1))
    assert all(zero == 0 for zero in (n * 0, 0 * n))
    assert not builder.nodes


def test_equality_is_about_what_is_known(builder):
    n, m = _scalar(builder, "n"), _scalar(builder, "m")
    assert Dim(3) == 3 == Dim(3)
    assert Dim(3) != 4
    assert Dim(n) == Dim(n) == n
    assert Dim(n) != Dim(m)
    assert Dim(n) != 3
    assert 3 in [Dim(n), Dim(3)]
    assert 3 not in [Dim(n), Dim(4)]
    assert not builder.nodes


def test_order_needs_numbers(builder):
    assert Dim(3) < 4 <= Dim(4)
    assert Dim(5) > Dim(4) >= 4
    with pytest.raises(TranslationError, match="required as a number at export"):
        assert Dim(_scalar(builder)) < 3


def test_a_known_size_is_an_index(builder):
    assert list(range(Dim(3))) == [0, 1, 2]
    assert int(Dim(3)) == 3
    with pytest.raises(TranslationError, match="Make the dimension static"):
        range(Dim(_scalar(builder)))


def test_a_size_is_a_whole_number():
    with pytest.raises(TypeError):
        Dim(2.0)
    assert Dim(np.int64(3)).known == 3
    assert Dim(Dim(3)).known == 3


def test_sizes_of_a_value(builder):
    x = _tensor(builder, 2, "rows", 3)
    two, rows, three = dims_of(x)
    assert (two.known, rows.known, three.known) == (2, None, 3)
    assert _operators(builder) == ["Shape", "Gather"]
    assert dim_of(x, -1).known == 3
    assert not all_known(two, rows)
    assert all_known(two, 5, three)
    assert not is_static(x)
    assert is_static(_tensor(builder, 2, 3))


def test_products_and_counts(builder):
    n = _scalar(builder)
    assert product([]) == 1
    assert product([2, Dim(3)]) == 6
    assert product([n, 0]) == 0
    assert element_count(_tensor(builder, 2, 3, 4)) == 24
    assert element_count(_tensor(builder, 2, 3, 4), [0, -1]) == 8
    assert element_count(_tensor(builder)) == 1
    assert not builder.nodes
    result = product([2, n, 3])
    assert _operators(builder) == ["Mul"]
    assert _run(builder, result.value, {"n": np.array(7)}) == 42


def test_all_elements_of_a_dynamic_value_are_counted_by_one_operator(builder):
    assert not element_count(_tensor(builder, 2, "rows", 3)).is_known
    assert _operators(builder) == ["Size"]
    assert element_count(_tensor(builder, 0, "rows")) == 0


def test_known_shapes_are_numbers_and_others_are_put_together(builder):
    assert shape_of([2, Dim(3)]) == [2, 3]
    assert shape_of([]).const_value.shape == (0,)
    n = _scalar(builder)
    assert shape_of([2, Dim(n)])[1] is n


def test_positions(builder):
    assert _run(builder, positions(Dim(_scalar(builder))), {"n": np.array(3)}).tolist() == [0, 1, 2]


def test_empty_values(builder):
    assert may_be_empty(_tensor(builder, 2, 0))
    assert not may_be_empty(_tensor(builder, 2, 0), [0])
    # Sizes of inputs are not 0, those that data decides may be.
    assert not may_be_empty(_tensor(builder, "s0"))
    assert may_be_empty(_tensor(builder, "u0"))


@pytest.mark.parametrize(
    "size, expected",
    [
        ("s0 - 10", True),
        ("rows - 1", True),
        ("2*s0 - 1", False),
        ("s0 + s1 - 1", False),
        ("Max(0, s0 - 3)", True),
        ("((s0 - 7)//2) + 1", False),
        ("s0 + 3", False),
    ],
)
def test_a_size_that_is_shorter_than_an_input_may_be_zero(builder, size, expected):
    assert may_be_empty(_tensor(builder, size)) == expected


def test_axes_are_counted_from_the_front():
    assert [axis_of(dim, 3) for dim in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert [axis_of(dim, 0) for dim in (-1, 0)] == [0, 0]
    assert axes_of([0, -1], 3) == [0, 2]
    assert axes_of(-1, 3) == [2]


def test_one_argument_stands_for_all_dimensions():
    assert per_dim(2, 3) == [2, 2, 2]
    assert per_dim([2], 3) == [2, 2, 2]
    assert per_dim((1, 2), 2) == [1, 2]
    assert as_dims((1, 2)) == [1, 2]
